def compressed_activations(model, bits):
    """Large FP32 tensors wait for backward in 16 bits, or in 8 with a scale of their own; parameters stay as they are."""
    parameters = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}

    def pack(tensor):
        small = tensor.dtype != torch.float32 or tensor.numel() < 1 << 18
        if small or tensor.untyped_storage().data_ptr() in parameters:
            return tensor, None
        if bits == 16:
            return tensor.half(), 1.0
        scale = tensor.abs().amax() / 127 + 1e-12
        return (tensor / scale).round().to(torch.int8), scale

    def unpack(packed):
        tensor, scale = packed
        return tensor if scale is None else tensor.float() * scale if bits == 8 else tensor.float()

    return torch.autograd.graph.saved_tensors_hooks(pack, unpack)
