"""Writes to standard output the inputs of golden cases that are too large to keep.

    generate.py lanes N             one event on each of N threads
    generate.py long-string BYTES   an event whose name, and one whose argument, has that many bytes
    generate.py over BYTES          more than that many bytes of events
"""

import sys

BLOCK = 1 << 20


def event(name: str, tid: int, ts: int, args: str = "{}") -> str:
    return (f'{{"ph": "X", "cat": "cpu_op", "name": "{name}", "pid": 1, "tid": {tid}, "ts": {ts}.001, "dur": 1.5,'
            f' "args": {args}}}')


def main() -> None:
    what, amount = sys.argv[1], int(sys.argv[2])
    out = sys.stdout
    out.write('{"schemaVersion": 1, "traceEvents": [\n')
    if what == "lanes":
        for tid in range(amount):
            out.write(event("aten::add", tid, tid) + (",\n" if tid + 1 < amount else "\n"))
    elif what == "long-string":
        blocks = ["x" * BLOCK] * (amount // BLOCK) + ["x" * (amount % BLOCK)]
        before, after = event("@", 1, 1).split("@")
        out.writelines([before, *blocks, after, ",\n"])
        before, after = event("aten::mul", 1, 5, '{"Call stack": "@"}').split("@")
        out.writelines([before, *blocks, after, ",\n", event("aten::add", 1, 9), "\n"])
    elif what == "over":
        record = event("aten::add", 2, 7, '{"Ev Idx": 5}')
        text = (record + ",\n") * (BLOCK // len(record))
        written = 0
        while written < amount:
            out.write(text)
            written += len(text)
        out.write(record + "\n")
    else:
        raise SystemExit(__doc__)
    out.write("]}\n")


if __name__ == "__main__":
    main()
