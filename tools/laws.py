"""The laws of fused attention, recurrent layers and work that streams, as src/hardware/cost_attention.cpp, cost_recurrent.cpp and cost_streaming.cpp have
them, for fitting (tools/fit_laws.py) and for tests: tests/python/test_laws.py holds both to the same numbers.

Attention: a block of SMs takes `rows` queries (in the gradient: keys) of one head over all keys it sees, `columns` at a time; blocks run on SMs in waves. A
pair of query and key takes the multiplications of its head size on tensor cores and, beside them, the softmax; a block its loads. The whole is never
faster than memory.
"""

import numpy as np

# Start value, least and largest of each parameter.
ATTENTION = {
    "start": (4.0, 0.5, 30.0),  # us: kernels' begin and end
    "share": (0.7, 0.02, 1.0),  # of the peak rate, of multiplications alone
    "soft": (0.03, 0.0005, 2.0),  # clocks of an SM for a pair's softmax
    "drop": (0.03, 0.0005, 2.0),  # and for its random number
    "fill": (500.0, 10.0, 40000.0),  # clocks a block waits for its first operands
    "load": (20.0, 1.0, 200.0),  # bytes in a clock one SM loads before a block begins and stores when it ends
    "pad_rows": (0.5, 0.01, 1.0),  # share of a partly filled block's empty part that is paid for
    "pad_columns": (0.3, 0.01, 1.0),  # the same along what it walks over
    "pad_size": (0.5, 0.01, 1.0),  # and of the head size, to whole multiples of 64
    "wide": (0.1, 0.001, 3.0),  # what heads of more than 128 lose
    "round": (0.5, 0.01, 1.0),  # 1: a part of a wave costs a whole one
    "cache": (0.5, 0.01, 2.0),  # share of L2 in which operands stay
    "sharp": (2.0, 0.5, 6.0),  # how sharply that ends
    "memory": (0.8, 0.1, 1.0),  # of the streaming bandwidth
    "blend": (1.5, 1.0, 8.0),  # joins arithmetic and memory: large is the maximum, 1 the sum
}
WIDE_HEAD, HEAD_STEP = 128, 64


def attention_us(p, x, device, rate, size, backward):
    """Microseconds for arrays of shapes. `x`: columns b, h, kv, q, s, d, causal, dropout, masked; `rate`: FLOP of an SM in a clock; `size`: bytes of an
    element; `p["rows"]`, `p["columns"]`: the block."""
    b, h, kv, q, s, d, causal, dropout, masked = (np.asarray(c, float) for c in x.T)
    along, over = (s, q) if backward else (q, s)
    count = b * h * (p["pad_rows"] * np.ceil(along / p["rows"]) + (1 - p["pad_rows"]) * along / p["rows"])
    walked = p["pad_columns"] * np.ceil(over / p["columns"]) * p["columns"] + (1 - p["pad_columns"]) * over
    wide = p["pad_size"] * np.ceil(d / HEAD_STEP) * HEAD_STEP + (1 - p["pad_size"]) * d
    products = 10 if backward else 4
    pair = products * wide / (rate * p["share"]) * np.where(d > WIDE_HEAD, 1 + p["wide"], 1) + p["soft"] + dropout * p["drop"]
    begin = p["fill"] + (4 if backward else 2) * p["rows"] * d * size / p["load"]
    longest = begin + p["rows"] * walked * pair
    seen = np.where(causal > 0, np.minimum(walked, (walked + p["columns"]) / 2), walked)
    waves = count / device.sms
    turns = p["round"] * np.ceil(waves) + (1 - p["round"]) * np.maximum(waves, 1)
    busy = np.maximum(turns * (begin + p["rows"] * seen * pair), longest) / device.clock_mhz
    # The gradients of shared keys and values are added up from one for every head of queries.
    moved = size * d * b * (4 * h * q + 2 * (kv + h) * s if backward else 2 * h * q + 2 * kv * s) + masked * size * b * q * s
    moved = moved / (1 + (device.l2_mb * 1e6 * p["cache"] / moved) ** p["sharp"])
    memory = moved / (device.streaming * p["memory"] * 1e3)
    return p["start"] + (busy ** p["blend"] + memory ** p["blend"]) ** (1 / p["blend"])


