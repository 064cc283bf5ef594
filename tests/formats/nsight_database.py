"""Databases as Nsight Systems exports them, made from the documented columns: for the versions no real file is at hand of.

    Database(path, schema="3.16.1").kernel(0, 10_000, 12_000, correlation=1)…

Columns are those of the exporter's own documentation (3.16 to 3.27); what a version does not have yet is left out. Times are
nanoseconds, names numbers into StringIds, a thread is vm << 48 | process << 24 | thread.
"""

from __future__ import annotations

import json
import sqlite3
import struct
from pathlib import Path

KERNEL = ["start", "end", "deviceId", "contextId", "greenContextId", "streamId", "correlationId", "globalPid", "demangledName", "shortName", "mangledName", "launchType", "cacheConfig", "registersPerThread", "gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ", "staticSharedMemory", "dynamicSharedMemory", "localMemoryPerThread", "localMemoryTotal", "gridId", "sharedMemoryExecuted", "graphNodeId", "sharedMemoryLimitConfig"]
KERNEL_325 = ["graphId", "clusterX", "clusterY", "clusterZ"]
RUNTIME = ["start", "end", "eventClass", "globalTid", "correlationId", "nameId", "returnValue", "callchainId"]
MEMCPY = ["start", "end", "deviceId", "contextId", "greenContextId", "streamId", "correlationId", "globalPid", "bytes", "copyKind", "srcKind", "dstKind", "graphNodeId", "copyCount"]
MEMSET = ["start", "end", "deviceId", "contextId", "greenContextId", "streamId", "correlationId", "globalPid", "value", "bytes", "graphNodeId", "memKind"]
SYNC = ["start", "end", "deviceId", "contextId", "greenContextId", "streamId", "correlationId", "globalPid", "syncType", "eventId"]
EVENT = ["deviceId", "contextId", "greenContextId", "streamId", "correlationId", "globalPid", "eventId"]
NVTX = ["start", "end", "eventType", "rangeId", "category", "color", "text", "globalTid", "endGlobalTid", "textId", "domainId", "uint64Value", "int64Value", "doubleValue", "uint32Value", "int32Value", "floatValue", "jsonTextId", "jsonText", "binaryData"]
GRAPH = ["start", "end", "deviceId", "contextId", "greenContextId", "streamId", "correlationId", "globalPid", "graphId", "graphExecId"]
MEMORY = ["start", "globalPid", "deviceId", "contextId", "address", "pc", "bytes", "memKind", "memoryOperationType", "name", "correlationId", "streamId"]
GPU = ["vmId", "id", "name", "busLocation", "isDiscrete", "l2CacheSize", "totalMemory", "memoryBandwidth", "clockRate", "smCount", "pwGpuId", "uuid", "luid", "chipName", "cuDevice", "ctxswDevPath", "ctrlDevPath", "revision", "nodeMask", "constantMemory", "maxIPC", "maxRegistersPerBlock", "maxShmemPerBlock", "maxShmemPerBlockOptin", "maxShmemPerSm", "maxRegistersPerSm", "threadsPerWarp", "asyncEngines", "maxWarpsPerSm", "maxBlocksPerSm", "maxThreadsPerBlock", "computeMajor", "computeMinor"]


# What NCCL calls the fields of its payloads, and NVTX's numbers of their types (5 int, 18 uint64, 22 size_t).
NCCL_FIELDS = {"comm": ("NCCL communicator ID", 18), "bytes": ("Message size [bytes]", 22), "peer": ("Peer rank", 5), "ranks": ("No. of ranks", 5),
               "rank": ("Rank", 5), "root": ("Root", 5)}  # fmt: skip


def pid(process: int) -> int:
    return 1 << 48 | process << 24


def tid(process: int, thread: int) -> int:
    return pid(process) | thread


