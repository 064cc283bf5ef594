"""A what-if of your own: foretrace whatif TRACE half-batchnorm --plugin half_batchnorm.py"""

import foretrace as ft


@ft.whatif("half-batchnorm", about="batch-norm kernels read their input once")
def half_batchnorm(g, x=0.5):
    g.scale(g.select(kind="kernel", op="*batch_norm*"), x)
    g.remove(g.select(kind="kernel", op="aten::relu*", after="*batch_norm*"))
