"""What every rank's program does at its begin and end."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

APART = 3  # cores on which programs start while another one is measured


def begin() -> torch.device:
    """Waits until the programs before this one have left the GPU (run.py writes GATE), then joins the other ranks.

    Where run.py says SLOW, the last rank has only so many percent of the SMs; where the tag is `net`, ranks take each other for other hosts.
    """
    torch.set_num_threads(2)
    cores = os.cpu_count() or 1
    if gate := os.environ.get("GATE"):
        while not Path(gate).exists():
            time.sleep(0.02)
        if cores > 2 * APART:
            os.sched_setaffinity(0, range(cores - APART))
    if os.environ.get("ON_CPU"):
        dist.init_process_group("gloo")
        return torch.device("cpu")
    rank, world = os.environ["RANK"], int(os.environ["WORLD_SIZE"])
    if (slow := os.environ.get("SLOW")) and int(rank) == world - 1:
        os.environ["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] = slow
    if tag() == "net":
        os.environ |= {"NCCL_HOSTID": f"host{rank}", "NCCL_MULTI_RANK_GPU_ENABLE": "0"}
    else:
        os.environ["NCCL_MULTI_RANK_GPU_ENABLE"] = "1"
    device = torch.device("cuda:0")
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    return device


def tag() -> str:
    """What connects the ranks, as rows call it."""
    return os.environ.get("TAG", "inside")


def settle(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()
    dist.barrier()
    if device.type == "cuda":
        torch.cuda.synchronize()


def about(device: torch.device) -> dict[str, Any]:
    row: dict[str, Any] = {"rank": dist.get_rank(), "world": dist.get_world_size(), "max_ctas": os.environ.get("NCCL_MAX_CTAS", "")}
    if device.type == "cuda":
        row |= {"sms": torch.cuda.get_device_properties(device).multi_processor_count,
                "share": os.environ.get("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", ""), "nccl": ".".join(map(str, torch.cuda.nccl.version()))}
    return row


def keep(file: Path, row: dict[str, Any]) -> None:
    with file.open("a") as out:
        out.write(json.dumps(row) + "\n")
