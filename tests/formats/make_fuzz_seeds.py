#!/usr/bin/env python3
"""Writes the seeds of nsight_fuzz, xplane_fuzz and xla_json_fuzz: tests/formats/make_fuzz_seeds.py"""

import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import nsight_database
import xplane_file

CORPUS = HERE.parent / "fuzz" / "corpus"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        seeds = {
            # "0" sorts first: the databases that others change; bit 1 of the first byte tells them apart.
            ("nsight_fuzz", "0-training"): b"\0" + nsight_database.training(place / "a.sqlite", steps=1, page_size="1024").read_bytes(),
            ("nsight_fuzz", "0-collectives"): b"\2" + nsight_database.collectives(place / "e.sqlite", page_size="1024").read_bytes(),
            ("nsight_fuzz", "3-payload"): b"\2" + bytes([200, 4, 0, 255, 1, 8, 0, 129, 90, 17, 0, 0]),
            ("nsight_fuzz", "1-header"): b"\1" + bytes([18, 0, 0, 2, 28, 0, 0, 255, 56, 0, 0, 3]),
            ("nsight_fuzz", "2-rows"): b"\0" + bytes([200, 4, 0, 255, 1, 8, 0, 129, 90, 17, 0, 0]),
            ("xplane_fuzz", "command_buffer"): b"\0" + xplane_file.profile(place / "b.pb", steps=1).read_bytes(),
            ("xplane_fuzz", "launches"): b"\1" + xplane_file.profile(place / "c.pb", steps=1, command_buffer=False).read_bytes(),
            ("xplane_fuzz", "two_gpus"): b"\0" + xplane_file.profile(place / "d.pb", steps=1, gpus=2, programs=False).read_bytes(),
            ("xplane_fuzz", "collectives"): b"\0" + xplane_file.profile(place / "f.pb", steps=1, gpus=2, collectives=True).read_bytes(),
            ("xplane_fuzz", "convolution"): b"\0" + xplane_file.convolution_profile(place / "g.pb", steps=1).read_bytes(),
            ("xla_json_fuzz", "kernel"): b'\0{"ph":"X","pid":1,"tid":14,"ts":10.5,"dur":3.25,"name":"loop_fusion","args":{"correlation_id":"1","kernel_details":"regs:16 grid:4,1,1 block:128,1,1"}},{"ph":"X","pid":701,"tid":5,"ts":1,"dur":2,"name":"cuGraphLaunch (CudaGraph:1)","args":{"correlation_id":"1"}},{"ph":"X","pid":701,"tid":5,"ts":0,"dur":20,"name":"train","args":{"step_num":"0"}},{}]}',
        }
        for (target, name), data in seeds.items():
            path = CORPUS / target / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)


if __name__ == "__main__":
    main()
