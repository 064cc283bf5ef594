def zero_optimizer(cls, parameters, options):
    """Each worker keeps the states of its share of the parameters, and updates those."""
    if not torch.distributed.is_initialized():
        return cls(parameters, **options)
    from torch.distributed.optim import ZeroRedundancyOptimizer

    return ZeroRedundancyOptimizer(parameters, optimizer_class=cls, **options)
