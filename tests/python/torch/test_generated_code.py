"""What --code-out writes, run on the CPU: every plan trains, as the plain step does where it must, also on two workers."""

import importlib.util
import os
import subprocess
import sys
import textwrap
import warnings
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "code"))
from plans import ATTENTION_PLANS, PLANS, write_plans

# Plans whose arithmetic is that of the plain step.
SAME = ["nothing", "accumulate", "channels_last", "checkpoint", "checkpoint_layers", "offload", "offload_prefetch", "foreach",
        "fused", "cuda_graph", "no_sync", "tf32"]


@pytest.fixture(scope="session")
def files(tmp_path_factory):
    program = os.environ.get("FORETRACE_PROGRAM")
    command = [program] if program else [sys.executable, "-m", "foretrace"]
    return write_plans(tmp_path_factory.mktemp("plans"), command)


def loaded(path: Path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(command, **environment):
    done = subprocess.run([sys.executable, *map(str, command)], capture_output=True, text=True, timeout=300,
                          env={**os.environ, "OMP_NUM_THREADS": "1", **environment})
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("name", [*PLANS, *ATTENTION_PLANS])
def test_it_runs_and_is_timed(files, name):
    if name not in files:
        pytest.skip("FORETRACE_TRUTH is not set")
    out = run([files[name], "--time", "--steps", "2"])
    assert out.startswith("before ") and "\nafter " in out and "predicted for the traced step" in out


def test_it_times_a_job_of_ones_own(files, tmp_path):
    (tmp_path / "train.py").write_text(textwrap.dedent("""
        import torch
        def job():
            model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
            return model, torch.nn.functional.mse_loss, torch.randn(4, 8), torch.randn(4, 1), torch.optim.SGD
    """))
    assert "after " in run([files["fused"], "--time", f"{tmp_path / 'train.py'}:job", "--steps", "1"])


class Small(torch.nn.Module):
    """No batch norm: a batch in parts is then the batch."""

    def __init__(self):
        super().__init__()
        block = lambda: torch.nn.Sequential(torch.nn.Conv2d(4, 4, 3, padding=1), torch.nn.Tanh())
        self.stem = torch.nn.Conv2d(3, 4, 3)
        self.layer1 = torch.nn.Sequential(block(), block())
        self.head = torch.nn.Linear(4, 5)

    def forward(self, x):
        return self.head(self.layer1(self.stem(x)).mean((2, 3)))


def trained(plan, batches):
    torch.manual_seed(1)
    model = Small()
    loss_fn = torch.nn.functional.cross_entropy
    if plan is None:
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
        losses = []
        for inputs, targets in batches:
            optimizer.zero_grad()
            loss = loss_fn(model(inputs), targets)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    else:
        model = plan.prepare(model)
        step = plan.make_step(model, plan.make_optimizer(torch.optim.Adam, model.parameters(), lr=1e-2), loss_fn)
        losses = [step(*batch).item() for batch in batches]
    return losses, [p.detach() for p in model.parameters()]


@pytest.mark.parametrize("name", SAME)
def test_it_trains_as_the_plain_step(files, name):
    torch.manual_seed(0)
    batches = [(torch.randn(n, 3, 6, 6), torch.randint(5, (n,))) for n in (7, 7, 7, 7, 3)]  # 7 samples in 4 parts
    plain, parameters = trained(None, batches)
    module = loaded(files[name])
    # The plan was made for a ResNet: its names are not all here.
    module.modules_named = lambda model, *patterns: [m for n, m in model.named_modules() if n in patterns]
    if name == "channels_last":
        module.torch = _without_autocast()
    losses, after = trained(module, batches)
    assert losses == pytest.approx(plain, rel=1e-4)
    for a, b in zip(parameters, after):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-5)


def _without_autocast():
    """torch, but for mixed precision: what else the plan does must not change a result."""
    import contextlib
    import types

    other = types.ModuleType("torch")
    other.__dict__.update(torch.__dict__)
    other.autocast = lambda *args, **options: contextlib.nullcontext()
    return other


def test_inputs_are_channels_last_too(files):
    plan = loaded(files["channels_last"])
    seen = []
    model = plan.prepare(Small())
    model.stem.register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    step = plan.make_step(model, plan.make_optimizer(torch.optim.SGD, model.parameters(), lr=0.1),
                          torch.nn.functional.cross_entropy)
    step(torch.randn(4, 3, 6, 6), torch.randint(5, (4,)))
    assert seen[0].is_contiguous(memory_format=torch.channels_last)
    assert model.stem.weight.is_contiguous(memory_format=torch.channels_last)


