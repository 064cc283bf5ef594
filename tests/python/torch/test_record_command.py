"""`foretrace record -- COMMAND` around programs that know nothing of it."""

import gzip
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import foretrace
import pytest

SHORT = ["--after", "2", "--measure", "3", "--steps", "2"]
NEEDED = 2 + 1 + 3 + 3 + 2
LOOP = """
import sys, torch
torch.set_num_threads(1)
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU())
optimizer = torch.optim.AdamW(net.parameters())
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 100)
def step():
    optimizer.zero_grad()
    loss = net(torch.randn(4, 8)).square().mean()
    loss.backward()
    optimizer.step()
    schedule.step()
    return loss.item()
"""


def recorded(tmp_path, program, *arguments, options=SHORT, environment=None, launcher=()):
    """Runs a program under `record`; `.files` are what it left."""
    script = tmp_path / "program.py"
    script.write_text(textwrap.dedent(program))
    launch = [*launcher, str(script)] if launcher else [sys.executable, str(script)]
    out = tmp_path / "out"
    done = subprocess.run([sys.executable, "-m", "foretrace", "record", *options, "-o", str(out / "t.json.gz"), "--",
                           *launch, *arguments], capture_output=True, text=True, timeout=240, cwd=tmp_path,
                          env=os.environ | {"OMP_NUM_THREADS": "1"} | (environment or {}))
    done.files = sorted(os.listdir(out)) if out.exists() else []
    done.ours = [line for line in done.stderr.splitlines() if line.startswith("foretrace: ")]
    return done


def plainly(tmp_path, *arguments):
    return subprocess.run([sys.executable, str(tmp_path / "program.py"), *arguments], capture_output=True, text=True,
                          cwd=tmp_path, env=os.environ | {"OMP_NUM_THREADS": "1"})


def steps_of(path, key="Optimizer.step#AdamW.step"):
    """Optimizer steps that lie in each traced step, whole."""
    with gzip.open(path) as file:
        events = json.load(file)["traceEvents"]
    spans = {e["name"]: (e["ts"], e["ts"] + e["dur"]) for e in events if e["name"].startswith("ProfilerStep#")}
    inside = [(e["ts"], e["ts"] + e["dur"]) for e in events if e["name"] == key]
    return [sum(a <= x and y <= b for x, y in inside) for a, b in spans.values()]


def test_a_plain_loop(tmp_path):
    done = recorded(tmp_path, LOOP + f"for i in range({NEEDED + 3}): print(i, step())\nsys.exit(7)")
    assert done.returncode == 7 and done.files == ["t.json.gz"]
    assert done.stdout == plainly(tmp_path).stdout
    path = tmp_path / "out" / "t.json.gz"
    assert steps_of(path) == [1, 1]
    trace = foretrace.load(path)
    figures = foretrace.recorded_figures(trace)
    assert figures["measured_steps"] == 3 and figures["traced_steps"] == 2 and figures["layer_ranges"] == 2
    assert sum("nothing ran on a GPU" in line for line in done.ours) == 1
    assert sum("recorded 2 steps in out" in line for line in done.ours) == 1 and len(done.ours) == 2


def test_a_loop_that_ends_early_says_so_once(tmp_path):
    done = recorded(tmp_path, LOOP + f"for i in range({NEEDED - 4}): step()")
    assert done.returncode == 0 and done.files == []
    assert len(done.ours) == 1 and "before a step was traced" in done.ours[0]


def test_a_program_that_never_steps(tmp_path):
    done = recorded(tmp_path, "import torch; print('hello')")
    assert (done.returncode, done.stdout, done.files) == (0, "hello\n", [])
    assert len(done.ours) == 1 and "no optimizer of torch.optim stepped" in done.ours[0]
    done = recorded(tmp_path, "print('hello')")
    assert (done.returncode, done.stdout) == (0, "hello\n") and "neither PyTorch nor JAX" in done.ours[0]


@pytest.mark.parametrize("at", [3, NEEDED - 2, NEEDED + 2])
def test_a_program_that_fails(tmp_path, at):
    done = recorded(tmp_path, LOOP + f"""
for i in range({NEEDED + 5}):
    step()
    if i == {at}: raise ValueError("mine")
""")
    assert done.returncode == 1 and 'ValueError: mine' in done.stderr
    # What was complete before stays; what was not leaves nothing, not even a hidden folder.
    assert done.files == (["t.json.gz"] if at > NEEDED else [])
    if at < NEEDED:
        assert "ended with ValueError" in done.ours[0] or "while its steps" in done.ours[0]


