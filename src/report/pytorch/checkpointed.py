def checkpointed(block, reentrant=False):
    """The block keeps its inputs only and computes the rest again in backward."""
    inner = block.forward

    def recomputed(*args, **kwargs):
        return torch.utils.checkpoint.checkpoint(inner, *args, use_reentrant=reentrant, **kwargs)

    block.forward = recomputed
