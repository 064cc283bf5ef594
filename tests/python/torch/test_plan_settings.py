"""What --plan-out writes is read by the trainers' own parsers: torchtitan's, DeepSpeed's and accelerate's. Megatron-LM's is in its training
scripts, which its package leaves out: tests/golden holds those arguments."""

import json
import os
import subprocess
import sys
import types
from pathlib import Path

import pytest

TRACE = Path(__file__).resolve().parents[3] / "data" / "h200-decoders" / "llama8b@1x8192.json.gz"


def settings(trainer, plan, folder):
    """The file, for a decoder of 32 blocks and 64 samples in a step."""
    program = os.environ.get("FORETRACE_PROGRAM")
    command = [program] if program else [sys.executable, "-m", "foretrace"]
    file = folder / f"{trainer}.txt"
    command += ["scale", str(TRACE), "--layers", "32", "--global-batch", "64", "--fabric", "DGX-H100", "--plan", plan, "--plan-out", trainer]
    done = subprocess.run([*command, "-q", "-o", str(file)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return file


TORCHTITAN = [
    ("tp=2,pp=4,dp=8,zero=3,schedule=1f1b", {"tensor_parallel_degree": 2, "pipeline_parallel_degree": 4, "data_parallel_shard_degree": 8}, 1),
    ("pp=4,dp=2,zero=3,schedule=interleaved,chunks=2", {"pipeline_parallel_schedule": "Interleaved1F1B", "pipeline_parallel_layers_per_stage": 4}, 2),
    ("pp=2,dp=4,schedule=gpipe", {"pipeline_parallel_schedule": "GPipe", "data_parallel_replicate_degree": 4}, 1),
    ("cp=2,dp=8,fsdp=4,recompute=selective", {"context_parallel_degree": 2, "data_parallel_replicate_degree": 2, "data_parallel_shard_degree": 4}, 1),
]


@pytest.mark.parametrize(("plan", "expected", "stages_on_a_gpu"), TORCHTITAN)
def test_torchtitan(plan, expected, stages_on_a_gpu, tmp_path):
    config = pytest.importorskip("torchtitan.config")
    from torch.distributed.pipelining.schedules import PipelineScheduleMulti, get_schedule_class

    read = config.ConfigManager().parse_args([f"--job.config_file={settings('torchtitan', plan, tmp_path)}"])
    for name, value in expected.items():
        assert getattr(read.parallelism, name) == value
    assert read.training.global_batch_size == 64
    assert read.activation_checkpoint.mode == ("selective" if "recompute" in plan else "none")
    if read.parallelism.pipeline_parallel_degree > 1:
        # Blocks that a GPU holds, in as many stages as its schedule takes.
        held = 32 // read.parallelism.pipeline_parallel_degree
        assert read.parallelism.pipeline_parallel_layers_per_stage * stages_on_a_gpu == held
        several = issubclass(get_schedule_class(read.parallelism.pipeline_parallel_schedule), PipelineScheduleMulti)
        assert several == (stages_on_a_gpu > 1)


def test_deepspeed(tmp_path, monkeypatch):
    module = pytest.importorskip("deepspeed.runtime.config")
    monkeypatch.setattr(module, "dist", types.SimpleNamespace(get_rank=lambda: 0))
    text = settings("deepspeed", "tp=2,dp=8,zero=3,microbatch=2,param-dtype=bf16", tmp_path).read_text()
    read = module.DeepSpeedConfig(json.loads(text), mpu=types.SimpleNamespace(get_data_parallel_world_size=lambda: 8))
    assert (read.train_batch_size, read.train_micro_batch_size_per_gpu, read.gradient_accumulation_steps) == (64, 2, 4)
    assert read.zero_config.stage == 3
    assert read.bfloat16_config.enabled


def test_accelerate(tmp_path):
    module = pytest.importorskip("accelerate.commands.config.config_args")
    file = settings("accelerate", "tp=2,dp=8,zero=3,microbatch=2,param-dtype=bf16", tmp_path)
    read = module.load_config_from_file(str(file))
    assert (read.num_processes, read.num_machines, read.mixed_precision) == (16, 2, "bf16")
    assert read.fsdp_config["fsdp_version"] == 2
    assert read.parallelism_config == {"parallelism_config_dp_replicate_size": 1, "parallelism_config_dp_shard_size": 8,
                                       "parallelism_config_tp_size": 2, "parallelism_config_cp_size": 1}
