"""Small XLA profiles (XSpace messages): a step of one compiled program, with command buffers or without."""

from __future__ import annotations

from pathlib import Path

from protobuf import write

F32, S32, BF16 = 11, 4, 16


def shape(*dims: int, kind: int = F32) -> bytes:
    return write((2, kind), *((3, d) for d in dims))


class Program:
    """An HloProto: instructions in the order they are given, which is that of the schedule too."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.instructions: list[bytes] = []
        self.computations: list[bytes] = []
        self.ids: dict[str, int] = {}
        self.shapes: dict[str, bytes] = {}
        self.looped: set[str] = set()

    def add(
        self, name: str, opcode: str, result: bytes, operands: tuple[str, ...] = (), scope: str = "", target: str = "", config: str = "",
        calls: int | None = None, **numbers: bytes,
    ) -> str:  # fmt: skip
        self.ids[name] = len(self.ids) + 1
        self.shapes[name] = result
        pairs: list = [(1, name), (2, opcode), (3, result), (35, self.ids[name]), *((36, self.ids[o]) for o in operands)]
        if scope:
            pairs.append((7, write((2, scope))))
        if target:
            pairs += [(28, target), (43, config)]
        if calls is not None:
            pairs.append((38, calls))
        if "dot" in numbers:
            pairs.append((30, numbers["dot"]))
        if "conv" in numbers:
            pairs += [(15, numbers["window"]), (16, numbers["conv"])]
        if "precision" in numbers:
            pairs.append((51, numbers["precision"]))
        if "devices" in numbers:
            pairs.append((87, numbers["devices"]))
        self.instructions.append(write(*pairs))
        return name

    def fused(self, number: int, instructions: list[bytes]) -> int:
        self.computations.append(write((1, f"fused.{number}"), *((2, i) for i in instructions), (5, number)))
        return number

    def fusion(self, name: str, result: bytes, operands: tuple[str, ...], opcode: str, scope: str = "") -> str:
        """A fusion of one operation of the operands."""
        number = 100 + len(self.computations)
        inner = [write((1, f"p{i}"), (2, "parameter"), (3, self.shapes[o]), (9, i), (35, 10 * number + i)) for i, o in enumerate(operands)]
        inner.append(write((1, "r"), (2, opcode), (3, result), (35, 10 * number + 9), *((36, 10 * number + i) for i in range(len(operands)))))
        self.computations.append(write((1, f"fused.{number}"), *((2, i) for i in inner), (5, number), (6, 10 * number + 9)))
        return self.add(name, "fusion", result, operands, scope, calls=number)

    def loop(self, name: str, since: int, result: bytes, operands: tuple[str, ...]) -> str:
        """A while instruction, whose body is what was added after the first `since` instructions."""
        number = 100 + len(self.computations)
        self.computations.append(write((1, "body"), *((2, i) for i in self.instructions[since:]), (5, number)))
        self.looped |= set(list(self.ids)[since:])
        del self.instructions[since:]
        return self.add(name, "while", result, operands, calls=number)

    def proto(self) -> bytes:
        entry = write((1, "main"), *((2, i) for i in self.instructions), (5, 9000))
        schedule = write((1, write((1, 9000), (2, write(*((1, i) for n, i in self.ids.items() if n not in self.looped))))))
        module = write((1, self.name), *((3, c) for c in self.computations), (3, entry), (6, 9000), (7, schedule))
        return write((1, module))


def gemm(batch: str = "") -> str:
    return (
        '{"gemm_backend_config":{"dot_dimension_numbers":{"lhs_contracting_dimensions":["1"],"rhs_contracting_dimensions":["0"],'
        '"lhs_batch_dimensions":[' + batch + '],"rhs_batch_dimensions":[' + batch + "]}}}"
    )


def reduced(p: Program, ranks: int) -> None:
    """Gradients summed over all ranks, two types in one call; an all-gather that is started here and done elsewhere."""
    together = write((2, write((1, 1), (2, ranks))))  # iota_replica_group_list
    pair = write((2, 13), (4, shape(768, 3072)), (4, shape(100, kind=BF16)))
    p.add("b", "parameter", shape(100, kind=BF16))
    p.add("all-reduce.1", "all-reduce", shape(768, 3072), ("w",), "jit(step)/transpose(jvp(block0))/psum", devices=together)
    p.add("all-reduce.2", "all-reduce-start", pair, ("w", "b"), "jit(step)/transpose(jvp(block0))/psum", devices=together)
    p.add("all-gather.1", "all-gather-start", write((2, 13), (4, shape(1000)), (4, shape(1000 * ranks))), ("g",), "jit(step)/all_gather", devices=together)


def program(ranks: int = 1) -> Program:
    p = Program("jit_step")
    p.add("g", "parameter", shape(1000))
    p.add("w", "parameter", shape(768, 3072))
    p.add("x", "parameter", shape(2048, 768))
    body = p.fused(
        1, [write((1, "a"), (2, "parameter"), (3, shape(2048, 3072)), (35, 501)), write((1, "t"), (2, "tanh"), (3, shape(2048, 3072)), (35, 502), (36, 501))]
    )
    p.add("copy.1", "copy", shape(768, 3072), ("w",))
    p.add("custom-call.1", "custom-call", shape(2048, 3072), ("x", "copy.1"), "jit(step)/jvp(block0)/dot_general", "__cublas$gemm", gemm())
    p.add("loop_tanh_fusion", "fusion", shape(2048, 3072), ("custom-call.1",), "jit(step)/jvp(block0)/tanh", calls=body)
    p.add("loop_tanh_fusion.1", "fusion", shape(2048, 3072), ("loop_tanh_fusion",), "jit(step)/transpose(jvp(block0))/mul", calls=body)
    p.add("custom-call.2", "custom-call", shape(2048, 768), ("loop_tanh_fusion.1", "w"), "jit(step)/transpose(jvp(block0))/dot_general", "__cublas$gemm", gemm())
    if ranks > 1:
        reduced(p, ranks)
    p.add("loop_subtract_fusion", "fusion", shape(768, 3072), ("w", "copy.1"), "jit(step)/sub", calls=body)
    return p


def scan() -> Program:
    """A loop over two products, with a fusion in front of it whose kernel differs from the body's in its number only."""
    p = Program("jit_step")
    x = shape(2048, 768)
    p.add("w", "parameter", shape(768, 768))
    p.add("x", "parameter", x)
    p.fusion("loop_add_fusion", x, ("x",), "negate", "jit(step)/jvp(embed)/add")
    since = len(p.instructions)
    p.fusion("loop_add_fusion.1", x, ("x",), "negate", "jit(step)/jvp(norm)/while/body/add")
    p.add("custom-call.1", "custom-call", x, ("loop_add_fusion.1", "w"), "jit(step)/jvp(first)/while/body/dot_general", "__cublas$gemm", gemm())
    p.fusion("loop_multiply_fusion.1", x, ("custom-call.1",), "negate", "jit(step)/jvp(middle)/while/body/mul")
    p.add("custom-call.2", "custom-call", x, ("loop_multiply_fusion.1", "w"), "jit(step)/jvp(second)/while/body/dot_general", "__cublas$gemm", gemm())
    p.loop("while.1", since, x, ("x",))
    p.fusion("loop_subtract_fusion", x, ("while.1",), "negate", "jit(step)/jvp(head)/sub")
    return p


