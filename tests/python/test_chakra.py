"""Chakra execution traces in and out, held against the published schema with protobuf itself."""

import os
import subprocess
import sys
from pathlib import Path

import foretrace
import pytest

pytest.importorskip("google.protobuf")
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.internal.decoder import _DecodeVarint32
from google.protobuf.internal.encoder import _VarintBytes

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "resnet50-h200.json.gz"
_TYPES = {"double": 1, "float": 2, "int64": 3, "uint64": 4, "int32": 5, "bool": 8, "string": 9, "bytes": 12, "uint32": 13, "sint32": 17,
          "sint64": 18}
# Names, types and numbers of the fields of MLCommons' et_def.proto, as far as traces of training steps use them.
_MESSAGES = {
    "AttributeProto": {"name": ("string", 1), "doc_string": ("string", 2), "double_val": ("double", 3), "float_val": ("float", 5),
                       "int32_val": ("int32", 7), "int64_val": ("int64", 9), "uint32_val": ("uint32", 11),
                       "uint64_val": ("uint64", 13), "sint32_val": ("sint32", 15), "sint64_val": ("sint64", 17),
                       "bool_val": ("bool", 27), "string_val": ("string", 29), "bytes_val": ("bytes", 31)},
    "GlobalMetadata": {"version": ("string", 1), "attr": ("*AttributeProto", 2)},
    "IOInfo": {"values": ("string", 1), "shapes": ("string", 2), "types": ("string", 3)},
    "Node": {"id": ("uint64", 1), "name": ("string", 2), "type": ("int32", 3), "ctrl_deps": ("*uint64", 4),
             "data_deps": ("*uint64", 5), "start_time_micros": ("uint64", 6), "duration_micros": ("uint64", 7),
             "inputs": ("IOInfo", 8), "outputs": ("IOInfo", 9), "attr": ("*AttributeProto", 10)},
}
COMP, COLLECTIVE = 4, 7


def _schema():
    file = descriptor_pb2.FileDescriptorProto(name="et.proto", package="chakra", syntax="proto3")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, (kind, number) in fields.items():
            added = message.field.add(name=field, number=number, label=3 if kind.startswith("*") else 1)
            kind = kind.lstrip("*")
            if kind in _TYPES:
                added.type = _TYPES[kind]
            else:
                added.type, added.type_name = 11, f".chakra.{kind}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"chakra.{name}")) for name in _MESSAGES}


SCHEMA = _schema()


def read(path):
    """Metadata and nodes. No field may be one that the schema does not know."""
    data, at, messages = Path(path).read_bytes(), 0, []
    while at < len(data):
        size, at = _DecodeVarint32(data, at)
        message = SCHEMA["Node" if messages else "GlobalMetadata"]()
        message.ParseFromString(data[at : at + size])
        known = message.__class__.FromString(message.SerializeToString())
        known.DiscardUnknownFields()
        assert known.ByteSize() == message.ByteSize()
        messages.append(message)
        at += size
    return messages[0], messages[1:]


def attributes(node):
    out = {}
    for a in node.attr:
        values = [v for d, v in a.ListFields() if d.name.endswith("_val")]
        out[a.name] = values[0] if values else 0
    return out


def write(path, nodes, version="0.0.4"):
    with open(path, "wb") as file:
        for message in [SCHEMA["GlobalMetadata"](version=version), *nodes]:
            data = message.SerializeToString()
            file.write(_VarintBytes(len(data)) + data)


def make(id, name, cpu, start, duration, needs=(), type=COMP, **more):
    node = SCHEMA["Node"](id=id, name=name, type=type, data_deps=needs, start_time_micros=start, duration_micros=duration)
    node.attr.add(name="is_cpu_op", bool_val=cpu)
    for key, value in more.items():
        node.attr.add(name=key, **{"string_val" if isinstance(value, str) else "int64_val": value})
    return node


