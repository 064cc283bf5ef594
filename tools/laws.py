"""The cost laws of src/hardware for fitting, from the C++ itself: build/tools/foretrace_laws.so (tools/laws.cpp; `ninja -C build
foretrace_laws`). What is searched stands here too: start value, least and largest of each parameter.
"""

import ctypes
import functools
import os
import sys
from pathlib import Path

import numpy as np
from devices import Device
from truth import ROOT

LIBRARY = Path(os.environ.get("FORETRACE_LAWS", ROOT / "build" / "tools" / "foretrace_laws.so"))
HEAD = "law,kind,architecture,parameter,value"

PRODUCT = {
    "start": (1.5, 0.5, 4.0),  # us: a kernel's begin and end
    "pad": (0.3, 0.0, 1.0),  # share of a partly filled tile's empty part that is paid for
    "share": (0.85, 0.3, 1.0),  # of the peak rate
    "traffic": (7.0, 0.01, 60.0),  # tile edge (harmonic mean) at which loading operands halves the rate
    "start_k": (60.0, 0.1, 250.0),  # steps of k a tile loses at its begin and end
    "fill": (500.0, 10.0, 6000.0),  # cycles a tile waits for its first operands
    "step": (2.0, 0.05, 20.0),  # cycles of latency per step of k
    "load": (30.0, 2.0, 300.0),  # bytes per cycle one SM can load
    "round": (0.3, 0.0, 1.0),  # 1: a part of a wave costs a whole one
    "memory": (0.9, 0.3, 1.0),  # of the streaming bandwidth
    "cache": (0.3, 0.02, 1.5),  # share of L2 in which operands stay between uses
    "hit": (0.7, 0.0, 1.0),  # share of traffic they then save
    "blend": (3.0, 1.0, 10.0),  # joins arithmetic and memory: large is the maximum, 1 the sum
    "split": (3.0, 0.1, 30.0),  # us to add up what was split along k
    "energy": (20.0, 0.2, 60.0),  # W per TFLOP/s at 12 nm
    "shrink": (2.0, 0.0, 4.0),  # how energy falls with the process: (nm / 12) to this power
}
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
RECURRENT = {
    "start": (4.0, 0.1, 60.0),  # us
    "product": (1.0, 0.2, 4.0),  # products over all time steps take so many times what the law of products says
    "recurrent": (1.0, 0.1, 3.0),  # and the product of a step
    "cell": (2.0, 0.1, 40.0),  # thousands of clocks of a step on top of its product
    "move": (1.0, 0.05, 30.0),  # times what the cell's operands take from memory
    "tail": (1.0, 0.01, 20.0),  # passes over all gates behind the steps
    "concurrency": (0.1, 0.001, 2.0),  # what layers and directions lose by running at the same time
}
# Where weights stay on chip, instead of a step's product: thousands of clocks for each 100,000 weights, and for each 10 million
# multiplications; and to begin a layer.
ON_CHIP = {k: v for k, v in RECURRENT.items() if k not in ("recurrent", "move", "concurrency")} | {
    "weights": (0.5, 0.001, 40.0), "samples": (1.0, 0.001, 40.0), "begin": (20.0, 0.1, 200.0)}
STREAMING = {
    "start": (1.5, 0.3, 6.0),  # us
    "handled": (2.0, 0.05, 50.0),  # elements in a clock of an SM of the GPU that was measured
    "share": (1.0, 0.7, 1.15),  # of the streaming bandwidth
}
# Of kinds by their sizes: an overlap of 2 leaves large contiguous kernels 3 to 6 % slower than streaming ones in steps are.
OVERLAP, LIST_OVERLAP = 4.0, 2.0
LISTS = {
    "start": (1.0, 0.1, 10.0),  # us
    "per_list": (2.0, 0.1, 10.0),  # us of a launch
    "share": (0.85, 0.5, 1.15),  # of the streaming bandwidth
    "block": (1.0, 0.1, 20.0),  # elements of a block in a clock
    "uneven": (2.0, 1.0, 20.0),  # the largest tensor of a launch over the mean
}
DIRECT = {
    "start": (2.0, 0.3, 6.0),  # us
    "handled": (4.0, 0.5, 50.0),  # multiplications in a clock of an SM of the GPU that was measured
    "alone": (0.004, 0.0005, 0.1),  # of one thread in a clock, while no others hide what it waits for
}
SAME_KERNEL = {
    "slack": (1.2, 1.0, 3.0),  # times longer than memory needs, up to which a kernel waits for memory alone
    "fastest": (0.3, 0.05, 1.0),  # of memory's time: no kernel out of L2 is faster
}