TURNS = 3
SCAN_KERNELS = [
    ("loop_add_fusion", 9_000, "embed"),
    *TURNS * [
        ("loop_add_fusion_1", 9_000, "norm"),
        ("sm80_xmma_gemm_f32f32_nn", 90_000, "first"),
        ("loop_multiply_fusion_1", 9_000, "middle"),
        ("sm80_xmma_gemm_f32f32_nn", 80_000, "second"),
    ],
    ("loop_subtract_fusion", 9_000, "head"),
]  # fmt: skip


def convolution(precision: int = 0) -> Program:
    """A convolution of images, its weight's gradient and the update; the weight is first brought into another layout."""
    images, weight, turned, maps = shape(32, 56, 56, 64), shape(3, 3, 64, 128), shape(128, 3, 3, 64), shape(32, 56, 56, 128)
    numbers = write((7, 0), (8, 3), (11, b"\x01\x02"), (4, 3), (3, 0), (6, b"\x01\x02"), (9, 0), (10, 3), (12, b"\x01\x02"))
    window = write(*((1, write((1, 3), (2, 1))) for _ in range(2)))
    how = {"conv": numbers, "window": window, "precision": write((1, bytes([precision, precision])))}
    p = Program("jit_step")
    p.add("w", "parameter", weight)
    p.add("x", "parameter", images)
    p.add("y", "parameter", shape(32, kind=S32))
    p.fusion("wrapped_transpose", turned, ("w",), "transpose", "params['w']")
    p.add("cudnn-conv.1", "custom-call", maps, ("x", "wrapped_transpose"), "jit(step)/jvp(stem)/conv", "__cudnn$convForward", "{}", **how)
    p.fusion("loop_maximum_fusion", maps, ("cudnn-conv.1",), "maximum", "jit(step)/jvp(stem)/max")
    p.fusion("loop_select_fusion", maps, ("loop_maximum_fusion", "y"), "select", "jit(step)/transpose(jvp(stem))/select")
    p.add("cudnn-conv-bw-filter.1", "custom-call", turned, ("x", "loop_select_fusion"), "jit(step)/transpose(jvp(stem))/conv", "__cudnn$convBackwardFilter", "{}", **how)
    p.fusion("loop_subtract_fusion", weight, ("wrapped_transpose", "cudnn-conv-bw-filter.1"), "subtract", "jit(step)/sub")
    return p


