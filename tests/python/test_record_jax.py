"""Recordings of JAX programs, on the CPU; left out where JAX is not installed."""

import json
import os
import subprocess
import sys
import textwrap
import warnings

import foretrace
import pytest

jax = pytest.importorskip("jax")
from foretrace.recorder import RecordingWarning, record, recorded

jnp = jax.numpy

LOOP = """
import sys, jax, jax.numpy as jnp
from functools import partial
@jax.jit
def augment(x): return x * 2
class Model:
    @partial(jax.jit, static_argnums=0)
    def step(self, w, x):
        loss, gradient = jax.value_and_grad(lambda w: jnp.mean(jnp.tanh(augment(x) @ w) ** 2))(w)
        return w - 0.1 * gradient, loss
model = Model()
w, x = jnp.ones((16, 16)), jnp.ones((8, 16))
def run(n):
    global w
    for i in range(n):
        w, loss = model.step(w, augment(x))
        print(i, float(loss))
"""


def planes(path):
    return {plane.name: plane for plane in jax.profiler.ProfileData.from_file(str(path)).planes}


def figures(path):
    return json.loads(dict(planes(path)["/host:foretrace"].stats)["foretrace"])


def marked_steps(path):
    return [dict(e.stats)["step_num"] for p in planes(path).values() for line in p.lines for e in line.events if e.name == "train"]


def command(tmp_path, program, *options):
    (tmp_path / "program.py").write_text(textwrap.dedent(program))
    done = subprocess.run([sys.executable, "-m", "foretrace", "record", "--after", "2", "--measure", "3", "--steps", "2", *options, "-o",
                           "out.json.gz", "--", sys.executable, "program.py"], capture_output=True, text=True, cwd=tmp_path, timeout=240)
    done.ours = [line for line in done.stderr.splitlines() if line.startswith("foretrace: ")]
    done.files = sorted(f for f in os.listdir(tmp_path) if f != "program.py")
    return done


def test_a_program_is_recorded_without_a_change(tmp_path):
    done = command(tmp_path, LOOP + "run(14)\nsys.exit(3)")
    alone = subprocess.run([sys.executable, "program.py"], capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (3, alone.stdout)
    assert done.files == ["out.xplane.pb"]
    found = figures(tmp_path / "out.xplane.pb")
    assert found["measured_steps"] == 3 and found["traced_steps"] == 2 and found["measured_ms"] > 0
    assert found["jax"] == jax.__version__ and found["missing"] == []
    # A step is a whole turn of the loop, although two jitted functions are called in it.
    assert sorted(marked_steps(tmp_path / "out.xplane.pb")) == [0, 1]
    assert any("recorded 2 steps" in line for line in done.ours)
    # foretrace itself finds what was measured.
    assert foretrace.recorded_figures(foretrace.load(tmp_path / "out.xplane.pb")) == found


def test_a_program_that_fails_or_ends_early_leaves_nothing(tmp_path):
    done = command(tmp_path, LOOP + "run(8)\nraise ValueError('mine')")
    assert done.returncode == 1 and "ValueError: mine" in done.stderr and done.files == []
    done = command(tmp_path, LOOP + "run(5)")
    assert done.returncode == 0 and done.files == [] and len(done.ours) == 1


def test_what_jit_makes_is_still_what_it_was(tmp_path):
    done = command(tmp_path, """
import jax, jax.numpy as jnp, copy
@jax.jit
def f(x):
    "doc"
    return x + 1
print(f.__name__, f.__doc__, f.lower(1.0).compile()(1.0), jax.grad(lambda x: f(x) * x)(2.0), jax.vmap(f)(jnp.ones(2)))
print(jax.jit(f)(1.0), jax.eval_shape(f, 1.0).dtype, hash(f) == hash(f), isinstance(f, jax.stages.Wrapped))
f.clear_cache()
""")
    assert done.returncode == 0, done.stderr
    assert done.stdout == subprocess.run([sys.executable, "program.py"], capture_output=True, text=True, cwd=tmp_path).stdout


def test_around_a_jitted_step(tmp_path):
    step = jax.jit(lambda w: w - 0.1 * w)
    w = jnp.ones((8, 8))
    with pytest.warns(RecordingWarning, match="JAX sees no GPU"):
        with record(tmp_path / "out.xplane.pb", steps=2, measure=4, warmup=1, framework="jax") as r:
            while not r.done:
                w = step(w)
                r.step()
    assert r.figures == figures(tmp_path / "out.xplane.pb") and os.listdir(tmp_path) == ["out.xplane.pb"]
    assert len(r.figures["traced_host_ms"]) == 2


def test_a_decorator(tmp_path):
    step = recorded(tmp_path / "out.json.gz", steps=1, measure=0, warmup=1, framework="jax")(jax.jit(lambda w: w * 0.5))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RecordingWarning)
        for _ in range(5):
            step(jnp.ones(3))
    assert step.recorder.done and os.listdir(tmp_path) == ["out.xplane.pb"]
    assert figures(tmp_path / "out.xplane.pb")["measured_ms"] is None


def test_an_exception_in_the_loop_leaves_no_file(tmp_path):
    with pytest.raises(ValueError, match="mine"):
        with record(tmp_path / "out.xplane.pb", steps=2, measure=0, warmup=1, framework="jax") as r:
            for _ in range(3):
                jnp.ones(2).block_until_ready()
                r.step()
            raise ValueError("mine")
    assert os.listdir(tmp_path) == [] and r.done


def test_wrong_framework(tmp_path):
    with pytest.raises(ValueError, match="'torch' or 'jax'"):
        record(tmp_path / "x.json.gz", framework="tensorflow")
