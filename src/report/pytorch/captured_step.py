def recordable(cls, options):
    """Options of an optimizer that keeps its counters on the GPU, where it can, and its learning rate as a tensor: a
    scheduler then reaches into the recording."""
    known = inspect.signature(cls).parameters
    if "capturable" not in known:
        return options
    rate = options.get("lr", known["lr"].default)
    return {**options, "capturable": True, "lr": torch.as_tensor(rate, dtype=torch.float32, device="cuda")}


class CapturedStep:
    """The whole step as one CUDA graph.

    The first batches run as they are, on a side stream: libraries choose their kernels there, and the optimizer makes its
    states. Then one step is recorded; from there on batches are copied into its inputs and the recording is played. A batch
    of another shape (the last one of an epoch) runs without the graph. Without a GPU every batch does.
    """

    def __init__(self, model, optimizer, loss_fn, scaler=None):
        self.model, self.optimizer, self.loss_fn, self.scaler = model, optimizer, loss_fn, scaler
        distributed = isinstance(model, torch.nn.parallel.DistributedDataParallel)
        self.warm_up = 11 if distributed else 3  # DistributedDataParallel lays its buckets out anew during the first ten
        self.stream, self.graph, self.rates = None, None, None
        # A scaler that looks at its check on the CPU cannot be recorded: the update then runs behind the graph.
        self.updates = scaler is None or getattr(optimizer, "_step_supports_amp_scaling", False)

    def __call__(self, inputs, targets):
        batch = [inputs, targets]
        if not all(tensor.is_cuda for tensor in tensors_of(batch)):
            return train_step(self.model, self.optimizer, self.loss_fn, inputs, targets, self.scaler)
        if self.graph is None and self.warm_up > 0:
            return self.warm(inputs, targets)
        # A recording holds the learning rate it was made with, unless that is a tensor.
        rates = [group["lr"] for group in self.optimizer.param_groups if not torch.is_tensor(group["lr"])]
        if self.graph is None or rates != self.rates:
            self.record(batch)
            self.rates = rates
        if [t.shape for t in tensors_of(batch)] != [t.shape for t in tensors_of(self.batch)]:
            return train_step(self.model, self.optimizer, self.loss_fn, inputs, targets, self.scaler)
        for static, tensor in zip(tensors_of(self.batch), tensors_of(batch)):
            static.copy_(tensor, non_blocking=True)
        self.graph.replay()
        if not self.updates:
            update(self.optimizer, self.scaler)
        return self.loss.clone()

    def warm(self, inputs, targets):
        self.warm_up -= 1
        self.stream = self.stream or torch.cuda.Stream()
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            loss = train_step(self.model, self.optimizer, self.loss_fn, inputs, targets, self.scaler)
        torch.cuda.current_stream().wait_stream(self.stream)
        return loss

    def record(self, batch):
        self.batch = [arranged(each_tensor(torch.clone, batch[0])), each_tensor(torch.clone, batch[1])]
        self.optimizer.zero_grad(set_to_none=True)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.loss = compute_gradients(self.model, self.optimizer, self.loss_fn, *self.batch, self.scaler)
            if self.updates:
                update(self.optimizer, self.scaler)
