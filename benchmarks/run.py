#!/usr/bin/env python3
"""Speed and memory of foretrace (reading, graphs, simulation), beside the yardsticks, in one run. `make bench` calls this.

    benchmarks/run.py                    generate the files under build/bench, measure, print tables with ratios
    benchmarks/run.py --update-docs      also rewrite the measured part of docs/internals/performance.md
    benchmarks/run.py --bytes 5G         another size (default 1.05G)
    benchmarks/run.py --install-hta      also put HolisticTraceAnalysis into build/bench/hta and compare with it

The files repeat real traces with shifted times and ids: those of $FORETRACE_TRUTH/h200 when that is set, else those of
examples/. HolisticTraceAnalysis is compared on a smaller file of the same kind (it needs minutes and gigabytes), with
foretrace on that same file; without the package the comparison is left out, and the output says so.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs" / "internals" / "performance.md"
BEGIN = "<!-- measured: written by benchmarks/run.py --update-docs -->"
END = "<!-- end of measured -->"


def shown(path: Path) -> str:
    return os.path.relpath(path)


def size(text: str) -> float:
    factor = {"k": 1e3, "M": 1e6, "G": 1e9}.get(text[-1], 1)
    return float(text[:-1] if factor != 1 else text) * factor


def sources() -> list[Path]:
    truth = os.environ.get("FORETRACE_TRUTH")
    if truth:
        found = sorted(Path(truth, "h200").glob("*.json.gz"))
        if found:
            return found
    return sorted((ROOT / "examples").glob("*.json.gz"))


def generate(build: Path, folder: Path, name: str, wanted: str) -> Path:
    """The file and its .gz, made again only when the wanted size or the sources changed."""
    path = folder / f"{name}.json"
    inputs = sources()
    stamp = folder / f"{name}.stamp"
    want = f"{wanted} {[(p.name, p.stat().st_size) for p in inputs]}"
    if path.exists() and path.with_suffix(".json.gz").exists() and stamp.exists() and stamp.read_text() == want:
        print(f"bench: {shown(path)} is there")
        return path
    print(f"bench: writing {shown(path)} from {len(inputs)} trace(s), and its .gz", flush=True)
    subprocess.run([build / "benchmarks" / "make_trace", "--bytes", wanted, "--gzip", "-o", path, *inputs], check=True)
    stamp.write_text(want)
    return path


def wait_until_idle(limit_s: float = 60) -> None:
    """Busy neighbours halve the figures: wait for a quiet moment, and say so when there is none."""
    def busy() -> tuple[int, int]:
        fields = [int(x) for x in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
        return sum(fields) - fields[3] - fields[4], sum(fields)

    deadline = time.monotonic() + limit_s
    while True:
        used0, all0 = busy()
        time.sleep(0.5)
        used1, all1 = busy()
        share = (used1 - used0) / max(1, all1 - all0)
        if share < 0.06:
            return
        if time.monotonic() > deadline:
            print(f"bench: the processors are {share:.0%} busy with other work; the figures will be low", flush=True)
            return


def read_speed(build: Path, path: Path, repetitions: int) -> dict:
    result = path.with_suffix(".result.json")
    wait_until_idle()
    subprocess.run([build / "benchmarks" / "read_speed", path, "--repetitions", str(repetitions), "--json", result],
                   check=True)
    print(flush=True)
    return json.loads(result.read_text())


def memory_fit(small: dict, large: dict) -> dict[str, tuple[float, float]]:
    """{case: (bytes per event, constant bytes)} through two files of the same kind."""
    fit = {}
    for case, big in large["memory"].items():
        little = small["memory"][case]
        slope = (big["peak_bytes"] - little["peak_bytes"]) / (big["events"] - little["events"])
        fit[case] = slope, big["peak_bytes"] - slope * big["events"]
    return fit


def hta_python(folder: Path, install: bool) -> str | None:
    given = os.environ.get("FORETRACE_HTA_PYTHON")
    if given:
        return given
    python = folder / "hta" / "bin" / "python"
    if not python.exists() and install:
        print("bench: installing HolisticTraceAnalysis into build/bench/hta", flush=True)
        subprocess.run([sys.executable, "-m", "venv", folder / "hta"], check=True)
        # Its critical-path analysis does not run with pandas 3.
        subprocess.run([python, "-m", "pip", "install", "--quiet", "HolisticTraceAnalysis", "pandas<3"], check=True)
    return str(python) if python.exists() else None


def graph_speed(build: Path, path: Path, repetitions: int) -> dict:
    result = build / "bench" / "graphs.result.json"
    wait_until_idle()
    subprocess.run([build / "benchmarks" / "graph_speed", path, "--repetitions", str(repetitions), "--json", result],
                   check=True)
    print(flush=True)
    return {"file": path.name, **json.loads(result.read_text())}


def compare_hta(python: str | None, path: Path, *options: str) -> dict | None:
    if python is None:
        print("bench: HolisticTraceAnalysis is not installed, not compared (benchmarks/run.py --install-hta)")
        return None
    print(f"bench: HolisticTraceAnalysis {' '.join(options)} on {shown(path)} …", flush=True)
    wait_until_idle()
    command = [python, str(ROOT / "benchmarks" / "hta_compare.py"), *options, str(path)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    return json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else None


def rows_of(large: dict, small: dict, hta: dict | None) -> list[tuple[str, str, str, bool]]:
    """(what, measured, goal, reached)"""
    case = {name: values["best_s"] for name, values in large["cases"].items()}
    median = {name: values["median_s"] for name, values in large["cases"].items()}

    def ratio(slow: str, fast: str, goal: float) -> tuple[str, str, bool]:
        value = case[slow] / case[fast]
        return f"{value:.2f} (medians {median[slow] / median[fast]:.2f})", f"≥ {goal}", value >= goal

    rows = [("1 thread, of the yardstick's speed", *ratio("yardstick", "json_1", 0.6)),
            ("2 threads against 1", *ratio("json_1", "json_2", 1.6)),
            (".json.gz on 2 threads against .json on 1", *ratio("json_1", "gz_2", 0.9))]
    for name, title in (("json_1", ".json, 1 thread"), ("json_2", ".json, 2 threads"),
                        ("gz_1", ".json.gz, 1 thread"), ("gz_2", ".json.gz, 2 threads")):
        slope, constant = memory_fit(small, large)[name]
        peak, events = (large["memory"][name][k] for k in ("peak_bytes", "events"))
        rows.append((f"memory beside the input, {title}",
                     f"{peak / 1e6:.0f} MB for {events / 1e6:.2f} M events: {slope:.1f} B an event + {constant / 1e6:.0f} MB",
                     "≤ 100 B an event + 32 MB", peak <= 100 * events + 32e6))
    if hta:
        for threads in (1, 2):
            mine = small["cases"][f"json_{threads}"]["best_s"]
            rows.append((f"against HolisticTraceAnalysis {hta['version']}, {threads} thread(s), {small['bytes'] / 1e6:.0f} MB",
                         f"{hta['seconds'] / mine:.0f} × ({hta['seconds']:.1f} s and {hta['peak_bytes'] / 1e9:.1f} GB; ours {mine:.3f} s)",
                         "≥ 50 ×", hta["seconds"] / mine >= 50))
    return rows


def graph_rows_of(graphs: dict, hta: dict | None) -> list[tuple[str, str, str, bool]]:
    """The same for graphs and their simulation."""
    built = graphs["events"] / (graphs["index_s"] + graphs["build_s"]) / 1e6
    simulated = graphs["tasks"] / graphs["simulate_s"] / 1e6
    ratio = graphs["bare_s"] / graphs["simulate_s"]
    rows = [(f"graphs of all steps of {graphs['file']}, 1 thread", f"{built:.2f} M events/s", "≥ 2 M events/s", built >= 2),
            (f"simulating {graphs['tasks'] / 1e6:.2f} M tasks, 1 thread", f"{simulated:.1f} M tasks/s", "≥ 10 M tasks/s",
             simulated >= 10),
            ("the same, of the speed of a bare longest-path pass over its arrays", f"{ratio:.2f}", "≥ 0.25", ratio >= 0.25)]
    if hta:
        # Ours does all steps of the file, HTA the one that is asked for.
        mine = graphs["path_s"] / graphs["steps"]
        rows.append((f"critical path of one step against HolisticTraceAnalysis {hta['version']} ({hta['nodes']:,} nodes there)",
                     f"{hta['seconds'] / mine:.0f} × ({hta['seconds']:.3f} s; ours {mine:.4f} s)", "≥ 50 ×",
                     hta["seconds"] / mine >= 50))
    return rows


def machine() -> str:
    info = Path("/proc/cpuinfo").read_text()
    model = next((line.split(":", 1)[1].strip() for line in info.splitlines() if line.startswith("model name")), "?")
    return f"{os.cpu_count()} × {model}, Linux {platform.release().split('-')[0]}"


def document(large: dict, rows: list, command: str) -> str:
    lines = [BEGIN, "", f"`{command}` on {machine()}; a file of {large['bytes'] / 1e9:.2f} GB with {large['events'] / 1e6:.2f} M"
             f" events; best of {large['repetitions']} interleaved repetitions.", "",
             "| case | best s | median s | GB/s | M events/s | of the yardstick |", "|---|---|---|---|---|---|"]
    titles = {"memcpy": "memcpy", "yardstick": "yardstick: simdjson's bare pass", "yardstick_2": "two yardsticks at once, time a file",
              "json_1": "foretrace, .json, 1 thread", "json_2": "foretrace, .json, 2 threads", "gz_1": "foretrace, .json.gz, 1 thread",
              "gz_2": "foretrace, .json.gz, 2 threads"}
    for name, values in large["cases"].items():
        best = values["best_s"]
        lines.append(f"| {titles[name]} | {best:.3f} | {values['median_s']:.3f} | {large['bytes'] / best / 1e9:.2f}"
                     f" | {large['events'] / best / 1e6:.2f} | {large['cases']['yardstick']['best_s'] / best:.2f} |")
    lines += ["", "| what | measured | goal |", "|---|---|---|"]
    lines += [f"| {what} | {measured} | {goal} |" for what, measured, goal, _ in rows]
    return "\n".join([*lines, "", END])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build", help="the build folder (default build)")
    parser.add_argument("--bytes", default="1.05G", help="size of the large file (default 1.05G)")
    parser.add_argument("--small-bytes", default="300M", help="size of the file for HTA and the memory fit")
    parser.add_argument("--repetitions", type=int, default=7)
    parser.add_argument("--install-hta", action="store_true")
    parser.add_argument("--update-docs", action="store_true")
    options = parser.parse_args()
    if size(options.small_bytes) >= size(options.bytes):
        parser.error("--small-bytes must be below --bytes")

    folder = options.build / "bench"
    folder.mkdir(parents=True, exist_ok=True)
    small_path = generate(options.build, folder, "small", options.small_bytes)
    large_path = generate(options.build, folder, "large", options.bytes)
    small = read_speed(options.build, small_path, options.repetitions)
    large = read_speed(options.build, large_path, options.repetitions)
    hta = compare_hta(hta_python(folder, options.install_hta), small_path)

    # The largest plain trace: a long step, and one that HTA can hold.
    plain = [p for p in sources() if ".base." in p.name] or sources()
    step_path = max(plain, key=lambda p: p.stat().st_size)
    graphs = graph_speed(options.build, step_path, options.repetitions)
    hta_path = compare_hta(hta_python(folder, False), step_path, "--critical-path")

    rows = rows_of(large, small, hta) + graph_rows_of(graphs, hta_path)
    print()
    for what, measured, goal, reached in rows:
        print(f"{'ok  ' if reached else 'MISS'} {what}: {measured}, goal {goal}")
    measurements = large["repetitions"] * len(large["cases"])
    if options.update_docs and large["disturbed"] > measurements / 10:
        print(f"bench: {large['disturbed']} of {measurements} measurements were disturbed by other work:"
              f" {shown(DOCS)} is left as it is", file=sys.stderr)
        return 1
    if options.update_docs:
        command = "benchmarks/run.py " + " ".join(a for a in sys.argv[1:] if a != "--update-docs")
        text = DOCS.read_text()
        before, after = text.split(BEGIN)[0], text.split(END)[1]
        DOCS.write_text(before + document(large, rows, command.strip()) + after)
        print(f"bench: wrote {shown(DOCS)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
