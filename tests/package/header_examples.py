#!/usr/bin/env python3
"""The examples in the comments of public headers, as one C++ file that must compile.

    tests/package/header_examples.py INCLUDE_FOLDER OUTPUT.cpp

An example is the first indented block ("//   …") of a header's opening comment, when its first line is code: it holds a
semicolon. Each becomes a function of its own, in the namespace of its folder, with the names of PARAMETERS at hand. Blocks
that are something else (JSON, TOML, a drawing) are named in OTHERS.
"""

import sys
from pathlib import Path

PARAMETERS = """foretrace::trace::Trace& trace, foretrace::graph::Graph& graph, foretrace::whatif::Model& model,
    std::optional<Ns> measured, const foretrace::hardware::Device& device, const foretrace::hardware::Fabric& fabric,
    const std::vector<std::string>& files, const foretrace::report::TextStyle& style, std::uint32_t task, std::uint32_t kernel,
    std::size_t row, Ns measured_ns, std::span<const Ns> faster, std::vector<int>& lanes, const std::string& path,
    const foretrace::trace::Step& step, std::shared_ptr<const foretrace::hardware::CollectiveModel> collectives,
    const foretrace::analysis::Baseline& base, Ns replayed, foretrace::search::TensorProblem& problem,
    const foretrace::search::TensorPlan& start, int argc, char** argv"""


OTHERS = {"graph/graph.hpp", "hardware/fabric.hpp", "ranks/job_graph.hpp", "search/strategy.hpp",
          "simulate/limits.hpp", "trace/communication.hpp"}


def example_of(text: str) -> str | None:
    """Empty: the header shows none; None: what it shows is no code."""
    lines = []
    for line in text.splitlines()[1:]:  # behind #pragma once
        if not line.startswith("//"):
            break
        if line.startswith("//   "):
            lines.append(line[5:])
        elif lines:
            break
    code = lines[0].split("//")[0] if lines else ""
    return "\n".join("  " + line for line in lines) if ";" in code or lines == [] else None


def main(include: Path, output: Path) -> None:
    headers = sorted((include / "foretrace").rglob("*.hpp"))
    names = [header.relative_to(include).as_posix() for header in headers]
    out = ["#include <span>"] + [f'#include "{name}"' for name in names] + [""]
    found = 0
    for header, name in zip(headers, names):
        example = example_of(header.read_text())
        if example is None and name.removeprefix("foretrace/") not in OTHERS:
            sys.exit(f"{name}: the block its comment begins with is no code that compiles")
        if not example:
            continue
        found += 1
        folder = name.split("/")[1] if name.count("/") > 1 else "base"
        scope = "" if folder == "base" else f"::{folder}"
        out.append(f"// {name}\nnamespace foretrace{scope} {{\nResult<int> example_{found}({PARAMETERS}) {{\n  {{\n{example}\n  }}\n"
                   f"  return {found};\n}}\n}}")
    output.write_text("\n".join(out) + "\n")
    print(f"{found} examples of {len(headers)} headers")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