def convolution_profile(path: Path, steps: int = 3, precision: int = 0) -> Path:
    """As JAX writes it where convolutions run outside of command buffers: each launch bears the name of its kernel, and a library's call is
    several kernels, on two streams."""
    meta, host, plane = Plane("/host:metadata"), Plane("/host:CPU"), Plane("/device:GPU:0")
    meta.events["jit_step(7)"] = 1
    meta.protos["jit_step(7)"] = [meta.stat("Hlo Proto", convolution(precision).proto()), meta.stat("program_id", 7)]
    plane.own = [plane.stat(k, v) for k, v in (("gpu_device_name", "NVIDIA H200"), ("core_count", 132), ("compute_cap_major", 9), ("memory_size", 150_109_880_320))]
    weights = "cudnn-conv-bw-filter.1"
    kernels = [
        ("wrapped_transpose", 2_000, "wrapped_transpose", 14),
        ("void cudnn::nhwcToNchwKernel<float>", 20_000, "cudnn-conv.1", 14),
        ("sm80_xmma_fprop_implicit_gemm_f32f32_f32f32_f32", 600_000, "cudnn-conv.1", 14),
        ("void cudnn::nchwToNhwcKernel<float>", 30_000, "cudnn-conv.1", 14),
        ("loop_maximum_fusion", 40_000, "loop_maximum_fusion", 14),
        ("loop_select_fusion", 40_000, "loop_select_fusion", 14),
        ("void fft2d_r2c_32x32<float>", 100_000, weights, 14),
        ("void fft2d_r2c_32x32<float>", 100_000, weights, 34),
        ("sm80_xmma_gemm_cf32cf32_f32f32_cf32_nt", 500_000, weights, 14),
        ("loop_subtract_fusion", 3_000, "loop_subtract_fusion", 14),
    ]
    streams: dict[int, list[bytes]] = {14: [], 34: []}
    calls: list[bytes] = []
    now = 100_000
    for step in range(steps):
        begin, at, free = now, now + 10_000, 0
        for i, (kernel, length, op, stream) in enumerate(kernels):
            correlation = 100 * step + i + 1
            calls.append(host.event(kernel, at, 5_000, host.stat("correlation_id", correlation)))
            start = max(free + 500, at + 8_000)
            stats = [plane.stat("correlation_id", correlation), plane.stat("kernel_details", DETAILS, True), plane.stat("program_id", 7)]
            stats += [plane.stat("hlo_module", "jit_step", True), plane.stat("hlo_op", op, True)]
            streams[stream].append(plane.event(kernel, start, length, *stats))
            free, at = start + length, at + 6_000
        now = free + 30_000
        calls.append(host.event("train", begin, now - 10_000 - begin, host.stat("step_num", step)))
    for stream, events in streams.items():
        plane.line(stream, f"Stream #{stream}(Compute)", events)
    host.line(77, "python3", calls)
    path.write_bytes(write(*((1, p.bytes()) for p in (meta, plane, host)), (4, "host")))
    return path


class Plane:
    def __init__(self, name: str) -> None:
        self.name = name
        self.events: dict[str, int] = {}
        self.stats: dict[str, int] = {}
        self.lines: list[bytes] = []
        self.own: list[bytes] = []
        self.protos: dict[str, list[bytes]] = {}

    def stat(self, name: str, value: int | float | str | bytes, ref: bool = False) -> bytes:
        key = self.stats.setdefault(name, len(self.stats) + 1)
        if ref:
            return write((1, key), (7, self.stats.setdefault(str(value), len(self.stats) + 1)))
        field = 2 if isinstance(value, float) else 4 if isinstance(value, int) else 5 if isinstance(value, str) else 6
        return write((1, key), (field, value))

    def event(self, name: str, start: int, duration: int, *stats: bytes) -> bytes:
        key = self.events.setdefault(name, len(self.events) + 1)
        return write((1, key), (2, start * 1000), (3, duration * 1000), *((4, s) for s in stats))

    def line(self, number: int, name: str, events: list[bytes], start: int = 0) -> None:
        self.lines.append(write((1, number), (2, name), (3, start), *((4, e) for e in events)))

    def bytes(self) -> bytes:
        return write(
            (2, self.name),
            *((3, line) for line in self.lines),
            *((4, write((1, k), (2, write((1, k), (2, n), *((5, s) for s in self.protos.get(n, [])))))) for n, k in self.events.items()),
            *((5, write((1, k), (2, write((1, k), (2, n))))) for n, k in self.stats.items()),
            *((6, s) for s in self.own),
        )