class Database:
    def __init__(self, path: Path, schema: str = "3.25.0", **pragmas: str) -> None:
        self.path = path
        self.schema = tuple(int(n) for n in schema.split(".")[:2])
        self.db = sqlite3.connect(path)
        for name, value in pragmas.items():
            self.db.execute(f"PRAGMA {name}={value}")
        self.strings: dict[str, int] = {}
        self.schemas: dict[tuple[str, ...], int] = {}
        self.db.execute("CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL)")
        self.table("META_DATA_EXPORT", ["name", "value"])
        self.add("META_DATA_EXPORT", name="EXPORT_SCHEMA_VERSION", value=schema)

    def table(self, name: str, columns: list[str]) -> None:
        typed = ", ".join(f"{c} {'TEXT' if c in ('text', 'name', 'value', 'jsonText', 'binaryData') else 'INTEGER'}" for c in columns)
        self.db.execute(f"CREATE TABLE IF NOT EXISTS {name} ({typed})")

    def add(self, table: str, **values: object) -> None:
        names = ", ".join(values)
        self.db.execute(f"INSERT INTO {table} ({names}) VALUES ({', '.join('?' * len(values))})", list(values.values()))

    def string(self, text: str) -> int:
        if text not in self.strings:
            self.strings[text] = 1000 + len(self.strings)
            self.db.execute("INSERT INTO StringIds VALUES (?, ?)", (self.strings[text], text))
        return self.strings[text]

    def kernel(self, device: int, start: int, end: int, correlation: int, name: str = "gemm", process: int = 100, stream: int = 7, **more: object) -> None:
        table = "CUPTI_ACTIVITY_KIND_KERNEL"
        self.table(table, KERNEL + (KERNEL_325 if self.schema >= (3, 25) else []))
        values: dict[str, object] = dict(
            start=start, end=end, deviceId=device, contextId=device + 1, streamId=stream, correlationId=correlation, globalPid=pid(process),
            demangledName=self.string(name), shortName=self.string(name), registersPerThread=32, gridX=264, gridY=1, gridZ=1, blockX=256,
            blockY=1, blockZ=1, staticSharedMemory=1024, dynamicSharedMemory=2048,
        )  # fmt: skip
        self.add(table, **(values | more))

    def call(self, start: int, end: int, correlation: int, name: str = "cudaLaunchKernel_v7000", process: int = 100, thread: int = 100) -> None:
        self.table("CUPTI_ACTIVITY_KIND_RUNTIME", RUNTIME)
        self.add(
            "CUPTI_ACTIVITY_KIND_RUNTIME", start=start, end=end, eventClass=0, globalTid=tid(process, thread), correlationId=correlation,
            nameId=self.string(name), returnValue=0,
        )  # fmt: skip

    def range(self, start: int, end: int | None, text: str, process: int = 100, thread: int = 100, kind: int = 59, registered: bool = False) -> None:
        self.table("NVTX_EVENTS", NVTX)
        named = {"textId": self.string(text)} if registered else {"text": text}
        self.add("NVTX_EVENTS", start=start, end=end, eventType=kind, globalTid=tid(process, thread), domainId=0, **named)

    def nccl(self, start: int, end: int, name: str, payload: str = "bytes", process: int = 100, **values: int) -> None:
        """A range of NCCL's with the values of its payload: as bytes, as hexadecimal digits, as JSON, or left out ("none")."""
        self.table("NVTX_EVENTS", NVTX)
        self.table("NVTX_PAYLOAD_SCHEMA_ENTRIES", ["domainId", "schemaId", "idx", "flags", "type", "name", "description", "arrayOrUnionDetail", "offset"])
        fields = [(key, NCCL_FIELDS[key]) for key in values]
        schema = 0x1000000 + self.schemas.setdefault(tuple(values), len(self.schemas))
        offset, packed = 0, b""
        for index, (_, (label, kind)) in enumerate(fields):
            size = 4 if kind == 5 else 8
            self.add("NVTX_PAYLOAD_SCHEMA_ENTRIES", domainId=1, schemaId=schema, idx=index, type=kind, name=label, offset=offset or None)
            packed += struct.pack("<i" if size == 4 else "<Q", values[fields[index][0]])
            offset += size
        packed += b"\0" * (-len(packed) % 8)
        given: dict[str, object] = {}
        blob = struct.pack("<QQQQ", 1, schema, len(packed), 32 + len(packed)) + packed
        if payload == "bytes":
            given = {"binaryData": blob}
        elif payload == "digits":
            given = {"binaryData": blob.hex()}
        elif payload == "json":
            given = {"jsonText": json.dumps({NCCL_FIELDS[key][0]: value for key, value in values.items()})}
        self.add("NVTX_EVENTS", start=start, end=end, eventType=59, globalTid=tid(process, process), domainId=1, textId=self.string(name), **given)

    def copy(self, start: int, end: int, correlation: int, bytes: int, kind: int = 1, source: int = 1, target: int = 2, device: int = 0, process: int = 100) -> None:
        self.table("CUPTI_ACTIVITY_KIND_MEMCPY", MEMCPY)
        self.add(
            "CUPTI_ACTIVITY_KIND_MEMCPY", start=start, end=end, deviceId=device, contextId=device + 1, streamId=7, correlationId=correlation,
            globalPid=pid(process), bytes=bytes, copyKind=kind, srcKind=source, dstKind=target,
        )  # fmt: skip

    def sync(self, start: int, end: int, correlation: int, kind: int, stream: int, event: int = 0, pair: int = 0, process: int = 100) -> None:
        table = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"
        newer = self.schema >= (3, 20)
        self.table(table, SYNC + (["eventSyncId"] if newer else []))
        values: dict[str, object] = dict(
            start=start, end=end, deviceId=0, contextId=1, streamId=stream, correlationId=correlation, globalPid=pid(process), syncType=kind, eventId=event,
        )  # fmt: skip
        self.add(table, **(values | ({"eventSyncId": pair} if newer else {})))

    def event(self, correlation: int, stream: int, event: int, pair: int = 0, process: int = 100) -> None:
        table = "CUPTI_ACTIVITY_KIND_CUDA_EVENT"
        newer = self.schema >= (3, 20)
        self.table(table, (["timestamp"] if newer else []) + EVENT + (["eventSyncId"] if newer else []))
        values: dict[str, object] = dict(deviceId=0, contextId=1, streamId=stream, correlationId=correlation, globalPid=pid(process), eventId=event)
        self.add(table, **(values | ({"eventSyncId": pair, "timestamp": 0} if newer else {})))

    def gpu(self, device: int = 0, name: str = "NVIDIA H100 80GB HBM3") -> None:
        self.table("TARGET_INFO_GPU", GPU)
        self.add(
            "TARGET_INFO_GPU", vmId=1, id=device, name=name, totalMemory=85_028_765_696, smCount=132, computeMajor=9, computeMinor=0,
            threadsPerWarp=32, maxWarpsPerSm=64, maxRegistersPerSm=65_536, maxShmemPerSm=233_472,
        )  # fmt: skip

    def close(self) -> Path:
        self.db.commit()
        self.db.close()
        return self.path


