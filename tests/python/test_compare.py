"""compare, the page, and what notebooks show."""

import gzip
import json
import xml.etree.ElementTree as ElementTree

import foretrace
import pytest
from foretrace._pictures import band_svg, bars, html_table
from helpers import EXAMPLE, ROOT

CLEAN = ROOT / "data" / "h200-clean"


def test_a_change_is_named_first():
    c = foretrace.compare(CLEAN / "gpt2.base.json.gz", CLEAN / "gpt2.bf16sdpafused.json.gz")
    assert [x.whatif for x in c.causes if x.of == "setup"] == ["amp:dtype=bf16", "flash-attention", "fused-optimizer"]
    assert c.beyond_noise and c.change_pct < 0 and c.passed is None
    assert c.sentences[0].startswith("Mixed precision")
    assert c.markdown().startswith("### Mixed precision")
    assert "<table>" in c._repr_html_() and "<script" not in c._repr_html_()


def test_several_recordings_a_side_and_a_gate():
    files = [CLEAN / "recordings" / f"lstm_lm.base.0{i}.json.gz" for i in range(4)]
    c = foretrace.compare(files[:2], [foretrace.load(f) for f in files[2:]], gate=3)
    assert not c.beyond_noise and c.passed is True
    assert c["noise_from"].startswith("the spread of these 4 recordings")


def test_a_prediction_is_checked():
    c = foretrace.compare(CLEAN / "gpt2.base.json.gz", CLEAN / "gpt2.ckpt.json.gz", "checkpoint")
    assert c.prediction is not None and abs(c.prediction["gpu_error_pct"]) < 10


def test_half_a_pair_of_measured_steps_is_refused():
    with pytest.raises(ValueError, match="go together"):
        foretrace.compare(EXAMPLE, EXAMPLE, before_ms=71)


def test_report_writes_one_page(tmp_path):
    path = tmp_path / "report.html"
    answer = foretrace.load(EXAMPLE).step().report(path, "fused-optimizer")
    text = path.read_text()
    assert answer.startswith("Today a step takes") and "fused-optimizer" in answer
    assert text.startswith("<!DOCTYPE html>") and "http://" not in text.replace("http://www.w3.org/2000/svg", "")


def test_every_result_shows_itself():
    step = foretrace.load(EXAMPLE).step()
    prediction, advised = step.predict("fused-optimizer"), step.advise()
    for result in (prediction, advised, foretrace.summary(EXAMPLE), foretrace.doctor(EXAMPLE), foretrace.replay(EXAMPLE)):
        html = result._repr_html_()
        assert html and "<script" not in html
    for picture in (prediction.plot(), advised.plot()):
        assert ElementTree.fromstring(picture.svg).tag.endswith("svg")
        assert picture._repr_svg_() == picture.svg


def test_names_stay_text(tmp_path):
    evil = "<script>alert(1)</script>"
    picture = bars([(evil, 1.0, 2.0, 3.0)], 2.5, evil)
    ElementTree.fromstring(picture.svg)
    assert "<script" not in picture.svg
    assert "<script" not in html_table(("name",), [(evil,)])
    ElementTree.fromstring(band_svg(1, 2, 3, 4, 2))
    picture.save(tmp_path / "a.svg")
    assert (tmp_path / "a.svg").read_text() == picture.svg


def test_a_slower_family_is_named(tmp_path):
    trace = json.loads(gzip.decompress((CLEAN / "mlp.base.json.gz").read_bytes()))
    for event in trace["traceEvents"]:
        if event.get("cat") == "kernel" and "gemm" in event["name"]:
            event["dur"] *= 1.05
    (tmp_path / "slow.json").write_text(json.dumps(trace))
    c = foretrace.compare(CLEAN / "mlp.base.json.gz", tmp_path / "slow.json")
    assert c.causes and c.causes[0].what.startswith("gemm kernels take")
