"""The GPUs and networks that foretrace knows: `foretrace list devices` and `foretrace list fabrics` as objects."""

from __future__ import annotations

from dataclasses import dataclass

from . import _core


@dataclass(frozen=True)
class DeviceModel:
    """A GPU model: what `Graph.on` and "gpu:to=NAME" take. Rates are dense peaks; None where no source gives the figure."""

    name: str  # "H200-SXM"
    full_name: str  # as the driver reports it, "NVIDIA H200"
    vendor: str
    sm_count: int
    memory_gb: float
    bandwidth_gbs: float
    tflops_fp32: float
    tflops_tf32: float | None  # on tensor cores; None: it has none
    tflops_fp16: float | None
    tflops_bf16: float | None
    usd_per_hour: float | None
    price_source: str
    source: str

    def __str__(self) -> str:
        return f"{self.name}: {self.sm_count} SMs, {self.memory_gb:g} GB at {self.bandwidth_gbs:g} GB/s"


@dataclass(frozen=True)
class FabricLevel:
    """One level of a network: the links inside a node, or between nodes."""

    name: str
    link: str  # "nvlink", "pcie", "network"
    gbs: float  # GB/s in one direction
    per_node: bool  # shared by the GPUs of a node; else each GPU has it
    efficiency: float  # what large collectives reach of it


@dataclass(frozen=True)
class Fabric:
    """A network between GPUs: what `Graph.scale` and "ddp:fabric=NAME" take."""

    name: str  # "DGX-H100"
    about: str
    gpus_per_node: int
    levels: tuple[FabricLevel, ...]  # from the innermost to the outermost
    source: str

    def __str__(self) -> str:
        rates = " | ".join(f"{level.gbs:g}" for level in self.levels)
        return f"{self.name}: {self.gpus_per_node} GPU(s) per node, {rates} GB/s"


def devices() -> list[DeviceModel]:
    """The GPUs foretrace knows, by name."""
    return [DeviceModel(**d) for d in _core.devices()]


def fabrics() -> list[Fabric]:
    """The networks foretrace knows, by name."""
    return [Fabric(**{**f, "levels": tuple(FabricLevel(**level) for level in f["levels"])}) for f in _core.fabrics()]
