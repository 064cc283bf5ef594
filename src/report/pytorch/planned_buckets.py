class PlannedBuckets:
    """Reduces gradients in the buckets of a plan while backward goes on; wait() before the update.

    Gradients are numbered as the first backward pass makes them; `parts` says for the last one of each bucket in how many
    parts it is reduced.
    """

    def __init__(self, model, parts):
        self.parts, self.place, self.bucket, self.work, self.active = parts, {}, [], [], True
        for tensor in [*model.parameters(), *model.buffers()]:  # all workers begin with the same
            torch.distributed.broadcast(tensor.detach(), 0)
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.register_post_accumulate_grad_hook(self.ready)

    def ready(self, parameter):
        place = self.place.setdefault(parameter, len(self.place))
        if not self.active:
            return
        self.bucket.append(parameter.grad)
        if place in self.parts:
            self.reduce(self.parts[place])

    def reduce(self, parts=1):
        flat = torch.cat([gradient.reshape(-1) for gradient in self.bucket])
        flat /= torch.distributed.get_world_size()
        work = [torch.distributed.all_reduce(part, async_op=True) for part in flat.chunk(parts)]
        self.work.append((work, flat, self.bucket))
        self.bucket = []

    def wait(self):
        if self.bucket:
            self.reduce()
        for work, flat, gradients in self.work:
            for part in work:
                part.wait()
            for gradient, part in zip(gradients, flat.split([g.numel() for g in gradients])):
                gradient.copy_(part.view_as(gradient))
        self.work.clear()