def test_batches_may_be_dictionaries(files):
    plan = loaded(files["accumulate"])
    parts = list(plan.parts_of({"x": torch.arange(10), "scale": 2}, torch.arange(10), 4))
    assert [len(y) for _, y, _ in parts] == [3, 3, 3, 1]
    assert sum(share for *_, share in parts) == pytest.approx(1)
    assert plan.forward(lambda x, scale: x * scale, parts[1][0]).tolist() == [6, 8, 10]


def test_compiling_keeps_the_names_of_parameters(files):
    model = Small()
    names = list(model.state_dict())
    assert list(loaded(files["compile"]).prepare(model).state_dict()) == names


def test_modules_are_found_by_name_pattern_and_number(files):
    plan = loaded(files["compile_layers"])
    model = Small()
    assert plan.modules_named(model, "layer1.*") == [*model.layer1]
    assert plan.modules_named(model, "Conv2d_1") == [model.layer1[0][0]]
    with pytest.raises(LookupError, match="no module 'layer2'; near: layer1"):
        plan.modules_named(model, "layer2")


def test_models_with_a_switch_use_it_for_attention(files):
    if "flash_attention" not in files:
        pytest.skip("FORETRACE_TRUTH is not set")
    plan = loaded(files["flash_attention"])
    model = Small()
    with pytest.warns(UserWarning, match="scaled_dot_product_attention"):
        plan.prepare(model)
    model.set_attn_implementation = lambda name: setattr(model, "attention", name)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert plan.prepare(model).attention == "sdpa"


WORKER = """
import importlib.util, sys, torch
import torch.distributed as dist
rank, world, meet, path, out = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4], sys.argv[5]
torch.manual_seed(rank)  # workers that begin with different parameters must be brought together
dist.init_process_group("gloo", init_method="file://" + meet, rank=rank, world_size=world)
spec = importlib.util.spec_from_file_location("plan", path)
plan = importlib.util.module_from_spec(spec)
spec.loader.exec_module(plan)
plan.modules_named = lambda model, *patterns: []
block = lambda: torch.nn.Sequential(torch.nn.Linear(6, 6), torch.nn.Tanh())
model = torch.nn.Sequential(torch.nn.Sequential(block(), block()), torch.nn.Linear(6, 3))
if "fsdp" in path or "zero2" in path:  # shards what it is given
    torch.manual_seed(7)
    for p in model.parameters(): torch.nn.init.normal_(p)
model = plan.prepare(model)
step = plan.make_step(model, plan.make_optimizer(torch.optim.Adam, model.parameters(), lr=1e-2),
                      torch.nn.functional.cross_entropy)
torch.manual_seed(100 + rank)
for _ in range(3):
    step(torch.randn(4, 6), torch.randint(3, (4,)))
full = [p.full_tensor() if hasattr(p, "full_tensor") else p for p in model.parameters()]
torch.save([p.detach() for p in full], f"{out}.{rank}")
dist.destroy_process_group()
"""


def on_workers(tmp_path, path, world=2):
    script = tmp_path / "worker.py"
    script.write_text(WORKER)
    out = tmp_path / path.stem
    meet = tmp_path / f"{path.stem}.meet"
    processes = [subprocess.Popen([sys.executable, script, str(rank), str(world), meet, path, out], stderr=subprocess.PIPE,
                                  text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}) for rank in range(world)]
    for process in processes:
        _, err = process.communicate(timeout=300)
        assert process.returncode == 0, err
    return [torch.load(f"{out}.{rank}") for rank in range(world)]


@pytest.mark.parametrize("name", [n for n, (_, c) in PLANS.items() if c and n not in ("ddp", "by_hand")])
def test_workers_stay_together_and_agree_with_plain_ddp(files, tmp_path, name):
    first, second = on_workers(tmp_path, files[name])
    for a, b in zip(first, second):
        torch.testing.assert_close(a, b, rtol=0, atol=0)
    if name in ("plan", "ddp_compile", "zero1", "blueconnect"):  # the same arithmetic
        for a, b in zip(first, on_workers(tmp_path, files["ddp"])[0]):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-6)