def test_an_export_is_what_the_schema_says(tmp_path):
    out = foretrace.export(EXAMPLE, tmp_path / "step.0.et", format="chakra")
    metadata, nodes = read(out.path)
    assert metadata.version and len(nodes) == out.tasks
    ids = [n.id for n in nodes]
    assert len(set(ids)) == len(ids) and min(ids) > 0
    known = set(ids)
    for node in nodes:
        assert set(node.ctrl_deps) | set(node.data_deps) <= known and node.id not in node.data_deps
        assert node.name and node.type in (1, COMP, COLLECTIVE)
    # As many GPU nodes as the graph has GPU tasks, each behind its launch.
    kinds = [foretrace.TASK_KINDS[k] for k in foretrace.load(EXAMPLE).step().kind]
    gpu = [n for n in nodes if not attributes(n)["is_cpu_op"]]
    assert len(gpu) == sum(k in ("kernel", "memcpy", "memset", "collective") for k in kinds)
    assert sum(bool(n.data_deps) for n in gpu) > 0.95 * len(gpu)
    assert abs(sum(attributes(n)["foretrace.cost_ns"] for n in nodes) / 1e3 - sum(n.duration_micros for n in nodes)) < len(nodes)
    # No cycle: everything can be ordered.
    left = {n.id: set(n.ctrl_deps) | set(n.data_deps) for n in nodes}
    waiting = {}
    for id, needs in left.items():
        for need in needs:
            waiting.setdefault(need, []).append(id)
    ready, done = [id for id, needs in left.items() if not needs], 0
    while ready:
        id = ready.pop()
        done += 1
        for other in waiting.get(id, ()):
            left[other].discard(id)
            if not left[other]:
                ready.append(other)
    assert done == len(nodes)


def test_a_replay_of_an_export_gives_the_same_times(tmp_path):
    first = foretrace.export(EXAMPLE, tmp_path / "step.0.et", format="chakra")
    (again,) = foretrace.replay(foretrace.load(tmp_path / "step.0.et")).steps
    assert (again.replayed_ms, again.traced_ms) == (first.replayed_ms, first.traced_ms)


def test_a_trace_of_another_program_is_read(tmp_path):
    nodes = [make(1, "thread", True, 0, 0, type=1)]
    for i in range(40):
        at = 100 * i
        nodes += [make(10 * i + 2, "aten::mm", True, at, 20, tid=3), make(10 * i + 3, "gemm", False, at + 10, 60, [10 * i + 2], stream=7)]
        nodes[-2].inputs.shapes = "[[64, 32], [32, 16]]"
        nodes[-2].inputs.types = "['Tensor(float)', 'Tensor(float)']"
    nodes.append(make(9000, "ncclDevKernel_AllReduce", False, 4000, 90, [393], type=COLLECTIVE, comm_type=0, comm_size=4096, pg_name="0"))
    write(tmp_path / "x.0.et", nodes, version="1.1.1-chakra.0.0.4")
    trace = foretrace.load(tmp_path / "x.0.et", strict=True)
    # Counted independently.
    assert len(trace) == len(nodes)
    assert len(trace.select("cpu_op")) == 40 and len(trace.select("kernel")) == 41
    assert trace.arg("Input Dims", trace.select("cpu_op", name="aten::mm"))[0] == [[64, 32], [32, 16]]
    assert foretrace.summary(trace) is not None
    replay = foretrace.replay(trace)
    assert all(abs(s.error_pct) <= 1 for s in replay.steps)


def test_damaged_files(tmp_path):
    write(tmp_path / "x.0.et", [make(i, "k", False, i, 1) for i in range(1, 20)])
    data = (tmp_path / "x.0.et").read_bytes()
    (tmp_path / "cut.et").write_bytes(data[:-2])
    with pytest.raises(foretrace.UnreadableError, match="middle of a node"):
        foretrace.load(tmp_path / "cut.et")
    assert len(foretrace.load(tmp_path / "cut.et", partial=True)) == 18


def test_parquet_and_csv_hold_the_same_rows(tmp_path):
    csv = foretrace.export(EXAMPLE, tmp_path / "step.csv", format="csv")
    parquet = pytest.importorskip("pyarrow.parquet")
    done = foretrace.export(EXAMPLE, tmp_path / "step.parquet", format="parquet")
    table = parquet.read_table(done.path)
    assert table.num_rows == csv.tasks == done.tasks
    assert sum(table["critical"].to_pylist()) == csv.critical_tasks
    launched = [(k, w) for k, w in zip(table["launch_task"].to_pylist(), table["waits_for"].to_pylist()) if k is not None]
    assert launched and all(k in w for k, w in launched)


def test_parquet_without_pyarrow_says_what_is_missing(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(foretrace.UsageError, match="pyarrow"):
        foretrace.export(EXAMPLE, tmp_path / "step.parquet", format="parquet")
    assert not (tmp_path / "step.parquet").exists()
    if program := os.environ.get("FORETRACE_PROGRAM"):
        done = subprocess.run([program, "export", str(EXAMPLE), "--format", "parquet", "-o", str(tmp_path / "x.parquet")],
                              capture_output=True, text=True)
        assert done.returncode == 2 and "foretrace" in done.stderr
