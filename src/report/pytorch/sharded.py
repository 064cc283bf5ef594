def sharded(model, gather_again, reduce_dtype=None):
    """Every block is gathered, used and reduced as one; without `gather_again` it stays whole until backward is done."""
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    kind = next(model.parameters()).device.type
    mesh = torch.distributed.device_mesh.init_device_mesh(kind, (torch.distributed.get_world_size(),))
    for module in [*repeated_blocks(model), model]:
        policy = MixedPrecisionPolicy(reduce_dtype=reduce_dtype)
        fully_shard(module, mesh=mesh, reshard_after_forward=gather_again, mp_policy=policy)
