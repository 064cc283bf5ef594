#!/usr/bin/env python3
"""The examples in the comments of public headers, as one C++ file that must compile.

    tests/package/header_examples.py INCLUDE_FOLDER OUTPUT.cpp

An example is an indented block ("//   …") of a comment at the start of a line, when its first line is code: it holds a
semicolon. Each becomes a function of its own, in the namespace of its folder, with the names of PARAMETERS at hand. Blocks
that are something else (JSON, TOML, a drawing) belong to the headers in OTHERS.
"""

import sys
from pathlib import Path

PARAMETERS = """foretrace::trace::Trace& trace, foretrace::graph::Graph& graph, foretrace::whatif::Model& model,
    std::optional<Ns> measured, const foretrace::hardware::Device& device, const foretrace::hardware::Fabric& fabric,
    const std::vector<std::string>& files, const foretrace::report::TextStyle& style, std::uint32_t task, std::uint32_t kernel,
    std::size_t row, Ns measured_ns, std::span<const Ns> faster, std::vector<int>& lanes, const std::string& path,
    const foretrace::trace::Step& step, const foretrace::analysis::Baseline& base, Ns replayed, int argc, char** argv"""


OTHERS = {"graph/graph.hpp", "hardware/device.hpp", "search/optimize.hpp", "simulate/simulate.hpp"}


def examples_of(text: str) -> list[list[str]]:
    """The indented blocks of a header's comments, line by line."""
    blocks, block = [], []
    for line in text.splitlines():
        line = line.replace("///", "//", 1)
        if line.startswith("//   "):
            block.append(line[5:])
        elif block:
            blocks.append(block)
            block = []
    return blocks


def main(include: Path, output: Path) -> None:
    headers = sorted((include / "foretrace").rglob("*.hpp"))
    names = [header.relative_to(include).as_posix() for header in headers]
    out = ["#include <span>"] + [f'#include "{name}"' for name in names] + [""]
    found = 0
    for header, name in zip(headers, names):
        for block in examples_of(header.read_text()):
            if ";" not in block[0].split("//")[0]:
                if name.removeprefix("foretrace/") not in OTHERS:
                    sys.exit(f"{name}: a block of its comments is no code that compiles: {block[0]}")
                continue
            found += 1
            folder = name.split("/")[1] if name.count("/") > 1 else "base"
            scope = "" if folder == "base" else f"::{folder}"
            body = "\n".join("  " + line for line in block)
            out.append(f"// {name}\nnamespace foretrace{scope} {{\nResult<int> example_{found}({PARAMETERS}) {{\n  {{\n{body}\n  }}\n"
                       f"  return {found};\n}}\n}}")
    output.write_text("\n".join(out) + "\n")
    print(f"{found} examples of {len(headers)} headers")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
