def tensors_of(batch):
    found = []
    each_tensor(lambda tensor: found.append(tensor), batch)
    return found
