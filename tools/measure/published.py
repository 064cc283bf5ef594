"""Networks whose training others timed on an A100 and a V100 (NVIDIA/DeepLearningExamples), made of what torchvision and transformers
have: to be recorded here and predicted there (tools/gpu_throughput.py). Nothing is fitted on them. Batches are published
ones; optimizers work on all parameters at once, as theirs do."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from .models import Batch, Job, _classes, _tokens, image_data

BERT_LARGE = {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096}
BERT_TINY = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128}
VOCABULARY = 30522


def _resnext(squeeze: bool, tiny: bool) -> nn.Module:
    """ResNeXt-101 of 32 groups and 4 channels each, which torchvision has no name for; with squeeze and excitation as the published one."""
    from torchvision.models.resnet import Bottleneck, ResNet
    from torchvision.ops import SqueezeExcitation
    model = ResNet(Bottleneck, [1, 1, 1, 1] if tiny else [3, 4, 23, 3], groups=32, width_per_group=4)
    if squeeze:
        for block in (b for b in model.modules() if isinstance(b, Bottleneck)):
            width = block.bn3.num_features
            block.bn3 = nn.Sequential(block.bn3, SqueezeExcitation(width, width // 16))
    return model


class Ssd300(nn.Module):
    """ResNet-50 up to its third stage, whose stride is left out, five pairs of convolutions behind it and two heads at each size.
    The network of the published figures, whose rows are 300 × 300 images of COCO."""

    boxes = (4, 6, 6, 6, 4, 4)

    def __init__(self, sizes: int = 6, classes: int = 81):
        super().__init__()
        import torchvision.models
        net = torchvision.models.resnet50()
        self.body = nn.Sequential(*list(net.children())[:7])
        first = self.body[6][0]
        first.conv1.stride = first.conv2.stride = first.downsample[0].stride = (1, 1)
        wide = (1024, 512, 512, 256, 256, 256)[:sizes]
        self.more = nn.ModuleList()
        for i, (a, b, inner) in enumerate(zip(wide, wide[1:], (256, 256, 128, 128, 128))):
            how: dict[str, Any] = {"padding": 1, "stride": 2} if i < 3 else {}
            self.more.append(nn.Sequential(nn.Conv2d(a, inner, 1, bias=False), nn.BatchNorm2d(inner), nn.ReLU(inplace=True),
                                           nn.Conv2d(inner, b, 3, bias=False, **how), nn.BatchNorm2d(b), nn.ReLU(inplace=True)))
        self.places = nn.ModuleList(nn.Conv2d(c, 4 * n, 3, padding=1) for c, n in zip(wide, self.boxes))
        self.kinds = nn.ModuleList(nn.Conv2d(c, classes * n, 3, padding=1) for c, n in zip(wide, self.boxes))
        self.classes = classes

    def forward(self, x):
        maps = [self.body(x)]
        for block in self.more:
            maps.append(block(maps[-1]))
        places = [head(m).reshape(x.shape[0], 4, -1) for head, m in zip(self.places, maps)]
        kinds = [head(m).reshape(x.shape[0], self.classes, -1) for head, m in zip(self.kinds, maps)]
        return torch.cat(places, 2), torch.cat(kinds, 2)


def _found(batch: int, tiny: bool) -> Batch:
    side, places = (64, (8, 4)) if tiny else (300, (38, 19, 10, 5, 3, 1))
    boxes = sum(n * n * b for n, b in zip(places, Ssd300.boxes))
    return torch.randn(batch, 3, side, side), torch.randn(batch, 4, boxes), torch.randint(0, 81, (batch, boxes)) * (torch.rand(batch, boxes) < 0.01)


def _detect(model: nn.Module, batch: Batch) -> torch.Tensor:
    """Boxes of objects, and as many of the background three times over as are hardest."""
    places, kinds = (t.float() for t in model(batch[0]))
    objects = batch[2] > 0
    count = objects.sum(1)
    place = (F.smooth_l1_loss(places, batch[1], reduction="none").sum(1) * objects).sum(1)
    every = F.cross_entropy(kinds, batch[2], reduction="none")
    hardest = every.detach().masked_fill(objects, 0).argsort(1, descending=True).argsort(1) < 3 * count[:, None]
    return ((place + (every * (objects | hardest)).sum(1)) / count.clamp(min=1)).mean()


def _bert(kind: str, attention: str, tiny: bool) -> nn.Module:
    import transformers
    transformers.logging.set_verbosity_error()
    config = transformers.BertConfig(attn_implementation=attention, **(BERT_TINY if tiny else BERT_LARGE))
    return getattr(transformers, kind)(config)


def _pretraining_data(length: int, masked: int) -> Any:
    """Tokens, where some are masked, what they were, and whether the second sentence follows."""
    def data(batch: int, tiny: bool) -> Batch:
        n, m = (16, 2) if tiny else (length, masked)
        places = torch.rand(batch, n).argsort(1)[:, :m] + n * torch.arange(batch)[:, None]
        return torch.randint(0, VOCABULARY, (batch, n)), places, torch.randint(0, VOCABULARY, (batch, m)), torch.randint(0, 2, (batch,))
    return data


def _pretrain(model: nn.Module, batch: Batch) -> torch.Tensor:
    """The vocabulary is looked at where a token was masked only, as the published program does."""
    tokens, places, words, follows = batch
    out = model.bert(input_ids=tokens)
    states = out.last_hidden_state
    logits, next_sentence = model.cls(states.reshape(-1, states.shape[-1])[places.reshape(-1)], out.pooler_output)
    return _tokens(logits, words) + F.cross_entropy(next_sentence.float(), follows)


def _answer_data(batch: int, tiny: bool) -> Batch:
    n = 16 if tiny else 384
    return torch.randint(0, VOCABULARY, (batch, n)), torch.randint(0, n, (batch,)), torch.randint(0, n, (batch,))


def _answer(model: nn.Module, batch: Batch) -> torch.Tensor:
    out = model(input_ids=batch[0])
    return (F.cross_entropy(out.start_logits.float(), batch[1]) + F.cross_entropy(out.end_logits.float(), batch[2])) / 2


def _marian(attention: str, tiny: bool) -> nn.Module:
    """Transformer-big of "Attention is all you need": the sizes of the published one."""
    import transformers
    transformers.logging.set_verbosity_error()
    width, layers, inner = (64, 1, 128) if tiny else (1024, 6, 4096)
    config = transformers.MarianConfig(
        attn_implementation=attention, vocab_size=33712, d_model=width, encoder_layers=layers, decoder_layers=layers, encoder_ffn_dim=inner,
        decoder_ffn_dim=inner, encoder_attention_heads=16, decoder_attention_heads=16, max_position_embeddings=64, pad_token_id=0,
        decoder_start_token_id=0, activation_function="relu", use_cache=False)
    return transformers.MarianMTModel(config)


def _sentences(batch: int, tiny: bool) -> Batch:
    return tuple(torch.randint(1, 33712, (batch, 4 if tiny else 32)) for _ in range(3))


def _translate(model: nn.Module, batch: Batch) -> torch.Tensor:
    return _tokens(model(input_ids=batch[0], decoder_input_ids=batch[1]).logits, batch[2])


def _efficientnet_b4(_attention: str, tiny: bool) -> nn.Module:
    import torchvision.models
    return torchvision.models.efficientnet_b4()


_IMAGE: dict[str, Any] = {"optimizer": "sgd", "update": "foreach", "image": True, "library": "torchvision"}
_TEXT: dict[str, Any] = {"update": "fused", "library": "transformers"}

JOBS: dict[str, Job] = {
    "resnext101_32x4d": Job(lambda _a, tiny: _resnext(False, tiny), image_data(), _classes, 64, 16, 44177704, ("Bottleneck",), **_IMAGE),
    "se_resnext101_32x4d": Job(lambda _a, tiny: _resnext(True, tiny), image_data(), _classes, 64, 16, 48955416, ("Bottleneck",), **_IMAGE),
    "efficientnet_b4": Job(_efficientnet_b4, image_data(380), _classes, 32, 8, 19341616, ("MBConv",), **_IMAGE),
    "ssd300": Job(lambda _a, tiny: Ssd300(2 if tiny else 6), _found, _detect, 32, 8, 22894902, ("Bottleneck",), **_IMAGE),
    "bert_pre128": Job(lambda a, tiny: _bert("BertForPreTraining", a, tiny), _pretraining_data(128, 20), _pretrain, 32, 8, 336226108, ("BertLayer",), **_TEXT),
    "bert_pre512": Job(lambda a, tiny: _bert("BertForPreTraining", a, tiny), _pretraining_data(512, 80), _pretrain, 8, 2, 336226108, ("BertLayer",), **_TEXT),
    "bert_squad": Job(lambda a, tiny: _bert("BertForQuestionAnswering", a, tiny), _answer_data, _answer, 8, 2, 334094338, ("BertLayer",), **_TEXT),
    "transformer_big": Job(_marian, _sentences, _translate, 80, 16, 211009536, ("MarianEncoderLayer", "MarianDecoderLayer"), **_TEXT),
}
