"""tools/measure/keep.py: rows whose base was recorded elsewhere find it."""

import json
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
from tools.measure import keep


def row(model, variant, bs, x=1, **more):
    return {"model": model, "variant": variant, "bs": bs, "switches": {"bsx": x}, "median_ms": 1.0, **more}


class Keep(unittest.TestCase):
    def test_a_base_of_another_folder(self):
        with tempfile.TemporaryDirectory() as temp:
            there, out, to = Path(temp) / "there", Path(temp) / "out", Path(temp) / "data" / "batches"
            there.mkdir()
            out.mkdir()
            (there / "net.json.gz").write_bytes(b"")
            bases = [row("net", "base", 8, trace="net.json.gz"), row("net", "base", 16, trace="net.json.gz"), row("other", "base", 4)]
            (there / "truth.jsonl").write_text("".join(json.dumps(r) + "\n" for r in bases))
            measured = [row("net", "bs4", 64, 4.0, kernels={"k": [1, 2.0]}), row("again", "base", 8), {"model": "x", "variant": "bs2", "error": "no"}]
            (out / "truth.jsonl").write_text("".join(json.dumps(r) + "\n" for r in measured))
            self.assertIn("2 rows, 0 traces", keep.keep([out], to, [there]))
            kept = [json.loads(line) for line in (to / "truth.jsonl").read_text().splitlines()]
            self.assertEqual([(r["model"], r["variant"]) for r in kept], [("net", "base"), ("net", "bs4"), ("again", "base")])
            self.assertEqual(kept[0]["bs"], 16)  # a quarter of the row's, not the folder's first
            self.assertEqual((to / kept[0]["trace"]).resolve(), (there / "net.json.gz").resolve())
            self.assertNotIn("trace", kept[2])  # nobody recorded it
            self.assertEqual(json.loads((to / "kernels.jsonl").read_text())["kernels"], {"k": [1, 2.0]})
            self.assertFalse((to / "recordings").exists())


if __name__ == "__main__":
    unittest.main()
