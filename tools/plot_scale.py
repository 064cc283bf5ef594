#!/usr/bin/env python3
"""Draws docs/images/scale.svg: the laws of Daydream's Figures 8 and 10 from our own ResNet-50 trace.

usage: plot_scale.py [--foretrace build/foretrace] [--trace TRACE] [-o docs/images/scale.svg]

Left: the step on 1 to 16 workers with one GPU each over 10, 20 and 40 Gb/s (Figure 8: linear in 2(n-1)/n where the network
is the bottleneck). Right: parameter servers against P3 on four workers over networks of rising bandwidth (Figure 10: the gain
is largest where communication takes as long as computation, and vanishes at both ends). No plotting library is needed.
"""
import argparse
import json
import pathlib
import subprocess
import tempfile

FABRIC = '''source = "plot"
[[level]]
name = "{gbits} Gb/s"
link = "network"
gbs = {gbs}
per_node = true
'''
COLOURS = ["#1f77b4", "#d62728", "#2ca02c"]


def steps(foretrace, trace, gbits, workers, scheme, folder):
    path = pathlib.Path(folder) / f"{gbits}.toml"
    path.write_text(FABRIC.format(gbits=gbits, gbs=gbits / 8))
    command = [foretrace, "scale", trace, "--workers", ",".join(map(str, workers)), "--fabric", str(path), "--parallel",
               scheme, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [p["ms"] for p in json.loads(done.stdout)["predictions"]]


def priorities(foretrace, trace, gbits, workers, folder):
    """Parameter servers, first come first served, and P3."""
    path = pathlib.Path(folder) / f"{gbits}.toml"
    path.write_text(FABRIC.format(gbits=gbits, gbs=gbits / 8))
    uses = [f"p3:workers={workers},fabric={path},priorities={p}" for p in ("off", "on")]
    done = subprocess.run([foretrace, "whatif", trace, *uses, "--json"], capture_output=True, text=True, check=True)
    return [p["ms"] for p in json.loads(done.stdout)["predictions"]]


def chart(left, title, xs, series, xlabel, ylabel, logx=False):
    """One chart as SVG: series is [(name, ys)]."""
    import math
    width, height, top = 330, 230, 40
    fx = (lambda x: math.log(x)) if logx else (lambda x: x)
    x0, x1 = fx(xs[0]), fx(xs[-1])
    y1 = max(max(ys) for _, ys in series) * 1.05
    px = lambda x: left + (fx(x) - x0) / (x1 - x0) * width
    py = lambda y: top + height - y / y1 * height
    out = [f'<text x="{left + width / 2:.0f}" y="18" text-anchor="middle" font-weight="bold">{title}</text>']
    for i in range(6):
        y = y1 * i / 5
        out.append(f'<line x1="{left}" x2="{left + width}" y1="{py(y):.1f}" y2="{py(y):.1f}" stroke="#ddd"/>')
        out.append(f'<text x="{left - 6}" y="{py(y) + 4:.1f}" text-anchor="end">{y:.0f}</text>')
    for x in xs:
        out.append(f'<text x="{px(x):.1f}" y="{top + height + 16}" text-anchor="middle">{x:g}</text>')
    for k, (name, ys) in enumerate(series):
        points = " ".join(f"{px(x):.1f},{py(y):.1f}" for x, y in zip(xs, ys))
        out.append(f'<polyline points="{points}" fill="none" stroke="{COLOURS[k]}" stroke-width="2"/>')
        out += [f'<circle cx="{px(x):.1f}" cy="{py(y):.1f}" r="3" fill="{COLOURS[k]}"/>' for x, y in zip(xs, ys)]
        out.append(f'<text x="{left + width - 8}" y="{top + 16 + 16 * k}" text-anchor="end" fill="{COLOURS[k]}">{name}</text>')
    out.append(f'<text x="{left + width / 2:.0f}" y="{top + height + 36}" text-anchor="middle">{xlabel}</text>')
    out.append(f'<text x="{left - 42}" y="{top - 10}">{ylabel}</text>')
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--foretrace", default="build/foretrace")
    parser.add_argument("--trace", default="examples/resnet50-h200.json.gz")
    parser.add_argument("-o", "--output", default="docs/images/scale.svg")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        workers = [1, 2, 3, 4, 6, 8, 12, 16]
        data = [(f"{g} Gb/s", steps(args.foretrace, args.trace, g, workers, "ddp", folder)) for g in (10, 20, 40)]
        rates = [1, 2, 4, 6, 10, 16, 25, 40, 100]
        servers, p3 = zip(*[priorities(args.foretrace, args.trace, g, 4, folder) for g in rates])
    body = chart(60, "data parallel", workers, data, "workers, one GPU each", "ms")
    body += chart(480, "four workers, parameter servers", rates, [("servers", servers), ("P3", p3)], "Gb/s", "ms", logx=True)
    svg = ['<svg xmlns="http://www.w3.org/2000/svg" width="840" height="320" font-family="sans-serif" font-size="11">',
           '<rect width="840" height="320" fill="white"/>', *body, "</svg>"]
    pathlib.Path(args.output).write_text("\n".join(svg) + "\n")
    for name, ys in data:
        print(name, " ".join(f"{y:.1f}" for y in ys))
    print("Gb/s   ", " ".join(f"{g:7g}" for g in rates))
    print("servers", " ".join(f"{y:7.1f}" for y in servers))
    print("P3     ", " ".join(f"{y:7.1f}" for y in p3))
    print("gain   ", " ".join(f"{a / b:7.2f}" for a, b in zip(servers, p3)))


if __name__ == "__main__":
    main()
