# The commands of the project. `make help` lists them; each installs what it needs (scripts/setup) and is safe to repeat.
.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.NOTPARALLEL:
MAKEFLAGS += --no-print-directory

EXAMPLE := examples/resnet50-h200.json.gz
JOBS ?= $(shell nproc)

.PHONY: help demo build test test-cpp test-all bench sweep lint lint-all format wheel release accuracy setup configure module clean

help:  ## this list
	@echo "foretrace: what would my training step cost if …"
	@sed -nE 's/^([a-z-]+):.*## (.*)/  make \1|\2/p' $(firstword $(MAKEFILE_LIST)) | awk -F'|' '{printf "%-16s %s\n", $$1, $$2}'

demo: build  ## set up, build, and ask about a real trace: ResNet-50 on an H200
	build/foretrace doctor $(EXAMPLE)
	build/foretrace summary $(EXAMPLE) --top 5
	build/foretrace replay $(EXAMPLE)
	build/foretrace whatif $(EXAMPLE) fused-optimizer amp batch:x=2
	build/foretrace advise $(EXAMPLE)
	build/foretrace gpus $(EXAMPLE)
	build/foretrace report $(EXAMPLE) -o build/report.html

build: configure  ## set up and build the program, build/foretrace
	@echo "build: build/foretrace"
	@cmake --build build --target foretrace

test: configure module  ## set up, build, and run all fast tests (C++, golden, Python)
	@echo "test: building the tests"
	@cmake --build build --target all
	@ctest --test-dir build --output-on-failure -j $(JOBS) -LE slow

test-cpp: configure  ## the same without the Python tests (needs nothing from PyPI)
	@cmake --build build --target all
	@ctest --test-dir build --output-on-failure -j $(JOBS) -LE 'slow|python'

test-all: configure module  ## also the slow tests
	@cmake --build build --target all
	@ctest --test-dir build --output-on-failure -j $(JOBS)

bench: configure  ## reading speed and memory beside the yardsticks (options: BENCH='--bytes 5G')
	@cmake --build build --target benchmarks
	@python3 benchmarks/run.py $(BENCH)

sweep: configure  ## every verb and every what-if over every trace there is, and whether the answers are possible (options: SWEEP='--fast')
	@cmake --build build --target foretrace sweep_trace
	@scripts/sweep $(SWEEP)
	@scripts/believable $(filter --fast,$(SWEEP))

lint: configure  ## format, layering, ruff and mypy, and clang-tidy on the files that changed
	@scripts/setup lint python
	@scripts/lint $(LINT)

lint-all: configure  ## the same with clang-tidy on all files
	@scripts/setup lint python
	@scripts/lint --all

format:  ## rewrite all C++ files with clang-format
	@scripts/setup lint
	@scripts/lint --fix

wheel:  ## build the wheel, bundle its libraries, and try it in an empty virtual environment
	@scripts/setup build python
	@scripts/wheel
	@scripts/test_wheel

release:  ## sdist, wheels for every Python (glibc 2.28 and later), checksums and notes, checked, into dist/
	@scripts/release

accuracy: build  ## predicted against measured, over the project's own data
	@if [ -f tools/accuracy.py ]; then python3 tools/accuracy.py; else echo "accuracy: nothing is predicted yet" >&2; exit 1; fi

setup:  ## only install what is missing
	@scripts/setup build python

clean:  ## remove everything built (keeps .venv)
	rm -rf build build-sanitize build-tsan build-fuzz build-wheel-* build-release dist wheelhouse

# Not for people: the steps the commands above share.
configure:
	@scripts/setup build
	@if [ ! -f build/build.ninja ] || [ CMakePresets.json -nt build/build.ninja ]; then \
	  echo "configure: cmake --preset release"; cmake --preset release --log-level=WARNING >/dev/null; fi

module:
	@scripts/setup python
	@scripts/install_module
