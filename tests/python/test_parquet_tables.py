"""Nsight's parquet export (a folder with a file per table): the same answers as the SQLite file it was made from."""

import gzip
import json
import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import foretrace
import pytest
from helpers import ROOT

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

sys.path.insert(0, str(ROOT / "tests" / "formats"))
import nsight_database


def parquet_of(database: Path, folder: Path) -> Path:
    """A folder as `nsys export --type parquetdir` writes it. Ids are unsigned there, and bytes are texts that are no UTF-8."""
    folder.mkdir()
    db = sqlite3.connect(database)
    for (table,) in db.execute("SELECT name FROM sqlite_master WHERE type='table'").fetchall():
        names = [row[1] for row in db.execute(f'PRAGMA table_info("{table}")')]
        columns = list(zip(*db.execute(f'SELECT * FROM "{table}"').fetchall())) or [()] * len(names)
        arrays = [typed(name, values) for name, values in zip(names, columns)]
        parquet.write_table(pyarrow.Table.from_arrays(arrays, names), folder / f"{table}.parquet", row_group_size=1000)
    db.close()
    return folder


def typed(name: str, values: tuple):
    kinds = {type(v) for v in values if v is not None}
    if kinds & {bytes}:
        binary = pyarrow.array([v.encode() if isinstance(v, str) else v for v in values], pyarrow.large_binary())
        valid, offsets, data = binary.buffers()
        return pyarrow.LargeStringArray.from_buffers(len(binary), offsets, data, null_bitmap=valid, null_count=binary.null_count)
    if kinds == {int}:
        unsigned = name.startswith("global") and min(v for v in values if v is not None) >= 0
        return pyarrow.array(values, pyarrow.uint64() if unsigned else pyarrow.int64())
    if kinds <= {int, float} and kinds:
        return pyarrow.array([None if v is None else float(v) for v in values], pyarrow.float64())
    texts = pyarrow.array([None if v is None else str(v) for v in values], pyarrow.string())
    return texts.dictionary_encode() if name == "value" else texts


def command(*arguments: object, code: int = 0, **environment: str) -> str:
    done = subprocess.run([sys.executable, "-m", "foretrace", *map(str, arguments)], capture_output=True, text=True, env=os.environ | environment)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def answers(path: object) -> list:
    """What does not say where the input lies and how large it is."""

    def plain(value):
        if isinstance(value, dict):
            return {k: plain(v) for k, v in value.items() if k not in ("path", "file", "trace", "input_bytes", "events_per_s", "read_ms", "bytes")}
        if isinstance(value, list):
            return [plain(v) for v in value]
        return value.replace(str(path), "FILE") if isinstance(value, str) else value

    return [plain(json.loads(command(verb, path, "--json"))) for verb in ("doctor", "summary", "replay")]


def same_rows(a: foretrace.Trace, b: foretrace.Trace) -> None:
    assert a.to_pandas().equals(b.to_pandas())


@pytest.mark.parametrize("schema", ["3.16.1", "3.25.0", "3.27.0"])
def test_the_same_answers_as_the_database(tmp_path, schema):
    database = nsight_database.training(tmp_path / "run.sqlite", schema, steps=20)
    folder = parquet_of(database, tmp_path / "run_pqtdir")
    assert answers(folder) == answers(database)
    same_rows(foretrace.load(folder), foretrace.load(database))


def test_several_processes_and_their_collectives(tmp_path):
    database = nsight_database.collectives(tmp_path / "job.sqlite")
    folder = parquet_of(database, tmp_path / "job_pqtdir")
    for rank in (0, 1):
        same_rows(foretrace.load(f"{folder}#{rank}"), foretrace.load(f"{database}#{rank}"))
    sizes = [{(c["kind"], c["bytes"]) for c in json.loads(command("ranks", path, "--json"))["collectives"]} for path in (folder, database)]
    assert sizes[0] == sizes[1] and ("all-reduce", 4 << 20) in sizes[0]


def test_a_folder_per_rank(tmp_path):
    for rank in range(2):
        database = nsight_database.training(tmp_path / f"r{rank}.sqlite")
        parquet_of(database, tmp_path / f"rank{rank}_pqtdir")
        database.unlink()
    assert foretrace.find_traces(tmp_path) == [str(tmp_path / f"rank{rank}_pqtdir") for rank in range(2)]


def test_real_files(tmp_path):
    root = os.environ.get("FORETRACE_PUBLIC")
    if not root:
        pytest.skip("FORETRACE_PUBLIC is not set")
    for packed in sorted(Path(root, "nsys").glob("*.sqlite.gz")):
        database = tmp_path / packed.stem
        database.write_bytes(gzip.decompress(packed.read_bytes()))
        folder = parquet_of(database, tmp_path / f"{packed.name}_pqtdir")
        for rank in (0, 1):
            same_rows(foretrace.load(f"{folder}#{rank}"), foretrace.load(f"{database}#{rank}"))
            assert answers(f"{folder}#{rank}") == answers(f"{database}#{rank}")


def test_a_cut_table(tmp_path):
    folder = parquet_of(nsight_database.training(tmp_path / "run.sqlite", steps=50), tmp_path / "run_pqtdir")
    table = folder / "CUPTI_ACTIVITY_KIND_RUNTIME.parquet"
    whole = table.read_bytes()
    table.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(foretrace.UnreadableError, match="CUPTI_ACTIVITY_KIND_RUNTIME is damaged or cut off"):
        foretrace.load(folder)
    assert "damaged or cut off" in command("summary", folder, code=3)
    # The list at the end is whole, the rows before it are not.
    table.write_bytes(whole[:4] + b"\xff" * (len(whole) // 2 - 4) + whole[len(whole) // 2 :])
    with pytest.raises(foretrace.UnreadableError, match="CUPTI_ACTIVITY_KIND_RUNTIME is damaged or cut off"):
        foretrace.load(folder)
    partly = foretrace.load(folder, partial=True)
    assert partly.partial and len(partly) > 0


def test_tables_that_are_not_there(tmp_path):
    database = nsight_database.training(tmp_path / "run.sqlite")
    folder = parquet_of(database, tmp_path / "run_pqtdir")
    for table in ("TARGET_INFO_GPU", "META_DATA_EXPORT", "NVTX_EVENTS"):
        (folder / f"{table}.parquet").unlink()
    assert foretrace.load(folder).format == "nsight"
    only = tmp_path / "one_table"
    only.mkdir()
    shutil.copy(folder / "StringIds.parquet", only)
    assert "no events" in command("doctor", only, code=4)
    assert "give the folder" in command("doctor", only / "StringIds.parquet", code=3)


def test_without_pyarrow(tmp_path, monkeypatch):
    folder = parquet_of(nsight_database.training(tmp_path / "run.sqlite"), tmp_path / "run_pqtdir")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(foretrace.UnreadableError, match="needs pyarrow"):
        foretrace.load(folder)


def test_the_program_without_python_says_what_to_do(tmp_path):
    program = os.environ.get("FORETRACE_PROGRAM")
    if not program:
        pytest.skip("FORETRACE_PROGRAM is not set")
    folder = parquet_of(nsight_database.training(tmp_path / "run.sqlite"), tmp_path / "run_pqtdir")
    done = subprocess.run([program, "doctor", str(folder)], capture_output=True, text=True)
    assert done.returncode == 3
    assert "python3 -m foretrace" in done.stderr and "nsys export --type sqlite" in done.stderr
