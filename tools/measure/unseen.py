"""Jobs kept apart: nothing is fitted on them, and they are measured last, to see what predictions are worth on networks that
nobody looked at."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from .models import Batch, Job, _classes, _plain, hugging_face, vision

_TINY = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128}


class PointNet(nn.Module):
    """Shared layers over the points of a cloud, then their maximum."""

    def __init__(self, widths: tuple[int, ...] = (64, 64, 128, 1024), head: tuple[int, ...] = (512, 256), classes: int = 40):
        super().__init__()
        shared: list[nn.Module] = []
        for a, b in zip((3, *widths), widths):
            shared += [nn.Conv1d(a, b, 1), nn.BatchNorm1d(b), nn.ReLU()]
        last: list[nn.Module] = []
        for a, b in zip((widths[-1], *head), head):
            last += [nn.Linear(a, b), nn.BatchNorm1d(b), nn.ReLU(), nn.Dropout(0.3)]
        self.shared, self.head = nn.Sequential(*shared), nn.Sequential(*last, nn.Linear(head[-1], classes))

    def forward(self, points):
        return self.head(self.shared(points).amax(-1))


class TemporalBlock(nn.Module):
    def __init__(self, before: int, after: int, dilation: int):
        super().__init__()
        self.pad = 2 * dilation
        self.conv1 = nn.Conv1d(before, after, 3, padding=self.pad, dilation=dilation)
        self.conv2 = nn.Conv1d(after, after, 3, padding=self.pad, dilation=dilation)
        self.drop, self.skip = nn.Dropout(0.2), nn.Identity() if before == after else nn.Conv1d(before, after, 1)

    def forward(self, x):
        y = self.drop(F.relu(self.conv1(x)[..., :-self.pad]))
        y = self.drop(F.relu(self.conv2(y)[..., :-self.pad]))
        return F.relu(y + self.skip(x))


class TemporalNetwork(nn.Module):
    """Dilated causal convolutions, each block looking twice as far back."""

    def __init__(self, inputs: int = 64, width: int = 256, blocks: int = 8, classes: int = 10):
        super().__init__()
        self.blocks = nn.Sequential(*[TemporalBlock(width if i else inputs, width, 2 ** i) for i in range(blocks)])
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        return self.head(self.blocks(x)[..., -1])


class Autoencoder(nn.Module):
    """A variational one: strided convolutions down to a random code and back."""

    def __init__(self, widths: tuple[int, ...] = (64, 128, 256, 512), size: int = 64, code: int = 256):
        super().__init__()
        down: list[nn.Module] = []
        for a, b in zip((3, *widths), widths):
            down += [nn.Conv2d(a, b, 4, 2, 1), nn.BatchNorm2d(b), nn.LeakyReLU(0.2)]
        up: list[nn.Module] = []
        for a, b in zip(widths[::-1], widths[-2::-1]):
            up += [nn.ConvTranspose2d(a, b, 4, 2, 1), nn.BatchNorm2d(b), nn.LeakyReLU(0.2)]
        self.corner, self.wide = size // 2 ** len(widths), widths[-1]
        flat = self.wide * self.corner ** 2
        self.down, self.mean, self.spread = nn.Sequential(*down), nn.Linear(flat, code), nn.Linear(flat, code)
        self.widen, self.up = nn.Linear(code, flat), nn.Sequential(*up, nn.ConvTranspose2d(widths[0], 3, 4, 2, 1))

    def forward(self, x):
        y = self.down(x).flatten(1)
        mean, spread = self.mean(y), self.spread(y)
        code = mean + torch.randn_like(mean) * torch.exp(0.5 * spread)
        made = self.up(self.widen(code).view(-1, self.wide, self.corner, self.corner))
        return made, mean, spread


def _clouds(batch: int, tiny: bool) -> Batch:
    return torch.randn(batch, 3, 64 if tiny else 1024), torch.randint(0, 40, (batch,))


def _series(batch: int, tiny: bool) -> Batch:
    return torch.randn(batch, 8 if tiny else 64, 32 if tiny else 1024), torch.randint(0, 10, (batch,))


def _faces(batch: int, tiny: bool) -> Batch:
    return (torch.rand(batch, 3, *((16, 16) if tiny else (64, 64))),)


def _evidence(model: nn.Module, batch: Batch) -> torch.Tensor:
    made, mean, spread = (t.float() for t in model(batch[0]))
    return F.mse_loss(made, batch[0]) - 5e-4 * (1 + spread - mean.pow(2) - spread.exp()).mean()


JOBS: dict[str, Job] = {
    "albert": hugging_face("AlbertForMaskedLM", "AlbertConfig", 256, 30000, 32, 2, 11221680, "AlbertLayer",
                           {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072},
                           _TINY | {"embedding_size": 16}),
    "electra": hugging_face("ElectraForMaskedLM", "ElectraConfig", 128, 30522, 64, 4, 13546682, "ElectraLayer", {}, _TINY | {"embedding_size": 32}),
    "phi": hugging_face("PhiForCausalLM", "PhiConfig", 512, 51200, 8, 1, 205664256, "PhiDecoderLayer",
                        {"hidden_size": 1024, "num_hidden_layers": 8, "num_attention_heads": 16, "intermediate_size": 4096}, _TINY,
                        optimizer="adamw"),
    "gemma": hugging_face("GemmaForCausalLM", "GemmaConfig", 512, 32000, 8, 1, 252986368, "GemmaDecoderLayer",
                          {"vocab_size": 32000, "hidden_size": 1024, "num_hidden_layers": 8, "num_attention_heads": 8,
                           "num_key_value_heads": 1, "head_dim": 128, "intermediate_size": 8192},
                          _TINY | {"num_key_value_heads": 1, "head_dim": 16}, optimizer="adamw"),
    "resnet152": vision("resnet152", 48, 4, 60192808, ("Bottleneck",)),
    "googlenet": vision("googlenet", 128, 16, 6624904),
    "squeezenet1_1": vision("squeezenet1_1", 256, 32, 1235496, ("Fire",)),
    "pointnet": Job(_plain(PointNet, lambda: PointNet((8, 16), (16,))), _clouds, _classes, 256, 32, 815336),
    "tcn": Job(_plain(TemporalNetwork, lambda: TemporalNetwork(8, 16, 3)), _series, _classes, 128, 16, 3021578, ("TemporalBlock",)),
    "vae": Job(_plain(Autoencoder, lambda: Autoencoder((8, 16), 16, 8)), _faces, _evidence, 256, 32, 11815555, image=True),
}