# A recurrent layer: start value, least and largest.
RECURRENT = {
    "start": (4.0, 0.1, 60.0),  # us
    "product": (1.0, 0.2, 4.0),  # products over all time steps take so many times what the law of products says
    "recurrent": (1.0, 0.1, 3.0),  # and the product of a step
    "cell": (2.0, 0.1, 40.0),  # thousands of clocks of a step beside its product
    "move": (1.0, 0.05, 30.0),  # times what the cell's operands take from memory
    "tail": (1.0, 0.01, 20.0),  # passes over all gates behind the steps
    "beside": (0.1, 0.001, 2.0),  # what layers and directions lose by running beside each other
}
# Where weights stay on chip, instead of a step's product: thousands of clocks for each 100,000 weights, and for each 10 million multiplications; and to
# begin a layer.
KEPT = {k: v for k, v in RECURRENT.items() if k not in ("recurrent", "move", "beside")} | {"weights": (0.5, 0.001, 40.0), "samples": (1.0, 0.001, 40.0), "begin": (20.0, 0.1, 200.0)}


def kept_on_chip(dtype, b, i, h, layers, directions, gates, backward):
    """As cost_recurrent.cpp has it: "", " kept" or " persistent"."""
    most = (256 if gates == 1 else 128) if backward else (384 if gates == 1 else 192)
    if dtype != "bf16" and h <= most:
        return " kept"
    fits = h <= 1024 and h % 128 == 0 and i % 128 == 0 and b % 8 == 0 and b <= 128
    return " persistent" if dtype == "fp16" and layers == 1 and directions == 1 and fits else ""


def recurrent_parts(x, device, size, backward, product):
    """What the law is made of. `x`: columns b, t, i, h, layers, directions, gates; `product(m, n, k)`: us by the law of products."""
    b, t, i, h, layers, directions, gates = (np.asarray(c, float) for c in x.T)
    wide, every = gates * h, b * t
    over = np.zeros(len(x))
    for layer in range(int(layers.max(initial=1))):
        there = layer < layers
        inputs = i if layer == 0 else h * directions
        if backward:
            over += there * (product(every, inputs, wide) + product(wide, inputs, every) + product(wide, h, every))
        else:
            over += there * product(every, wide, inputs)
    return {"over": over, "step": product(b, h, wide) if backward else product(b, wide, h), "steps": t * layers, "directions": directions,
            "cell": b * h * (gates + 3) * size / (device.streaming * 1e3), "all": every * wide * size / (device.streaming * 1e3) * layers,
            "beside": ((layers > 1) | (directions > 1)).astype(float), "weights": gates * h * h, "batch": b, "layers": layers}


def recurrent_us(p, parts, device, kept):
    clock = device.clock_mhz / 1e3
    step = p["cell"] / clock + p.get("move", 0) * parts["cell"]
    if kept:
        step = step + (p["weights"] * parts["weights"] / 1e5 + p["samples"] * parts["weights"] * parts["batch"] / 1e7) / clock
    else:
        step = step + p["recurrent"] * parts["step"]
    us = parts["steps"] * step + p["product"] * parts["over"] + parts["layers"] * p.get("begin", 0) / clock
    return p["start"] + ((1 + p.get("beside", 0) * parts["beside"]) * us + p["tail"] * parts["all"]) * parts["directions"]


# Work that streams: start value, least and largest.
STREAMING = {
    "start": (1.5, 0.3, 6.0),  # us
    "handled": (2.0, 0.05, 50.0),  # elements in a clock of an SM of the GPU that was measured
    "share": (1.0, 0.7, 1.15),  # of the streaming bandwidth
}
OVERLAP = 4.0  # of kinds by their sizes: 2 leaves large contiguous kernels 3 to 6 % slower than streaming ones in steps are


def streaming_us(p, bytes_moved, elements, device):
    """On the GPU whose SMs `handled` speaks of."""
    memory = bytes_moved / (device.streaming * 1e3) / p["share"]
    handled = elements / (p["handled"] * device.sms * device.clock_mhz)
    return p["start"] + (memory**OVERLAP + handled**OVERLAP) ** (1 / OVERLAP)


# Lists of tensors, as ATen/native/cuda/MultiTensorApply.cuh launches them.
LISTS = {
    "start": (1.0, 0.1, 10.0),  # us
    "per_list": (2.0, 0.1, 10.0),  # us of a launch
    "share": (0.85, 0.5, 1.15),  # of the streaming bandwidth
    "block": (1.0, 0.1, 20.0),  # elements of a block in a clock
    "uneven": (2.0, 1.0, 20.0),  # the largest tensor of a launch over the mean
}
LIST_OVERLAP = 2.0
BLOCK, BLOCKS, TENSORS = 65536, 320, np.array([110, 64, 48, 36, 30])


