class AlongNodes:
    """reduce() is a communication hook: buckets are reduced inside each node, then between nodes, and gathered inside again."""

    def __init__(self, gpus_per_node):
        world, rank = torch.distributed.get_world_size(), torch.distributed.get_rank()
        self.share = min(gpus_per_node, world)
        if world % self.share:
            raise ValueError(f"{world} workers do not fill nodes of {self.share} GPUs")
        nodes = [list(range(first, first + self.share)) for first in range(0, world, self.share)]
        peers = [list(range(place, world, self.share)) for place in range(self.share)]
        made = [(ranks, torch.distributed.new_group(ranks)) for ranks in nodes + peers]
        self.inside = next(group for ranks, group in made[: len(nodes)] if rank in ranks)
        self.between = next(group for ranks, group in made[len(nodes) :] if rank in ranks)
        self.stream = torch.cuda.Stream() if torch.cuda.is_available() else None

    def reduce(self, _, bucket):
        flat = bucket.buffer()
        devices = [flat.device] if flat.is_cuda else []
        done = torch.futures.Future(devices=devices)
        if self.stream:
            self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream) if flat.is_cuda else contextlib.nullcontext():
            whole = torch.nn.functional.pad(flat, (0, -flat.numel() % self.share))
            mine = torch.empty_like(whole[: whole.numel() // self.share])
            torch.distributed.reduce_scatter_tensor(mine, whole, group=self.inside)
            torch.distributed.all_reduce(mine, group=self.between)
            torch.distributed.all_gather_into_tensor(whole, mine / torch.distributed.get_world_size(), group=self.inside)
            flat.copy_(whole[: flat.numel()])
            done.set_result(flat)
        return done
