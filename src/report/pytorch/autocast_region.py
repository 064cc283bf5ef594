def autocast_region(module, dtype, ends):
    """The module computes under autocast; where the region ends, its results go on in FP32."""
    inner = module.forward

    def widened(tensor):
        return tensor.float() if tensor.dtype == dtype else tensor

    def region(*args, **kwargs):
        device = next((t.device.type for t in tensors_of([args, kwargs])), "cuda")
        with torch.autocast(device, dtype=dtype):
            result = inner(*args, **kwargs)
        return each_tensor(widened, result) if ends else result

    module.forward = region
