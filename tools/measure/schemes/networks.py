"""The networks that are trained, cut so that a step takes about 60 ms on half a GPU, and what optimizer they have."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from ..models import Job, hugging_face, vision


@dataclass(frozen=True)
class Network:
    job: Job
    batch: int  # of a rank that has half the GPU
    optimizer: str
    units: tuple[str, ...]  # classes that fully sharded training gathers one by one
    tiny: Callable[[], nn.Module] | None = None


def _small_vgg() -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(128, 256), nn.ReLU(),
                         nn.Linear(256, 1000))


def _small_resnet() -> nn.Module:
    import torchvision.models.resnet as resnet
    return resnet.ResNet(resnet.Bottleneck, [1, 1, 1, 1], width_per_group=4)


_BERT = {"hidden_size": 768, "num_hidden_layers": 6}
_TINY_BERT = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128, "vocab_size": 200}
NETWORKS: dict[str, Network] = {
    "resnet50": Network(vision("resnet50", 32, 8, 25557032), 32, "sgd", ("Bottleneck",), _small_resnet),
    "vgg16": Network(vision("vgg16", 16, 2, 138357544), 16, "sgd", ("Linear",), _small_vgg),
    "bert_l6": Network(hugging_face("BertForMaskedLM", "BertConfig", 128, 30522, 32, 4, 0, "BertLayer", _BERT, _TINY_BERT), 32, "adamw",
                       ("BertLayer",)),
    "gpt2_l4": Network(hugging_face("GPT2LMHeadModel", "GPT2Config", 256, 50257, 8, 1, 0, "GPT2Block", {"n_layer": 4},
                                    {"n_embd": 64, "n_layer": 2, "n_head": 4, "vocab_size": 200}), 8, "adamw", ("GPT2Block",)),
}


def build(name: str, tiny: bool) -> nn.Module:
    network = NETWORKS[name]
    return network.tiny() if tiny and network.tiny else network.job.build("eager", tiny)


def optimizer(name: str, parameters: Any) -> torch.optim.Optimizer:
    kind, options = optimizer_of(name)
    return kind(parameters, **options)


def optimizer_of(name: str) -> tuple[Any, dict[str, Any]]:
    if NETWORKS[name].optimizer == "sgd":
        return torch.optim.SGD, {"lr": 1e-3, "momentum": 0.9, "foreach": True}
    return torch.optim.AdamW, {"lr": 1e-4, "foreach": True}
