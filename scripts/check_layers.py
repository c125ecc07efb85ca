#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the floors of the house (docs/architecture.md): who may include whom, where libraries may be seen, and form.

Usage: check_layers.py [ROOT]. Prints one line per violation and ends with 1 if there is any. Run by CTest.
"""
import os
import re
import sys

FLOORS = {"core": 1, "kernels": 2, "datasets": 2, "parallelism": 3, "models": 4, "training": 5, "planning": 6, "benchmarks": 7}
# Folders of one technology: reached from outside only through the function declared one level up.
BACK_ENDS = {"cpu": "cpu", "reference": "reference", "counting": "counting", "threads": "threads", "mpi": "mpi",
             "cuda": "gpu", "nccl": "gpu"}
# Libraries seen in few places: pattern of the header, predicate over the path, the rule in words.
CONFINED = [
    (re.compile(r"^mpi(-ext)?\.h$"), lambda path: path.startswith("parallelism/mpi/"), "MPI headers belong to parallelism/mpi/"),
    (re.compile(r"^(cuda|cublas|cudnn|curand|cufft|nvtx|nvml|nccl|cub/|thrust/)"),
     lambda path: {"cuda", "nccl"} & set(path.split("/")[:-1]), "CUDA and NCCL headers belong to */cuda/ and */nccl/"),
]
ONE_SOURCE = {"nlohmann/": "nlohmann/json", "CLI/": "CLI11"}
LONGEST = 600
CODE = (".h", ".cpp", ".cu", ".cuh")
SCRIPTS = (".py", ".sh", ".cmake", ".in")
# The words of CUDA's language for a host compiler are macros there, of CUDA's names.
FOREIGN_NAMES = "tests/cuda/standin/include/"
SKIPPED = {"build", "out", "data", "__pycache__"}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^">]+)[">]')
CONDITION = re.compile(r"^\s*#\s*(if|ifdef|ifndef|elif|define|undef)\b(.*)")


def files_of(root):
    """Paths below root of all sources and scripts, with their lines."""
    for folder, folders, names in os.walk(root):
        here = os.path.relpath(folder, root).replace(os.sep, "/")
        hidden = lambda name: name.startswith(".") and name != ".ci"
        folders[:] = sorted(f for f in folders if not hidden(f) and not (here == "." and f in SKIPPED) and f != "__pycache__")
        for name in sorted(names):
            path = name if here == "." else f"{here}/{name}"
            if name.endswith(CODE + SCRIPTS) or name == "CMakeLists.txt" or path == ".ci/run":
                with open(os.path.join(folder, name), encoding="utf-8") as file:
                    yield path, file.read().splitlines()


def place(path):
    """(floor folder, back-end folder or None) of a path."""
    parts = path.split("/")
    return parts[0], next((p for p in parts[1:-1] if p in BACK_ENDS), None)


def check_include(path, target, quoted, known):
    """The rule that an include breaks, or None."""
    (folder, back_end), (to, to_back_end) = place(path), place(target)
    for pattern, allowed, rule in CONFINED:
        if pattern.match(target) and not allowed(path):
            return rule
    if not quoted:
        return None
    if target not in known:
        return "quoted includes name a file of the tree by its path from the root"
    if folder == "tests":
        return None
    if to not in FLOORS:
        return f"nothing may include {to}/"
    if to != folder and FLOORS.get(folder, 0) <= FLOORS[to]:
        return f"{folder}/ may include lower floors only, {to}/ is not below it"
    if to_back_end and (to, to_back_end) != (folder, back_end):
        same = back_end and BACK_ENDS[back_end] == BACK_ENDS[to_back_end] and FLOORS[folder] > FLOORS[to]
        if not same:
            return f"{to}/{to_back_end}/ is reached only through the function declared in {to}/"
    return None


def check_lines(path, lines):
    """Violations of form within one file."""
    if "SPDX-License-Identifier: Apache-2.0" not in "\n".join(lines[:2]):
        yield path, 1, "the licence line is missing: SPDX-License-Identifier: Apache-2.0"
    if len(lines) > LONGEST:
        yield path, len(lines), f"{len(lines)} lines: at most {LONGEST}"
    if path.endswith(CODE) and not path.startswith(FOREIGN_NAMES):
        for number, line in enumerate(lines, 1):
            found = CONDITION.match(line)
            # Highway compiles one file per instruction set and needs its own macros for that.
            if found and "HWY_" not in found.group(2):
                yield path, number, f"#{found.group(1)}: no macros of our own and no conditions; choose between files in CMake"


def find_cycle(graph):
    """One include cycle as a list of paths, or None."""
    state = {}

    def visit(path, trail):
        state[path] = "open"
        for target in graph.get(path, []):
            if state.get(target) == "open":
                return trail[trail.index(target):] + [target] if target in trail else [target, target]
            if target not in state:
                cycle = visit(target, trail + [target])
                if cycle:
                    return cycle
        state[path] = "done"
        return None

    for path in graph:
        if path not in state:
            cycle = visit(path, [path])
            if cycle:
                return cycle
    return None


def check(root):
    """All violations below root: (path, line, rule)."""
    files = dict(files_of(root))
    graph, users = {}, {library: [] for library in ONE_SOURCE}
    for path, lines in files.items():
        yield from check_lines(path, lines)
        if not path.endswith(CODE):
            continue
        for number, line in enumerate(lines, 1):
            found = INCLUDE.match(line)
            if not found:
                continue
            quoted, target = found.group(1) == '"', found.group(2)
            rule = check_include(path, target, quoted, files)
            if rule:
                yield path, number, f"includes {target}: {rule}"
            if quoted:
                graph.setdefault(path, []).append(target)
            for library, seen in users.items():
                if target.startswith(library):
                    seen.append((path, number))
    for library, seen in users.items():
        for path, number in seen:
            if not path.endswith(".cpp") or len({p for p, _ in seen}) > 1:
                yield path, number, f"{ONE_SOURCE[library]} is included by one source file only (it compiles slowly)"
    cycle = find_cycle(graph)
    if cycle:
        yield cycle[0], 1, "include cycle: " + " -> ".join(cycle)


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
    violations = list(check(root))
    for path, line, rule in violations:
        print(f"{path}:{line}: {rule}")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
