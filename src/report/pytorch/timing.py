class Block(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv = torch.nn.Conv2d(width, width, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(width)

    def forward(self, x):
        return x + torch.relu(self.norm(self.conv(x)))


class Stage(torch.nn.Module):
    def forward(self, x):
        for child in self.children():
            x = child(x)
        return x


def small_job(width=8):
    """A model of a few blocks that has the modules the plan names: enough to see that the plan runs."""
    torch.manual_seed(0)
    model = Stage()
    model.stem = torch.nn.Conv2d(3, width, 3, padding=1)
    names = [name.replace("*", "0").replace("?", "0") for name in LAYERS]
    for name in names:
        parent = model
        *above, last = name.split(".")
        for part in above:
            if not hasattr(parent, part):
                parent.add_module(part, Stage())
            parent = getattr(parent, part)
        if not any(other.startswith(name + ".") for other in names):
            parent.add_module(last, Block(width))
    model.blocks = torch.nn.Sequential(*(Block(width) for _ in range(4)))
    model.head = torch.nn.Sequential(torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(width, 10))
    inputs, targets = torch.randn(6, 3, 12, 12), torch.randint(10, (6,))
    return model, torch.nn.functional.cross_entropy, inputs, targets


def job_of(place):
    """train.py:job, a function that returns model, loss_fn, inputs, targets and, if it likes, the optimizer's class."""
    path, _, name = place.rpartition(":")
    scope = runpy.run_path(path)
    if name not in scope:
        raise SystemExit(f"{path} has no function {name}")
    return scope[name]()


def join_workers(device):
    """The group torchrun describes; without torchrun, a group of this process alone."""
    backend = "nccl" if device.type == "cuda" else "gloo"
    if "RANK" in os.environ:
        torch.distributed.init_process_group(backend)
    else:
        torch.distributed.init_process_group(backend, store=torch.distributed.HashStore(), rank=0, world_size=1)


def milliseconds(step, batch, steps, rounds=5):
    """Of a step, the median of a few rounds; the first steps, which compile and record, are not among them."""
    on_gpu = torch.cuda.is_available()
    wait = torch.cuda.synchronize if on_gpu else lambda: None
    for _ in range(15 if on_gpu else 3):
        step(*batch)
    means = []
    for _ in range(rounds):
        wait()
        begin = time.perf_counter()
        for _ in range(steps):
            loss = step(*batch)
        wait()
        means.append((time.perf_counter() - begin) / steps * 1e3)
    if not math.isfinite(float(loss)):
        print(f"the loss is {float(loss)}: this step does not train", file=sys.stderr)
    return statistics.median(means)


def plain_step(model, optimizer, loss_fn):
    def step(inputs, targets):
        optimizer.zero_grad(set_to_none=True)
        loss = loss_fn(forward(model, inputs), targets)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def main():
    parser = argparse.ArgumentParser(description="The step before and after the plan.")
    parser.add_argument("--time", nargs="?", const="", metavar="FILE:FUNCTION", required=True,
                        help="of a small model, or of what the function returns: model, loss_fn, inputs, targets[, optimizer class]")
    parser.add_argument("--steps", type=int, default=10, help="in a round (default: 10)")
    asked = parser.parse_args()
    model, loss_fn, inputs, targets, *rest = job_of(asked.time) if asked.time else small_job()
    cls = rest[0] if rest else torch.optim.Adam
    place = int(os.environ.get("LOCAL_RANK", 0))
    device = torch.device("cuda", place) if torch.cuda.is_available() else torch.device("cpu")
    if device.type == "cuda":
        torch.cuda.set_device(device)
    if WORKERS > 1:
        join_workers(device)
    batch = each_tensor(lambda tensor: tensor.to(device), [inputs, targets])
    model = model.to(device)
    today = copy.deepcopy(model)
    if WORKERS > 1:
        today = torch.nn.parallel.DistributedDataParallel(today)
    before = milliseconds(plain_step(today, cls(today.parameters(), lr=1e-3), loss_fn), batch, asked.steps)
    del today
    model = prepare(model)
    after = milliseconds(make_step(model, make_optimizer(cls, model.parameters(), lr=1e-3), loss_fn), batch, asked.steps)
    print(f"before {before:10.2f} ms\nafter  {after:10.2f} ms  {before / after:.2f} x", end="  ")
    print("(predicted for the traced step: {:.2f} ms -> {:.2f} ms, {:.2f} x)".format(*PREDICTED_MS, PREDICTED_MS[0] / PREDICTED_MS[1]))
    if WORKERS > 1:
        if "RANK" not in os.environ:
            print(f"one worker: torchrun --nproc-per-node=N {sys.argv[0]} --time for several", file=sys.stderr)
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