def training(path: Path, schema: str = "3.25.0", steps: int = 4, processes: int = 1, shapes: bool = True, marked: bool = True, **pragmas: str) -> Path:
    """A run of `steps` steps of three operations each, one process per GPU."""
    db = Database(path, schema, **pragmas)
    for rank in range(processes):
        process = 100 + rank
        db.gpu(rank)
        now, correlation, gpu_free = 1_000_000, 1, 0
        for step in range(steps):
            begin = now
            for op, sizes, length in (
                ("aten::mm", "[[2048, 768], [768, 2304]]", 60_000),
                ("aten::relu", "[[2048, 2304]]", 20_000),
                ("aten::sum", "[[2048, 2304], []]", 15_000),
            ):
                text = f"{op}, seq = {correlation}, op_id = {correlation}" + (f", sizes = {sizes}" if shapes else "")
                db.range(now, now + 12_000, text, process, process)
                db.call(now + 4_000, now + 9_000, correlation, process=process, thread=process)
                start = max(gpu_free + 1_200, now + 11_000)
                db.kernel(rank, start, start + length, correlation, f"void {op.split('::')[1]}_kernel<float>(float*)", process)
                gpu_free = start + length
                now += 14_000
                correlation += 1
            db.call(now, gpu_free + 6_000, correlation, "cudaStreamSynchronize_v3020", process, process)
            db.sync(now + 500, gpu_free + 5_500, correlation, 3, 7, process=process)
            correlation += 1
            now = gpu_free + 10_000
            if marked:
                db.range(begin, now - 2_000, f"step {step}", process, process, registered=True)
    return db.close()


