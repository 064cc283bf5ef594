"""A what-if of your own, with all it can say of itself: docs/internals/adding-a-whatif.md."""

import foretrace as ft


@ft.whatif(
    "half-norms",
    about="batch-norm kernels read their input once",
    assumes="they are bound by memory bandwidth",
    source="Jung et al. 2018",
    not_modelled="copies the new kernels need",
    needs=["a backward pass", "memory events"],
    changes="kernels",
    parts=ft.Parts(cpu="unchanged", gpu="modelled", memory="modelled"),
    code="model = fuse_norms(model)",
    effort="a few lines",
    advise=["half-norms"],
    parameters={"x": "factor on their time"},
)
def half_norms(g, x=0.5):
    norms = g.select(kind="kernel", op="*batch_norm*")
    if not len(norms):
        g.decline("no batch norm runs in this step")
    g.scale(norms, x)
    # What they keep for the backward pass is kept once.
    g.memory.scale(g.memory.select(kind="activations", phase="forward", op="*batch_norm*"), 0.5)
