"""Jobs for changes that the other networks have no place for, and jobs whose samples cost something to load."""

from __future__ import annotations

import dataclasses

import torch
from torch import nn

from .models import JOBS as KNOWN
from .models import Job, _classes, image_data, vision


def _split_gpt2(attention: str, tiny: bool) -> nn.Module:
    """GPT-2 with query, key and value as layers of their own."""
    from .changes.siblings import Split
    model = KNOWN["gpt2"].build(attention, tiny)
    for module in list(model.modules()):
        if hasattr(module, "c_attn"):
            module.c_attn = Split(module.c_attn, 3)
    return model


def _vit(attention: str, tiny: bool) -> nn.Module:
    import transformers
    transformers.logging.set_verbosity_error()
    sizes = {"image_size": 32, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128} if tiny else {}
    return transformers.ViTForImageClassification(transformers.ViTConfig(num_labels=1000, attn_implementation=attention, **sizes))


def _inception(_attention: str, _tiny: bool) -> nn.Module:
    import torchvision.models
    return torchvision.models.inception_v3(aux_logits=False, init_weights=False)


def _large_images(batch: int, tiny: bool) -> tuple[torch.Tensor, ...]:
    size = 96 if tiny else 299
    return torch.randn(batch, 3, size, size), torch.randint(0, 1000, (batch,))


def _small_images(batch: int, tiny: bool) -> tuple[torch.Tensor, ...]:
    size = 64 if tiny else 224  # the least its pooling layers leave something of
    return torch.randn(batch, 3, size, size), torch.randint(0, 1000, (batch,))


def loaded(job: str, dataset: str, batch: int) -> Job:
    return dataclasses.replace(KNOWN[job], dataset=dataset, batch=batch, small=batch)


JOBS: dict[str, Job] = {
    "gpt2_split": dataclasses.replace(KNOWN["gpt2"], build=_split_gpt2),
    "vit_hf": Job(_vit, image_data(), _classes, 96, 4, 86567656, ("ViTLayer",), image=True, library="transformers"),
    "inception_v3": Job(_inception, _large_images, _classes, 64, 8, 23834568, image=True, library="torchvision"),
    "alexnet": dataclasses.replace(vision("alexnet", 512, 32, 61100840), data=_small_images),
    "resnet18_decoded": loaded("resnet18", "decoded", 32),
    "resnet18_cropped": loaded("resnet18", "cropped", 32),
    "resnet18_disk": loaded("resnet18", "disk", 32),
    "mobilenet_decoded": loaded("mobilenet_v3_large", "decoded", 48),
    "mobilenet_cropped": loaded("mobilenet_v3_large", "cropped", 48),
    "mobilenet_disk": loaded("mobilenet_v3_large", "disk", 48),
    "bert_base_tokenised": loaded("bert_base", "tokenised", 32),
}
