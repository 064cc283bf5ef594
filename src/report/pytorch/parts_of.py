def parts_of(inputs, targets, n):
    """The batch in up to n parts, each with its share of the samples: means weighted by it add up to the batch's mean."""
    samples = len(tensors_of(inputs)[0])
    size = -(-samples // n)
    for begin in range(0, samples, size):
        some = slice(begin, begin + size)
        share = (min(begin + size, samples) - begin) / samples
        yield *(each_tensor(lambda t: t[some] if t.dim() and len(t) == samples else t, b) for b in (inputs, targets)), share
