class CapturedForward:
    """A forward pass as one CUDA graph: the first inputs run as they are, then one pass is recorded and played. Inputs of another shape, or on the
    CPU, run without the graph. What comes back is overwritten by the next call."""

    def __init__(self, model):
        self.model, self.warm_up, self.graph = model, 3, None

    def __call__(self, inputs):
        on_gpu = all(tensor.is_cuda for tensor in tensors_of(inputs))
        if not on_gpu or self.warm_up > 0:
            self.warm_up -= on_gpu
            return infer(self.model, inputs)
        if self.graph is None:
            self.inputs = each_tensor(torch.clone, inputs)
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self.outputs = infer(self.model, self.inputs)
        if [t.shape for t in tensors_of(inputs)] != [t.shape for t in tensors_of(self.inputs)]:
            return infer(self.model, inputs)
        for static, tensor in zip(tensors_of(self.inputs), tensors_of(inputs)):
            static.copy_(tensor, non_blocking=True)
        self.graph.replay()
        return self.outputs