@pytest.mark.parametrize("end, code", [("os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL), ("os.abort()", -signal.SIGABRT),
                                       ("os._exit(9)", 9)])
def test_a_program_that_dies(tmp_path, end, code):
    """In the middle of the trace, where no handler of Python's runs."""
    done = recorded(tmp_path, LOOP + f"""
import os, signal
for i in range({NEEDED + 5}):
    step()
    if i == {NEEDED - 2}: {end}
""")
    assert done.returncode == code and done.files == []


def test_a_program_that_becomes_another(tmp_path):
    """exec keeps the process and its number; what it becomes is recorded."""
    done = recorded(tmp_path, LOOP + f"""
import os, sys
step()
if len(sys.argv) == 1: os.execv(sys.executable, [sys.executable, sys.argv[0], "again"])
for i in range({NEEDED + 5}): step()
sys.exit(6)
""")
    assert done.returncode == 6 and done.files == ["t.json.gz"], done.stderr


def test_a_child_by_fork_does_not_write(tmp_path):
    done = recorded(tmp_path, LOOP + f"""
import os, sys
for i in range({NEEDED - 2}): step()
child = os.fork()
if child == 0:
    for i in range(9): step()
    os._exit(3)
print("child", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
for i in range(9): step()
sys.exit(5)
""")
    assert (done.returncode, done.stdout) == (5, "child 3\n"), done.stderr
    assert done.files == ["t.json.gz"]


def test_a_signal_reaches_the_program(tmp_path):
    script = tmp_path / "wait.py"
    script.write_text("import signal, sys, time\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit(5))\n"
                      "print('ready', flush=True)\ntime.sleep(60)")
    running = subprocess.Popen([sys.executable, "-m", "foretrace", "record", "--", sys.executable, str(script)],
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=tmp_path)
    assert running.stdout.readline() == "ready\n"
    running.send_signal(signal.SIGTERM)
    assert running.wait(20) == 5
    running.stdout.close()


def test_wrong_usage(tmp_path):
    def code(*arguments):
        return subprocess.run([sys.executable, "-m", "foretrace", "record", *arguments], capture_output=True, cwd=tmp_path)

    for wrong in ([], ["--steps", "0", "--", "true"], ["--what", "--", "true"], ["-o", "x.txt", "--", "true"], ["--"]):
        assert code(*wrong).returncode == 2, wrong
    assert code("--", "no-such-program").returncode == 127
    assert code("--", str(tmp_path)).returncode == 126
    assert code("--", "sh", "-c", "exit 4").returncode == 4 and code("sh", "-c", "exit 4").returncode == 4
    # What stands behind -- is the program's, help included.
    assert code("--", sys.executable, "-c", "import sys; print(sys.argv[1])", "--help").stdout == b"--help\n"
    assert b"usage: foretrace record" in code("--help").stdout


def test_the_library_for_cuda_programs_is_named(tmp_path):
    """Where it is at hand, CUDA is told of it, unless another tool is there already; --cuda asks for it alone."""
    library = tmp_path / "libforetrace_cuda.so"
    library.touch()
    show = "import os; print(*(os.environ.get(n) for n in ('CUDA_INJECTION64_PATH', 'FORETRACE_CUDA', 'FORETRACE_RECORD')), sep='|')"
    found = {"FORETRACE_CUDA_LIBRARY": str(library)}
    named, always, asked = recorded(tmp_path, show, environment=found).stdout.strip().split("|")
    assert named == str(library) and always == "None" and asked.startswith("{")
    assert recorded(tmp_path, show, environment=found | {"CUDA_INJECTION64_PATH": "x"}).stdout.startswith("x|")
    done = recorded(tmp_path, show, environment=found, options=["--cuda"])
    assert done.stdout == f"{library}|always|None\n" and done.returncode == 0
    done = recorded(tmp_path, show, options=["--cuda"], environment={"FORETRACE_CUDA_LIBRARY": str(tmp_path / "none.so")})
    assert done.stdout == "None|None|None\n" and done.returncode == 0 and "FORETRACE_INJECTION" in done.ours[0]


def test_the_users_own_sitecustomize_runs(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "sitecustomize.py").write_text("import builtins\nbuiltins.mine = __file__\n")
    path = os.pathsep.join([str(tmp_path / "mine"), os.environ.get("PYTHONPATH", "")])
    done = recorded(tmp_path, "import sys, sitecustomize\nprint(mine, sitecustomize.__file__)\nprint(*sys.path)",
                    environment={"PYTHONPATH": path})
    plain = subprocess.run([sys.executable, str(tmp_path / "program.py")], capture_output=True, text=True,
                           env=os.environ | {"PYTHONPATH": path})
    assert done.stdout == plain.stdout and "_inject" not in done.stdout and done.returncode == 0


def test_two_optimizers_make_one_step(tmp_path):
    done = recorded(tmp_path, LOOP + f"""
other = torch.optim.SGD(net.parameters(), 0.01)
for i in range({NEEDED + 3}):
    other.zero_grad(); net(torch.randn(4, 8)).sum().backward(); other.step()
    step()
""")
    path = tmp_path / "out" / "t.json.gz"
    assert done.files == ["t.json.gz"]
    assert steps_of(path) == [1, 1] and steps_of(path, "Optimizer.step#SGD.step") == [1, 1]


def test_an_optimizer_around_another(tmp_path):
    done = recorded(tmp_path, LOOP + f"""
class Twice(torch.optim.SGD):
    def step(self, closure=None):
        with torch.enable_grad(): closure()
        return super().step()
torch.optim.SGD(net.parameters(), 0.1).step()
optimizer = Twice(net.parameters(), 0.1)
def closure():
    optimizer.zero_grad(); net(torch.randn(4, 8)).sum().backward()
for i in range({NEEDED + 4}): optimizer.step(closure)
""")
    assert done.files == ["t.json.gz"]
    assert steps_of(tmp_path / "out" / "t.json.gz", "Optimizer.step#Twice.step")[0] >= 1
    figures = foretrace.recorded_figures(foretrace.load(tmp_path / "out" / "t.json.gz"))
    assert figures["phase_ms"]["update"] < 0.7 * figures["measured_ms"]  # backward in the closure is not the update's


def test_a_compiled_step_is_left_alone(tmp_path):
    done = recorded(tmp_path, LOOP + f"""
compiled = torch.compile(lambda: optimizer.step(), backend="eager", fullgraph=False)
for i in range({NEEDED + 3}):
    optimizer.zero_grad(); net(torch.randn(4, 8)).sum().backward(); compiled()
print("done")
""")
    assert done.returncode == 0 and done.stdout == "done\n"


def test_worker_processes_are_no_trainings(tmp_path):
    done = recorded(tmp_path, LOOP.replace("import sys", "import sys\nif __name__ == '__main__': print('main')\nimport sys", 1) + f"""
if __name__ == "__main__":
    for start in ("fork", "spawn"):
        for _ in torch.utils.data.DataLoader(list(range(4)), num_workers=2, multiprocessing_context=start): pass
    for i in range({NEEDED + 2}): step()
""")
    assert done.returncode == 0 and done.stdout == "main\n" and done.files == ["t.json.gz"]


def test_two_trainings_one_after_the_other(tmp_path):
    train = LOOP + f"for i in range({NEEDED + 2}): step()"
    (tmp_path / "train.py").write_text(train)
    done = recorded(tmp_path, """
import subprocess, sys
for _ in range(2): subprocess.run([sys.executable, "train.py"], check=True)
""")
    assert done.returncode == 0 and done.files == ["t.json.gz"]
    assert sum("only the first is recorded" in line for line in done.ours) == 1


def test_output_that_cannot_be_written(tmp_path):
    (tmp_path / "out").write_text("a file, not a folder")
    script = tmp_path / "program.py"
    script.write_text(LOOP + f"for i in range({NEEDED + 2}): print(step())")
    done = subprocess.run([sys.executable, "-m", "foretrace", "record", *SHORT, "-o", "out/t.json.gz", "--", sys.executable,
                           str(script)], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0 and done.stdout == plainly(tmp_path).stdout
    assert sum("the recording failed" in line for line in done.stderr.splitlines()) == 1


def test_json_goes_to_standard_error(tmp_path):
    done = recorded(tmp_path, LOOP + f"for i in range({NEEDED + 2}): step()\nsys.exit(2)", options=[*SHORT, "--json"])
    report = json.loads(done.stderr.splitlines()[-1])
    assert report["exit_code"] == 2 and report["traced_steps"] == 2 and len(report["files"]) == 1 and done.stdout == ""


def test_ranks_of_torchrun(tmp_path):
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", "29631"]
    done = recorded(tmp_path, LOOP + f"""
import torch.distributed as dist
dist.init_process_group("gloo")
net = torch.nn.parallel.DistributedDataParallel(net)
for i in range({NEEDED + 2}): step()
if dist.get_rank() == 0: print("done")
dist.destroy_process_group()
""", launcher=torchrun)
    assert done.returncode == 0 and done.stdout == "done\n", done.stderr
    assert done.files == ["t.rank0.json.gz", "t.rank1.json.gz"]
    for rank in range(2):
        figures = foretrace.recorded_figures(foretrace.load(tmp_path / "out" / f"t.rank{rank}.json.gz"))
        assert (figures["rank"], figures["world_size"]) == (rank, 2)
    assert sum("of 2 ranks" in line for line in done.ours) == 1


HUGGING_FACE = """
import sys, torch, transformers
torch.set_num_threads(1)
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Linear(8, 1)
    def forward(self, x):
        return {"loss": self.net(x).square().mean()}
arguments = transformers.TrainingArguments(output_dir="run", max_steps=int(sys.argv[1]), report_to=[], use_cpu=True,
                                           per_device_train_batch_size=4, save_strategy="no", disable_tqdm=True,
                                           gradient_accumulation_steps=2, optim="adamw_torch")
transformers.Trainer(model=Net(), args=arguments, train_dataset=[{"x": torch.randn(8)} for _ in range(256)]).train()
"""

LIGHTNING = """
import sys, torch
import {package} as lightning
torch.set_num_threads(1)
class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Linear(8, 1)
    def training_step(self, batch, index):
        return self.net(batch).square().mean()
    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), 0.01)
loader = torch.utils.data.DataLoader(torch.randn(4 * 64, 8), batch_size=4)
lightning.Trainer(max_steps=int(sys.argv[1]), accelerator="cpu", logger=False, enable_checkpointing=False,
                  enable_progress_bar=False, enable_model_summary=False).fit(Module(), loader)
"""


def test_a_hugging_face_script(tmp_path):
    pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    done = recorded(tmp_path, HUGGING_FACE, str(NEEDED + 2))
    assert done.returncode == 0 and done.files == ["t.json.gz"], done.stderr
    trace = foretrace.load(tmp_path / "out" / "t.json.gz")
    assert steps_of(tmp_path / "out" / "t.json.gz") == [1, 1]
    # Two batches are accumulated: a step is an optimizer's.
    assert all(len(trace.select("annotation", name="layer:net|Linear", step=s)) == 2 for s in trace.steps)


@pytest.mark.parametrize("package", ["lightning.pytorch", "pytorch_lightning"])
def test_a_lightning_script(tmp_path, package):
    pytest.importorskip(package)
    done = recorded(tmp_path, LIGHTNING.format(package=package), str(NEEDED + 2))
    assert done.returncode == 0 and done.files == ["t.json.gz"], done.stderr
    assert steps_of(tmp_path / "out" / "t.json.gz") == [1, 1]


def test_recording_costs_the_measured_steps_nothing(tmp_path):
    """The clean steps are as fast as those of the program alone, within what two runs differ by anyway."""
    program = LOOP.replace("Linear(8, 8)", "Linear(512, 512)").replace("randn(4, 8)", "randn(256, 512)") + """
import statistics, time
times = []
for i in range(60):
    begin = time.perf_counter(); step(); times.append(time.perf_counter() - begin)
print(statistics.median(times[10:40]))
"""
    options = ["--after", "8", "--measure", "32", "--steps", "1"]
    for _ in range(4):
        measured = float(recorded(tmp_path, program, options=options).stdout)
        alone = float(plainly(tmp_path).stdout)
        if measured < 1.05 * alone:
            return
        time.sleep(1)
    pytest.fail(f"{measured * 1e3:.3f} ms against {alone * 1e3:.3f} ms")


def test_the_program_needs_no_foretrace(tmp_path):
    """Its Python may be another one: the recording brings its own modules."""
    done = recorded(tmp_path, LOOP + f"""
for i in range({NEEDED + 2}): step()
print("foretrace" in sys.modules)
""")
    assert done.stdout == "False\n" and done.files == ["t.json.gz"]
    assert Path(tmp_path / "out" / "t.json.gz").stat().st_size > 0


def test_the_library_for_cuda_stands_aside_where_a_framework_profiles(tmp_path):
    """CUDA may be initialised before the framework's own profiler is loaded, so its import decides."""
    with_torch = recorded(tmp_path, 'import os, torch\nprint(os.environ.get("FORETRACE_CUDA"))')
    without = recorded(tmp_path, 'import os, json\nprint(os.environ.get("FORETRACE_CUDA"))')
    assert (with_torch.stdout, without.stdout) == ("never\n", "None\n")


def test_a_program_that_uses_no_cuda_is_told_from_one_without_python(tmp_path):
    library = tmp_path / "libforetrace_cuda.so"
    library.touch()
    done = recorded(tmp_path, "pass", options=["--cuda"], environment={"FORETRACE_CUDA_LIBRARY": str(library)})
    assert done.returncode == 0 and len(done.ours) == 1 and "ended without a word from CUDA" in done.ours[0]
