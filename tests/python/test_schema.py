"""What every command prints with --json conforms to its schema in docs/reference/schema, and the schema describes every key of it."""

import json
import subprocess
import sys

import pytest
from helpers import ROOT
from jsonschema import Draft202012Validator

SCHEMAS = ROOT / "docs" / "reference" / "schema"
EXAMPLE = "examples/resnet50-h200.json.gz"
JOB = "examples/resnet50-ddp"
GPT2 = "data/h200-clean/gpt2@1-today.base.json.gz"
DECODER = "data/h200-decoders/llama70b@1x4096.json.gz"
COMPILED = "data/h200-clean/bert_base-compiled.graph.json.gz"
LOOP = "data/h200-records/scripts/plain_loop.json.gz"
UNKNOWN_GPU = "tests/golden/ranks/slow_rank/job/rank0.json"
JAX = "data/h200-jax/resnet18.bf16.b32.xplane.pb.gz"

# The schema, the exit code, the command. Several answers of a command are here where its keys depend on the question.
CASES = [
    ("doctor", 0, "doctor", EXAMPLE), ("doctor", 0, "doctor", GPT2), ("doctor", 0, "doctor", JOB), ("doctor", 0, "doctor", JAX),
    ("summary", 0, "summary", EXAMPLE), ("summary", 0, "summary", JAX), ("summary", 0, "summary", GPT2),
    ("replay", 0, "replay", EXAMPLE), ("replay", 0, "replay", JOB),
    ("whatif", 0, "whatif", EXAMPLE, "amp", "batch:x=2", "flash-attention", "gpu:to=T4", "ddp:workers=8,fabric=100GbE"),
    ("whatif", 0, "whatif", COMPILED, "tf32", "batch:x=2", "compile"),
    ("whatif", 4, "whatif", EXAMPLE, "flash-attention"),
    ("whatif", 0, "whatif", JOB, "bandwidth:x=2", "batch:x=2"), ("whatif", 4, "whatif", JOB, "ddp:workers=8,fabric=100GbE"),
    ("advise", 0, "advise", JOB), ("optimize", 0, "optimize", JOB, "--budget-evals", "5"), ("gpus", 0, "gpus", JOB, "--to", "H100-SXM5"),
    ("advise", 0, "advise", EXAMPLE), ("advise", 0, "advise", GPT2),
    ("optimize", 0, "optimize", EXAMPLE, "--budget-evals", "20"),
    ("optimize", 0, "optimize", EXAMPLE, "--workers", "4", "--fabric", "10GbE", "--only", "bucket", "--budget-evals", "20"),
    ("optimize", 4, "optimize", EXAMPLE, "--memory-gb", "0.5", "--budget-evals", "20"),
    ("gpus", 0, "gpus", EXAMPLE, "--to", "T4,H100-SXM5", "--watts"),
    ("gpus", 4, "gpus", GPT2, "fp8", "--to", "T4,H100-SXM5"),
    ("scale", 0, "scale", EXAMPLE, "--workers", "2,64", "--fabric", "DGX-H100"),
    ("scale-plan", 0, "scale", DECODER, "--plan", "pp=2,dp=2,microbatches=1", "--plan", "pp=16,microbatches=1", "--fabric", "DGX-H100"),
    ("plan", 0, "plan", DECODER, "--gpus", "4", "--fabric", "DGX-H100"),
    ("scale", 4, "scale", "data/h200-jax/transformer.bf16.b4.xplane.pb.gz", "--workers", "2", "--fabric", "100GbE", "--parallel", "zero1"),
    ("ranks", 0, "ranks", JOB), ("ranks-operations", 0, "ranks", "examples/pipeline/job.csv"),
    ("compare", 0, "compare", f"{JOB}/rank0.json.gz", f"{JOB}/rank1.json.gz", "--gate", "50"),
    ("compare", 5, "compare", "data/h200-clean/recordings/mlp.base.00.json.gz", "data/h200-clean/recordings/mlp.base.01.json.gz", "--gate", "3"),
    ("compare", 0, "compare", "data/h200-clean/bert_base.base.json.gz", "data/h200-clean/bert_base.ckpt.json.gz", "--whatif", "checkpoint"),
    ("compare-jobs", 0, "compare", JOB, JOB, "--gate", "3"),
    ("export", 0, "export", EXAMPLE, "-o", "{tmp}/timeline.json.gz"),
    ("report", 0, "report", EXAMPLE, "fused-optimizer", "-o", "{tmp}/report.html"),
    ("list-whatifs", 0, "list", "whatifs"), ("list-devices", 0, "list", "devices"), ("list-fabrics", 0, "list", "fabrics"),
    ("list-formats", 0, "list", "formats"),
    ("compare", 0, "compare", LOOP, LOOP), ("advise", 0, "advise", UNKNOWN_GPU), ("optimize", 0, "optimize", UNKNOWN_GPU, "--budget-evals", "5"),
    ("doctor", 3, "doctor", EXAMPLE, "README.md"), ("gpus", 0, "gpus", EXAMPLE),
    ("doctor", 3, "doctor", "no-such-file.json"), ("whatif", 2, "whatif", EXAMPLE, "apm"),
]


