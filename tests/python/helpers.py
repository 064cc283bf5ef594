"""What the Python tests share: the example trace, an independent parse of traces, and where more data lies."""

import gzip
import json
import os
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "resnet50-h200.json.gz"


def parse_independently(path) -> dict:
    """The file with Python's json; numbers with a fraction keep their text, so that times can be compared exactly."""
    data = Path(path).read_bytes()
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    document = json.loads(data, parse_float=FloatText)
    return {"traceEvents": document} if isinstance(document, list) else document


class FloatText(float):
    """A float that remembers how it was written."""

    def __new__(cls, text):
        value = super().__new__(cls, text)
        value.text = text
        return value


def ns_of(value) -> int:
    """Microseconds as parse_independently gives them, exactly in ns."""
    from decimal import Decimal

    return int(Decimal(value.text if isinstance(value, FloatText) else value) * 1000)


def more_traces() -> list[Path]:
    """Kineto traces of FORETRACE_TRUTH and FORETRACE_PUBLIC, of a job the first rank's; empty when neither is set."""
    found = []
    for variable, patterns in (("FORETRACE_TRUTH", ("h200*/*.json.gz",)),
                               ("FORETRACE_PUBLIC", ("kineto-misc/*.json.gz", "dlrm-8ranks-v100/*.json.gz"))):
        folder = os.environ.get(variable)
        if folder:
            here = sorted(p for pattern in patterns for p in Path(folder).glob(pattern))
            assert here, f"{variable}={folder} holds no trace"
            found += [p for p in here if not re.search(r"(\br|rank)[1-9]\d*\.json", p.name)]
    return found
