#!/usr/bin/env python3
"""Installs a build into an empty folder and builds tests/package against it: with find_package, and nothing else.

    tests/package/run.py --build build [--cmake cmake] [--compiler c++]

The program's answer must be that of the command line, asked the same: for the example as it is, and with a step that the
recorder measured.
"""

import argparse
import gzip
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TRACE = ROOT / "examples" / "resnet50-h200.json.gz"


def run(*command) -> str:
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, required=True)
    parser.add_argument("--cmake", default="cmake")
    parser.add_argument("--compiler", default="c++")
    asked = parser.parse_args()
    version = re.search(r'VERSION "(\d+\.\d+)', (ROOT / "include/foretrace/version.hpp").read_text())[1]
    with tempfile.TemporaryDirectory() as folder:
        prefix, build = Path(folder) / "prefix", Path(folder) / "build"
        build.mkdir()
        run(asked.cmake, "--install", asked.build, "--prefix", prefix)
        if list(prefix.rglob("src")) or not list(prefix.rglob("version.hpp")):
            sys.exit("the package holds the public headers, and no others")
        print(run(sys.executable, ROOT / "tests/package/header_examples.py", prefix / "include", build / "header_examples.cpp"), end="")
        run(asked.cmake, "-S", ROOT / "tests/package", "-B", build, f"-DCMAKE_PREFIX_PATH={prefix}", f"-DWANTED_VERSION={version}",
            f"-DCMAKE_CXX_COMPILER={asked.compiler}", "-DCMAKE_BUILD_TYPE=Debug")
        run(asked.cmake, "--build", build)
        recorded = build / "recorded.json"
        text = gzip.decompress(TRACE.read_bytes()).decode()
        recorded.write_text(text.replace("{", '{"foretrace": {"measured_ms": 71.6}, ', 1))
        for trace, kind in ((TRACE, "estimated"), (recorded, "measured")):
            got = run(build / "after", trace, "fused-optimizer", "amp:dtype=bf16")
            shown = json.loads(run(prefix / "bin" / "foretrace", "whatif", trace, "fused-optimizer", "amp:dtype=bf16", "--stack",
                                   "--json"))
            want = f"-> {shown['predictions'][0]['ms']:.3f} ms"
            if want not in got or not got.startswith(kind):
                sys.exit(f"the program says '{got.strip()}', the command line '{want}' of a step that is {kind}")
            print(got, end="")


if __name__ == "__main__":
    main()
