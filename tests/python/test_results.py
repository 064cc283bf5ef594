"""What every answer has: ms, a data frame, a picture. Steps, GPUs, and scripts that end without a word."""

import json
import subprocess
import sys

import foretrace
import pytest
from helpers import EXAMPLE


@pytest.fixture(scope="module")
def step(example):
    return example.step()


ANSWERS = {
    "step": lambda s, t: s,
    "timeline": lambda s, t: s.simulate(),
    "breakdown": lambda s, t: s.simulate().breakdown(),
    "critical path": lambda s, t: s.simulate().critical_path(),
    "unprofiled": lambda s, t: s.unprofiled(),
    "prediction": lambda s, t: s.predict("fused-optimizer"),
    "predictions": lambda s, t: s.each("fused-optimizer", "flash-attention", "no-sync"),
    "advice": lambda s, t: s.advise(),
    "one advice": lambda s, t: s.advise().advice[0],
    "optimized": lambda s, t: s.optimize(evaluations=5),
    "scaled": lambda s, t: s.scale(4, fabric="DGX-H100"),
    "gpus": lambda s, t: s.gpus(to=["L4", "A100-SXM4-80GB"]),
    "doctor": lambda s, t: foretrace.doctor(t),
    "summary": lambda s, t: foretrace.summary(t),
    "replay": lambda s, t: foretrace.replay(t),
    "comparison": lambda s, t: foretrace.compare(t, t),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_every_answer_has_ms_a_frame_and_a_picture(name, step, example):
    pytest.importorskip("pandas")
    answer = ANSWERS[name](step, example)
    assert answer.ms > 0
    frame = answer.to_pandas()
    assert len(frame.columns) > 1
    assert len(frame) > 0 or name == "doctor"  # a trace that lacks nothing has no finding
    assert answer.plot().svg.count("<circle") > 0


def test_bounds_have_frames_too(step):
    pytest.importorskip("pandas")
    bounds = step.lower_bounds()
    assert list(bounds.to_pandas()["ms"]) == [bounds.no_gpu_ms, bounds.no_network_ms, bounds.no_cpu_ms]


def test_a_step_is_a_step(step, example):
    assert isinstance(step, foretrace.Step) and isinstance(step, foretrace.Graph)
    row = example.steps.median
    assert (step.name, step.number, step.start, step.end, step.ms) == (row.name, row.number, row.start, row.end, row.ms)
    assert repr(step).startswith("<foretrace.Step 'ProfilerStep#4'")
    assert example.step(step).number == step.number == example.step(row).number
    assert list(example.select("kernel", step=step)) == list(example.select("kernel", step=row))


def test_gpus_are_those_of_the_command(step):
    found = step.gpus("amp", to=["L4", "A100-SXM4-80GB"], prices={"L4": 0.8}, sort="cost")
    assert found["order"] == "cost" and found["whatifs"] == ["amp"]
    by_name = {gpu.device: gpu for gpu in found.gpus}
    assert by_name["L4"].usd_per_hour == 0.8
    assert by_name["A100-SXM4-80GB"].ms == pytest.approx(step.on("A100-SXM4-80GB", "amp").ms)
    with pytest.raises(foretrace.UsageError, match="'time', 'cost' or 'value'"):
        step.gpus(sort="price")
    with pytest.raises(foretrace.UsageError):
        step.gpus(to=["no such GPU"])


def test_a_list_of_predictions_is_one(step):
    found = step.each("fused-optimizer", "flash-attention")
    assert isinstance(found, list) and [p.whatif for p in found] == ["fused-optimizer", "flash-attention"]
    assert found.ms == found[0].ms and found[1].declined is not None


def test_a_picture_is_svg_or_refused(step, tmp_path):
    picture = step.plot()
    picture.save(tmp_path / "x.svg")
    assert (tmp_path / "x.svg").read_text().startswith("<svg")
    with pytest.raises(foretrace.UsageError, match="not as PNG"):
        picture.save(tmp_path / "x.png")
    assert not (tmp_path / "x.png").exists()


def test_summary_shows_as_many_rows_as_asked_for(example):
    def rows(top):
        return foretrace.summary(example, top=top)._repr_html_().count("<tr>")

    assert rows(5) == 2 * (5 + 1)
    assert rows(3) == 2 * (3 + 1)


def test_a_script_with_a_what_if_of_its_own_ends_without_a_word():
    script = ("import foretrace as ft\n"
              "@ft.whatif('own')\n"
              "def own(g, x=0.5): g.scale(g.select(kind='kernel'), x)\n"
              f"step = ft.load({str(EXAMPLE)!r}).step()\n"
              "print(step.predict('own:x=0.2').ms < step.predict(own).ms)\n")
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("True\n", "")


def test_the_script_for_a_step_that_trains_nothing_trains_nothing(step):
    def event(name, cat, ts, dur, tid, **args):
        return {"ph": "X", "name": name, "cat": cat, "ts": ts, "dur": dur, "pid": 0 if cat == "kernel" else 1, "tid": tid, "args": args}

    events = []
    for number in range(3):
        at = 2000 * number
        events.append(event(f"step[DECODE bs={number + 16}]", "user_annotation", at, 1900, 1))
        for i in range(4):
            begin, correlation = at + 100 + 200 * i, 10 * number + i + 1
            events.append(event("aten::mm", "cpu_op", begin, 90, 1, **{"External id": correlation}))
            events.append(event("cudaLaunchKernel", "cuda_runtime", begin + 10, 20, 1, correlation=correlation))
            events.append(event("gemm", "kernel", begin + 40, 300, 7, correlation=correlation, device=0, stream=7))
    trace = foretrace.load_bytes(json.dumps({"traceEvents": events}).encode(), "decode.json")
    script = trace.step().optimize(evaluations=5).script
    assert "make_optimizer" not in script
    assert "make_optimizer" in step.optimize(evaluations=5).script


def test_a_step_on_a_cpu_is_not_answered_with_flags_of_cuda():
    events = [{"ph": "X", "name": f"ProfilerStep#{i}", "cat": "user_annotation", "ts": 1000 * i, "dur": 900, "pid": 1, "tid": 1}
              for i in range(3)]
    events += [{"ph": "X", "name": "aten::mm", "cat": "cpu_op", "ts": 1000 * i + 100, "dur": 500, "pid": 1, "tid": 1} for i in range(3)]
    found = foretrace.doctor(foretrace.load_bytes(json.dumps({"traceEvents": events}).encode(), "cpu.json"))
    (blocks,) = [f for f in found.findings if f.weight == "blocks"]
    assert "ran on a CPU" in blocks.what
    assert not any("cuda" in f.remedy.lower() for f in found.findings), [f.remedy for f in found.findings]
