def channels_last(batch):
    """Images with their channels innermost, as the model's weights are."""
    layout = torch.channels_last
    return each_tensor(lambda tensor: tensor.to(memory_format=layout) if tensor.dim() == 4 else tensor, batch)
