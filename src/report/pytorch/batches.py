def each_tensor(change, batch):
    """The batch with every tensor in it changed; batches may be tensors, lists, tuples and dictionaries of them."""
    if torch.is_tensor(batch):
        return change(batch)
    if isinstance(batch, dict):
        return type(batch)((key, each_tensor(change, value)) for key, value in batch.items())
    if isinstance(batch, (list, tuple)):
        return type(batch)(each_tensor(change, value) for value in batch)
    return batch


def forward(model, inputs):
    """A dictionary holds arguments by name, a list or tuple by place."""
    if isinstance(inputs, dict):
        return model(**inputs)
    return model(*inputs) if isinstance(inputs, (list, tuple)) else model(inputs)
