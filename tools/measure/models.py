"""The training jobs that are measured: network, data, loss, batch and optimizer of each, the same as in the truth folders."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from . import networks

Batch = tuple[torch.Tensor, ...]


@dataclass(frozen=True)
class Job:
    """`batch` and `small` are the batches that keep an H200's GPU busy, and its CPU. `params` is what the rows in data/ say the
    network has, where there are any: a rebuilt one must have as many. `blocks` are the classes that checkpointing wraps; empty: nothing repeats."""

    build: Callable[[str, bool], nn.Module]  # (attention, tiny)
    data: Callable[[int, bool], Batch]  # (batch, tiny)
    loss: Callable[[nn.Module, Batch], torch.Tensor]
    batch: int
    small: int
    params: int
    blocks: tuple[str, ...] = ()
    optimizer: str = "adam"
    update: str = "loop"
    image: bool = False  # 4-D input: channels-last means something
    library: str | None = None  # what must be installed
    dataset: str | None = None  # of loading.py: batches come from a loader


def _logits(out: Any) -> torch.Tensor:
    return getattr(out, "logits", out)


def _classes(model: nn.Module, batch: Batch) -> torch.Tensor:
    return F.cross_entropy(_logits(model(batch[0])).float(), batch[1])


def _tokens(out: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(out.reshape(-1, out.shape[-1]).float(), wanted.reshape(-1))


def _language(model: nn.Module, batch: Batch) -> torch.Tensor:
    return _tokens(_logits(model(input_ids=batch[0])), batch[1])


def _translate(model: nn.Module, batch: Batch) -> torch.Tensor:
    return _tokens(model(batch[0], batch[1]), batch[2])


def _frames(model: nn.Module, batch: Batch) -> torch.Tensor:
    return _tokens(model(batch[0]), batch[1])


def _same_image(model: nn.Module, batch: Batch) -> torch.Tensor:
    return F.mse_loss(model(batch[0]).float(), batch[1])


def _clicks(model: nn.Module, batch: Batch) -> torch.Tensor:
    return F.binary_cross_entropy_with_logits(model(batch[0], batch[1]).float(), batch[2])


def token_data(vocabulary: int, *lengths: int) -> Callable[[int, bool], Batch]:
    def data(batch: int, tiny: bool) -> Batch:
        most = min(vocabulary, 100) if tiny else vocabulary
        return tuple(torch.randint(0, most, (batch, max(4, n // 32) if tiny else n)) for n in lengths)
    return data


def image_data(size: int = 224, classes: int = 1000) -> Callable[[int, bool], Batch]:
    return lambda batch, tiny: (torch.randn(batch, 3, 32 if tiny else size, 32 if tiny else size),
                                torch.randint(0, classes, (batch,)))


def vision(name: str, batch: int, small: int, params: int, blocks: tuple[str, ...] = (), **options: Any) -> Job:
    def build(_attention: str, tiny: bool) -> nn.Module:
        import torchvision.models
        more = {"image_size": 32} if tiny and name.startswith("vit") else {}
        if name == "googlenet":
            more |= {"aux_logits": False, "init_weights": False}
        return getattr(torchvision.models, name)(**more)
    return Job(build, image_data(), _classes, batch, small, params, blocks, image=True, library="torchvision", **options)


def hugging_face(kind: str, config: str, length: int, vocabulary: int, batch: int, small: int, params: int, block: str,
                 sizes: dict[str, Any] | None = None, tiny_sizes: dict[str, Any] | None = None, **options: Any) -> Job:
    def build(attention: str, tiny: bool) -> nn.Module:
        import transformers
        transformers.logging.set_verbosity_error()
        chosen = (sizes or {}) | ((tiny_sizes or {}) if tiny else {})
        made = getattr(transformers, config)(attn_implementation=attention, **chosen)
        made.use_cache = False
        return getattr(transformers, kind)(made)
    return Job(build, token_data(vocabulary, length, length), _language, batch, small, params, (block,), library="transformers",
               **options)


def _gpt2(length: int, batch: int, small: int, params: int, **sizes: Any) -> Job:
    return hugging_face("GPT2LMHeadModel", "GPT2Config", length, 50257, batch, small, params, "GPT2Block", sizes,
                        {"n_embd": 64, "n_layer": 2, "n_head": 4})


def _bert(length: int, batch: int, small: int, params: int, **sizes: Any) -> Job:
    return hugging_face("BertForMaskedLM", "BertConfig", length, 30522, batch, small, params, "BertLayer", sizes,
                        {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128})


def _llama(length: int, batch: int, small: int, params: int, sizes: dict[str, Any], **options: Any) -> Job:
    return hugging_face("LlamaForCausalLM", "LlamaConfig", length, 32000, batch, small, params, "LlamaDecoderLayer", sizes,
                        {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
                         "intermediate_size": 128}, **options)


_LARGE = {"hidden_size": 1024, "num_attention_heads": 16, "intermediate_size": 4096}


def _seq2seq(vocabulary: int, width: int, heads: int, layers: int, gated: bool) -> Callable[[str, bool], nn.Module]:
    def build(attention: str, tiny: bool) -> nn.Module:
        if tiny:
            return networks.Seq2Seq(100, 64, 4, 128, 2, attention, gated)
        return networks.Seq2Seq(vocabulary, width, heads, 3072, layers, attention, gated)
    return build


def _plain(full: Callable[[], nn.Module], tiny: Callable[[], nn.Module]) -> Callable[[str, bool], nn.Module]:
    return lambda _attention, small: tiny() if small else full()


def _waves(batch: int, tiny: bool) -> Batch:
    # 80,000 samples leave 249 frames behind the strided convolutions, 3,200 leave 9.
    return torch.randn(batch, 3200 if tiny else 80000), torch.randint(0, 320, (batch, 9 if tiny else 249))


def _click_data(batch: int, tiny: bool) -> Batch:
    return torch.randn(batch, 13), torch.randint(0, 50 if tiny else 20000, (batch, 26, 1)), torch.rand(batch).round()


JOBS: dict[str, Job] = {
    "gpt2": _gpt2(512, 8, 1, 124439808),
    "gpt2_m8": _gpt2(1024, 8, 1, 153283584, n_embd=1024, n_layer=8, n_head=16),
    "bert_base": _bert(128, 32, 4, 109514298),
    "bert_l8": _bert(256, 48, 2, 133634874, num_hidden_layers=8, **_LARGE),
    "bert_large8": _bert(512, 16, 1, 133634874, num_hidden_layers=8, **_LARGE),
    "bert_l4": _bert(128, 64, 4, 83249978, num_hidden_layers=4, **_LARGE),
    "llama_w4": _llama(512, 16, 1, 336611328, {"hidden_size": 2048, "intermediate_size": 5632, "num_hidden_layers": 4,
                                               "num_attention_heads": 16}),
    "llama_gqa": _llama(1024, 6, 1, 246959616, {"hidden_size": 1536, "intermediate_size": 4096, "num_hidden_layers": 6,
                                                "num_attention_heads": 12, "num_key_value_heads": 3},
                        optimizer="adamw", update="foreach"),
    "t5_4x4": Job(_seq2seq(32128, 1024, 16, 4, True), token_data(32128, 256, 128, 128), _translate, 64, 2, 191649280, ("SeqBlock",)),
    "nmt_3x3": Job(_seq2seq(24000, 768, 12, 3, False), token_data(24000, 384, 192, 192), _translate, 96, 2, 86484480,
                   ("SeqBlock",)),
    "gnmt": Job(_plain(networks.GNMT, lambda: networks.GNMT(100, 32, 2)), token_data(32320, 50, 50, 50), _translate, 64, 8,
                160672321),
    "lstm_lm": Job(_plain(networks.LstmLm, lambda: networks.LstmLm(100, 32)), token_data(20000, 96, 96), _frames, 128, 8, 57773600),
    "unet": Job(_plain(networks.UNet, lambda: networks.UNet((8, 16))),
                lambda batch, tiny: tuple(torch.randn(batch, 3, *((32, 32) if tiny else (128, 128))) for _ in range(2)),
                _same_image, 64, 4, 8085443, ("UNetBlock",), image=True),
    "dlrm": Job(_plain(networks.DLRM, lambda: networks.DLRM(26, 50, 8, (16,), (16,))), _click_data, _clicks, 65536, 2048, 74967681),
    "mlp": Job(_plain(networks.mlp, lambda: networks.mlp(32, 2)),
               lambda batch, tiny: (torch.randn(batch, 32 if tiny else 512), torch.randint(0, 10, (batch,))),
               _classes, 1024, 128, 2114570),
    "wav2vec": Job(_plain(networks.Wav2Vec, lambda: networks.Wav2Vec(16, 32, 4, 64, 2, 4)), _waves, _frames, 16, 1, 52088128,
                   ("TransformerEncoderLayer",)),
    "resnet50": vision("resnet50", 64, 8, 25557032, ("Bottleneck",)),
    "resnet18": vision("resnet18", 64, 8, 11689512, ("BasicBlock",)),
    "resnet34": vision("resnet34", 16, 4, 21797672, ("BasicBlock",)),
    "vgg16": vision("vgg16", 128, 2, 138357544),
    "vit_b_16": vision("vit_b_16", 96, 4, 86567656, ("EncoderBlock",)),
    "convnext_tiny": vision("convnext_tiny", 128, 4, 28589128, ("CNBlock",)),
    "efficientnet_b0": vision("efficientnet_b0", 256, 16, 5288548, ("MBConv",)),
    "densenet121": vision("densenet121", 48, 8, 7978856, ("_DenseBlock",), optimizer="sgd", update="foreach"),
    "mobilenet_v3_large": vision("mobilenet_v3_large", 96, 16, 5483032, ("InvertedResidual",)),
    "swin_t": vision("swin_t", 48, 4, 28288354, ("SwinTransformerBlock",), optimizer="adamw", update="foreach"),
}
