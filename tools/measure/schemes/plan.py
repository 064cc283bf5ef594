"""Which cases run on which set-up, the most needed first."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class SetUp:
    """`tag` names it in rows; ranks of one `node` share a host id. `share` of the whole time it may take."""

    tag: str
    world: int
    share: float
    cases: tuple[tuple[str, str], ...]  # (case, network)
    traces: tuple[tuple[str, str], ...] = ()
    node: int = 0  # ranks of a node; 0: all of them
    environment: dict[str, str] = field(default_factory=dict)
    sizes: dict[str, tuple[float, ...]] = field(default_factory=dict)  # of collectives, MiB

    @property
    def name(self) -> str:
        return f"{self.tag}.w{self.world}"


SMALL, ALL = (0.004, 0.0625, 0.25, 1, 4), (0.004, 0.0625, 0.25, 1, 4, 16, 64)
EVERY = {"all_reduce": (*ALL, 256), "all_gather": ALL[1:], "reduce_scatter": ALL[1:], "all_to_all": ALL, "broadcast": ALL}
SLOW = EVERY | {"all_reduce": ALL, "broadcast": ALL[:6]}
SERVED = {"gather": (0.25, 1, 4, 16, 64), "scatter": (0.25, 1, 4, 16, 64)}
FEW = {"all_reduce": (0.25, 1, 4, 16, 64, 256), "all_gather": (1, 4, 16), "reduce_scatter": (1, 4, 16), "broadcast": (0.004, 0.25, 1)}

R, V, B, G = "resnet50", "vgg16", "bert_l6", "gpt2_l4"
SCHEMES = ("ddp", "zero1", "p3@4", "horovod@1", "ps", "fsdp1", "zero2", "fsdp", "dgc", "terngrad", "topk", "qsgd", "powersgd", "ddpfp16",
           "ddp@5")


def cases(schemes: tuple[str, ...], networks: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    return tuple((s, n) for s in schemes for n in networks)


SOLO = cases(("solo",), (R, V, B, G))
SET_UPS = (
    SetUp("inside", 2, 0.28, SOLO + cases(SCHEMES, (V, B, R)) + cases(SCHEMES, (G,)), SOLO + cases(("ddp",), (V, B, R)), sizes=EVERY),
    SetUp("net", 2, 0.34, SOLO + cases(SCHEMES, (V, B, R)) + cases(SCHEMES[:9], (G,)), node=1, sizes=SLOW),
    SetUp("pairs", 4, 0.15, cases(("solo",), (R, V, B)) + cases(("blueconnect", "ddp"), (B, R, V)) + cases(("servers@1",), (R, B))
          + cases(("servers@2",), (B, R)) + cases(("fsdp", "zero2"), (B, R)), cases(("solo",), (B, R, V)), node=2, sizes=SLOW | SERVED),
    SetUp("inside", 4, 0.09, cases(("solo", "blueconnect", "servers@1", "ddp"), (B, R, V)) + cases(("fsdp",), (B, R)), sizes=EVERY | SERVED),
    SetUp("inside2", 2, 0.04, cases(("solo", "ddp"), (V, B, R)), environment={"NCCL_MAX_CTAS": "2"}, sizes=FEW),
    SetUp("inside1", 2, 0.04, cases(("solo", "ddp"), (V, B, R)), environment={"NCCL_MAX_CTAS": "1"}, sizes=FEW),
    SetUp("net", 4, 0.06, cases(("solo",), (B, R)) + cases(("blueconnect", "servers@1"), (B, R)) + cases(("ddp",), (B, R)), node=1,
          sizes=SLOW | SERVED),
)
TINY_SIZES = {"all_reduce": (0.004, 0.25), "all_gather": (0.25,), "reduce_scatter": (0.25,), "broadcast": (0.25,), "all_to_all": (0.25,)}
