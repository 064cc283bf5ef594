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