def schema_of(name: str) -> dict:
    return json.loads((SCHEMAS / f"{name}.json").read_text())


def answer(tmp_path, *command: str):
    words = [word.format(tmp=tmp_path) for word in command]
    done = subprocess.run([sys.executable, "-m", "foretrace", *words, "--json"], cwd=ROOT, capture_output=True, text=True)
    return done.returncode, json.loads(done.stdout)


def undescribed(value, schema: dict, path="$"):
    """Keys that the schema says nothing about."""
    if isinstance(value, list):
        for item in value:
            yield from undescribed(item, schema.get("items", {}), f"{path}[]")
    elif isinstance(value, dict):
        branch = schema.get("then" if "error" in value else "else", {}) if schema.get("if") == {"required": ["error"]} else schema
        known, others = branch.get("properties"), branch.get("additionalProperties")
        for key, item in value.items():
            if known and key in known:
                yield from undescribed(item, known[key], f"{path}.{key}")
            elif isinstance(others, dict):
                yield from undescribed(item, others, f"{path}.*")
            elif known is not None:
                yield f"{path}.{key}"


def problems(value, name: str) -> list[str]:
    schema = schema_of(name)
    said = [f"{error.json_path}: {error.message[:200]}" for error in Draft202012Validator(schema).iter_errors(value)]
    return said + [f"{key}: not in the schema" for key in sorted(set(undescribed(value, schema)))]


@pytest.mark.parametrize("case", CASES, ids=lambda case: " ".join(case[2:]))
def test_answers_conform(case, tmp_path):
    name, code, *command = case
    returned, value = answer(tmp_path, *command)
    assert returned == code
    assert problems(value, name) == []


def test_the_graph_as_text(tmp_path):
    subprocess.run([sys.executable, "-m", "foretrace", "graph", "dump", EXAMPLE, "-o", tmp_path / "step.graph"], cwd=ROOT, check=True)
    assert problems(answer(tmp_path, "graph", "check", "{tmp}/step.graph")[1], "graph") == []


def test_a_key_that_is_renamed_or_of_another_type_is_found(tmp_path):
    value = answer(tmp_path, "whatif", EXAMPLE, "fused-optimizer")[1]
    assert problems(value, "whatif") == []
    (prediction,) = value["predictions"]
    prediction["low"] = prediction.pop("low_ms")
    assert any("'low_ms' is a required property" in p for p in problems(value, "whatif"))
    assert "$.predictions[].low: not in the schema" in problems(value, "whatif")
    prediction["low_ms"] = str(prediction.pop("low"))
    assert any("$.predictions[0].low_ms" in p for p in problems(value, "whatif"))


@pytest.mark.parametrize("path", sorted(SCHEMAS.glob("*.json")), ids=lambda path: path.stem)
def test_schemas_are_sound_and_described(path):
    schema = json.loads(path.read_text())
    Draft202012Validator.check_schema(schema)
    assert path.stem in {case[0] for case in CASES} | {"graph"}
    assert f"schema/{path.name}" in (ROOT / "docs/reference/json.md").read_text()

    def without_description(part, where):
        for key, inner in part.get("properties", {}).items():
            if "description" not in inner and key != "error" and inner != {"const": 1}:
                yield f"{where}.{key}"
            yield from without_description(inner, f"{where}.{key}")
        for word in ("items", "else", "then", "additionalProperties"):
            if isinstance(part.get(word), dict):
                yield from without_description(part[word], where)

    assert list(without_description(schema, path.stem)) == []