DETAILS = "regs:32 static_shared:64 dynamic_shared:0 grid:1056,1,1 block:256,1,1 occ_pct:100"


NCCL = (("AllReduce_Sum_f32", "all-reduce.1"), ("AllReduce_Sum_f32", "all-reduce.2"), ("AllGather", "all-gather.1"))


def profile(path: Path, steps: int = 3, gpus: int = 1, command_buffer: bool = True, marked: bool = True, programs: bool = True, collectives: bool = False, lines_begin: int = 0, loop: bool = False) -> Path:
    meta = Plane("/host:metadata")
    if programs:
        meta.events["jit_step(7)"] = 1
        meta.protos["jit_step(7)"] = [meta.stat("Hlo Proto", (scan() if loop else program(gpus if collectives else 1)).proto()), meta.stat("program_id", 7)]
    host = Plane("/host:CPU")
    host_events: list[bytes] = []
    gpu_planes = []
    kernels = SCAN_KERNELS if loop else [
        ("memcpy128", 5_000, "copy.1"),
        ("sm80_xmma_gemm_f32f32_nn", 180_000, "custom-call.1"),
        ("loop_tanh_fusion", 18_000, "loop_tanh_fusion"),
        ("loop_tanh_fusion", 19_000, "loop_tanh_fusion.1"),
        ("Memset 0", 1_000, "custom-call.2"),
        ("sm80_xmma_gemm_f32f32_tn", 200_000, "custom-call.2"),
        *((f"ncclDevKernel_{name}_RING_LL(args)", 30_000, op) for name, op in NCCL if collectives),
        ("loop_subtract_fusion", 9_000, "loop_subtract_fusion"),
    ]
    for gpu in range(gpus):
        plane = Plane(f"/device:GPU:{gpu}")
        plane.own = [plane.stat("gpu_device_name", "NVIDIA H200"), plane.stat("core_count", 132), plane.stat("memory_size", 150_109_880_320)]
        events = []
        now, correlation = 100_000, 1
        for step in range(steps):
            begin = now
            if command_buffer:
                calls = [("cuGraphLaunch (CudaGraph:5)", list(range(len(kernels))))]
            else:
                calls = [("cuLaunchKernel", [i]) for i in range(len(kernels))]
            at, free = now + 10_000, 0
            for name, members in calls:
                if gpu == 0 or command_buffer:
                    host_events.append(host.event(name, at, 6_000, host.stat("correlation_id", correlation), host.stat("device_id", gpu)))
                for i in members:
                    kernel, length, op = kernels[i]
                    start = max(free + 500, at + 8_000)
                    details = plane.stat("memset_details", "kind:unknown num_bytes:768 async:0") if kernel.startswith("Memset") else plane.stat("kernel_details", DETAILS, True)
                    stats = [plane.stat("correlation_id", correlation), details, plane.stat("hlo_module", "jit_step", True), plane.stat("program_id", 7)]
                    stats.append(plane.stat("hlo_op", "command_buffer_1" if command_buffer else op, True))
                    if command_buffer:
                        stats += [plane.stat("cuda_graph_id", 5), plane.stat("cuda_graph_node_id", 100 + i)]
                    events.append(plane.event(kernel, start, length, *stats))
                    free = start + length
                correlation += 1
                at += 7_000
            now = free + 30_000
            if gpu == 0 and marked:
                host_events.append(host.event("train", begin, now - 10_000 - begin, host.stat("step_num", step)))
        plane.line(14, "Stream #14(Compute,Memset)", events, lines_begin)
        gpu_planes.append(plane)
    host.line(77, "python3", host_events, lines_begin)
    environment = Plane("Task Environment")
    environment.own = [environment.stat("profile_start_time", 1_794_731_711_499_059_995)]
    planes = [meta, *gpu_planes, host, environment]
    path.write_bytes(write(*((1, p.bytes()) for p in planes), (4, "host")))
    return path