def solver_step(kernels: int, odd: bool = False) -> list[str]:
    """One time step of a solver on a grid: a few kernels of its own, and between them many copies of the borders of fields. `odd`: the
    sweeps go the other way round."""
    own = ["ideal_gas", "viscosity", "calc_dt", "pdv", "accelerate", "flux_calc"]
    own += ["advec_y", "advec_mom_y", "advec_x", "advec_mom_x"] if odd else ["advec_x", "advec_mom_x", "advec_y", "advec_mom_y"]
    borders = ["update_halo_left", "update_halo_right", "update_halo_bottom", "update_halo_top"]
    step: list[str] = []
    for i, name in enumerate(own):
        step.append(name)
        until = kernels * (i + 1) // len(own)
        step += [borders[k % len(borders)] for k in range(until - len(step))]
    return step


def sequence(path: Path, names: list[str], reads_after: str = "", schema: str = "3.25.0") -> Path:
    """Kernels of these names, one after the other; a result is copied to the CPU behind every kernel called `reads_after`."""
    db = Database(path, schema)
    db.gpu()
    now = 1_000_000
    for i, name in enumerate(names):
        db.call(now, now + 3_000, 2 * i + 1)
        db.kernel(0, now + 4_000, now + 9_000 + i * 37 % 500, 2 * i + 1, name)
        now += 10_000
        if name == reads_after:
            db.call(now, now + 9_000, 2 * i + 2, "cudaMemcpy_v3020")
            db.copy(now + 4_000, now + 6_000, 2 * i + 2, 8, kind=2, source=2, target=1)
            now += 12_000
    return db.close()


def collectives(path: Path, payload: str = "bytes", ranks: int = 2, groups: bool = False, **pragmas: str) -> Path:
    """Two steps on each of `ranks` ranks: a product, an all-reduce of 4 MiB, an all-gather of 1 MiB from each, an exchange."""
    db = Database(path, **pragmas)
    for rank in range(ranks):
        process = 100 + rank
        db.gpu(rank)
        db.nccl(500, 900, "ncclCommInitRankConfig", payload, process, comm=2**63 + 7, ranks=ranks, rank=rank)
        now, correlation = 1_000_000, 1

        def launch(at: int, name: str, length: int, rank: int = rank, process: int = process) -> None:
            nonlocal correlation
            db.call(at, at + 4_000, correlation, "cudaLaunchKernelExC_v11060", process, process)
            db.kernel(rank, at + 6_000, at + 6_000 + length, correlation, name, process)
            correlation += 1

        for step in range(2):
            begin = now
            launch(now, "gemm", 50_000)
            now += 70_000
            comm = {"comm": 2**63 + 7}
            for name, kernel, bytes in (("ncclAllReduce", "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(args)", 4 << 20), ("ncclAllGather", "ncclDevKernel_AllGather_RING_LL(args)", 1 << 20)):
                if groups:
                    db.nccl(now, now + 500, "ncclGroupStart", "none", process)
                    for half in range(2):
                        db.nccl(now + 600 + half * 100, now + 650 + half * 100, name, payload, process, **comm, bytes=bytes // 2)
                    db.nccl(now + 1_000, now + 9_000, "ncclGroupEnd", "none", process)
                else:
                    db.nccl(now + 600, now + 9_000, name, payload, process, **comm, bytes=bytes)
                launch(now + 2_000, kernel, 30_000)
                now += 50_000
            db.nccl(now, now + 500, "ncclGroupStart", "none", process)
            for peer in range(ranks):
                db.nccl(now + 600 + peer * 200, now + 650 + peer * 200, "ncclSend", payload, process, **comm, bytes=3_000, peer=peer)
                db.nccl(now + 700 + peer * 200, now + 750 + peer * 200, "ncclRecv", payload, process, **comm, bytes=3_000, peer=peer)
            db.nccl(now + 3_000, now + 12_000, "ncclGroupEnd", "none", process)
            launch(now + 5_000, "ncclDevKernel_SendRecv(args)", 30_000)
            now += 60_000
            db.range(begin, now - 2_000, f"step {step}", process, process)
    return db.close()


if __name__ == "__main__":
    import sys

    training(Path(sys.argv[1]), *sys.argv[2:3])