@functools.cache
def library():
    if not LIBRARY.is_file():
        print(f"{LIBRARY} is not built: ninja -C build foretrace_laws", file=sys.stderr)
        sys.exit(77)
    made = ctypes.CDLL(str(LIBRARY))
    numbers = np.ctypeslib.ndpointer(np.float64, flags="C_CONTIGUOUS")
    made.evaluate.argtypes = [ctypes.c_char_p] * 3 + [numbers, ctypes.c_size_t, ctypes.c_size_t, numbers]
    made.describe.argtypes = [ctypes.c_char_p] * 2 + [numbers]
    made.describe.restype = made.last_error.restype = ctypes.c_char_p
    return made


def evaluate(law, parameters, device, columns):
    """Microseconds of each row; tools/laws.cpp says which columns a law takes. `parameters`: the text of a table."""
    rows = np.ascontiguousarray(np.column_stack(np.broadcast_arrays(*columns)), float)
    times = np.empty(len(rows))
    if library().evaluate(law.encode(), parameters.encode(), device.encode(), rows, *rows.shape, times) != 0:
        sys.exit(f"{law}: {library().last_error().decode()}")
    return times


def describe(what, device, row=()):
    """"relative" of a device: the measured architecture most like its own; "fwd fp16" of a recurrent layer: the kind of law it follows."""
    return library().describe(what.encode(), device.encode(), np.array([*row, 0.0])).decode()


def lines_of(law, kind, architecture, p):
    return [f"{law},{kind},{architecture},{name},{value:.6g}" for name, value in p.items()]


def evaluate_law(law, table, kind, p, device, columns):
    """A law of laws/*.csv with the parameters `p`; `table`: the name of its parameters there."""
    text = "\n".join([HEAD, *(f"{table},{kind},any,{name},{value!r}" for name, value in p.items())])
    return evaluate(f"{law} {kind}", text, device, columns)


def product_us(p, tiles, kind, device, columns):
    """`p`: parameters by name; `tiles`: "128x64 64x64"."""
    arch = Device(device).arch
    lines = [f"{kind},{arch},{name},{value!r}" for name, value in p.items() if name != "tiles"]
    return evaluate(f"product {kind}", "\n".join(["kind,architecture,parameter,value", f"{kind},{arch},tiles,{tiles}", *lines]), device, columns)


def search(errors, start, bounds, rounds, most=1.0):
    """Parameters with the least mean |log error|, along one after the other on three digits, so that it ends in the same place anywhere.
    `rounds`: factors to step by, each alone or with an error of its own beyond which all are as bad (else `most`)."""
    p = dict(start)
    for step in rounds:
        step, limit = step if isinstance(step, tuple) else (step, most)

        def loss(p, limit=limit):
            return float(np.mean(np.minimum(np.abs(errors(p)), limit)))

        least = loss(p)
        for name, (_, low, high) in bounds.items():
            for factor in (step, 1 / step):
                value = float(f"{min(max(p[name] * factor, low), high):.3g}")
                if value != p[name] and (found := loss(p | {name: value})) < least - 1e-5:
                    p, least = p | {name: value}, found
    return p, least


def figures(e):
    off = np.sort(np.abs(np.expm1(e)))
    return f"{100 * off[len(off) // 2]:.1f} % median, {100 * off[int(0.9 * len(off))]:.1f} % 90th percentile"
