class offloaded_on_side_streams(torch.autograd.graph.saved_tensors_hooks):
    """Activations of a megabyte and more wait in the host's memory; copies run on streams of their own, and each comes
    back while the one that was saved behind it is used."""

    memory = {}  # pinned, by layout: used again from step to step

    def __init__(self, model):
        self.kept = []
        self.parameters = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
        self.streams = [torch.cuda.Stream() for _ in range(2)] if torch.cuda.is_available() else []
        super().__init__(self.pack, self.unpack)

    def pack(self, tensor):
        if not tensor.is_cuda or tensor.nbytes < 1 << 20 or tensor.untyped_storage().data_ptr() in self.parameters:
            return tensor
        free = self.memory.setdefault((tensor.shape, tensor.dtype, tensor.stride()), [])
        host = free.pop() if free else torch.empty_like(tensor, device="cpu", pin_memory=True)
        out = self.streams[0]
        out.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(out):
            host.copy_(tensor, non_blocking=True)
        tensor.record_stream(out)
        self.kept.append({"host": host, "device": tensor.device, "copied": out.record_event(), "tensor": None})
        return len(self.kept) - 1

    def fetch(self, place):
        entry = self.kept[place]
        if entry is None or entry["tensor"] is not None:
            return
        back = self.streams[1]
        back.wait_event(entry["copied"])
        with torch.cuda.stream(back):
            entry["tensor"] = entry["host"].to(entry["device"], non_blocking=True)
        entry["arrived"] = back.record_event()

    def unpack(self, packed):
        if torch.is_tensor(packed):
            return packed
        self.fetch(packed)
        if packed > 0:
            self.fetch(packed - 1)
        entry, self.kept[packed] = self.kept[packed], None
        torch.cuda.current_stream().wait_event(entry["arrived"])
        tensor, host = entry["tensor"], entry["host"]
        tensor.record_stream(torch.cuda.current_stream())
        self.memory.setdefault((tensor.shape, tensor.dtype, tensor.stride()), []).append(host)
        return tensor