def lists_us(p, bytes_moved, elements, tensors, lists, device):
    launches = np.maximum(np.ceil(tensors / TENSORS[np.clip(lists, 1, 4).astype(int) - 1]), np.ceil(elements / BLOCK / BLOCKS))
    block = np.minimum(BLOCK, p["uneven"] * elements / tensors) / (p["block"] * device.clock_mhz)
    memory = bytes_moved / (device.streaming * 1e3) / p["share"]
    return p["start"] + p["per_list"] * launches + (memory**LIST_OVERLAP + (launches * block) ** LIST_OVERLAP) ** (1 / LIST_OVERLAP)


# A grouped convolution without tensor cores, in one launch (cuDNN's direct kernels): a thread to an output, which multiplies one value after the other.
DIRECT = {
    "start": (2.0, 0.3, 6.0),  # us
    "handled": (4.0, 0.5, 50.0),  # multiplications in a clock of an SM of the GPU that was measured
    "alone": (0.004, 0.0005, 0.1),  # of one thread in a clock, while no others hide what it waits for
}


def direct_us(p, multiplied, depth, device):
    """`depth`: multiplications of one thread."""
    handled = multiplied / (p["handled"] * device.sms * device.clock_mhz)
    return p["start"] + ((depth / (p["alone"] * device.clock_mhz)) ** OVERLAP + handled**OVERLAP) ** (1 / OVERLAP)


# A kernel that goes to another GPU as it is: start value, least and largest.
SAME_KERNEL = {
    "sharp": (3.0, 1.0, 3.0),  # how quickly memory stops to explain a time that is longer than memory's; no more: 10 % of time is 1.1^4 of the answer
    "slack": (1.2, 1.0, 2.0),  # longer than what streaming kernels take, and still memory's
    "fastest": (0.3, 0.05, 1.0),  # of memory's time: no kernel out of L2 is faster
    "step": (4.0, 1.0, 12.0),  # how sharply L2 ends
}
# What lanes beyond 64 help: no table of element-wise work holds GPUs on both sides. Over 990 operations of whole models that are no products (adds, norms,
# softmax, copies, embeddings; docs/internals/gpus.md) on an H100 and one of A100, V100, T4, P100, both ways, a third leaves 9.0 % on average and 4.8 in the
# median, all of them 15.6 and 9.6, none 11.4 and 6.4; pairs with an A100 and with a V100 alone choose the same third.
BEYOND_NARROW = 0.333
NARROW_LANES, BLOCK_FLOPS, SAME_OVERLAP = 64, 128, 2.0


def same_kernel_us(p, us, moved, blocks, origin, target, empty_us):
    """As src/hardware/transfer_same.cpp has it, for arrays of kernels of known size."""
    start = us * empty_us / (us + empty_us)
    work = us - start
    slower = origin.streaming / target.streaming

    def usable(d):
        lanes = d.vector * 1e6 / (2 * d.sms * d.clock_mhz)
        pascal = d.vendor == "nvidia" and d.major < 7
        issued = d.vector if pascal or lanes <= NARROW_LANES else d.vector * (NARROW_LANES + BEYOND_NARROW * (lanes - NARROW_LANES)) / lanes
        return np.where(blocks > 0, np.minimum(issued, blocks * BLOCK_FLOPS * d.clock_mhz * 1e-6), issued)

    def step(x):
        return 1 / (1 + x ** -p["step"])

    rate = usable(origin) / usable(target)
    memory = moved / (origin.streaming * 1e3)
    lost = step(moved / max(1.0, target.l2_mb * 1e6)) * step(work / (memory * p["fastest"]))
    streamed = work + np.maximum(0.0, memory - work) * lost
    x = np.clip(streamed / (p["slack"] * memory), 1e-6, 1e6)
    share = (1 + x ** (SAME_OVERLAP * p["sharp"])) ** (-1 / p["sharp"])
    return start + (share * (streamed * slower) ** SAME_OVERLAP + (1 - share) * (work * rate) ** SAME_OVERLAP) ** (1 / SAME_OVERLAP)
