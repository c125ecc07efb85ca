#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails when a hot CUDA kernel keeps registers in memory (spills), on any of the architectures that are built for.

Compiles every .cu of a build again with `-Xptxas -v`, which makes the assembler tell what each kernel uses, and reads
that. Usage: check_spills.py BUILD_FOLDER     or, for what was written down before, check_spills.py --log FILE
"""
import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys

# Kernels that a step of training spends its time in: parts of their names. Each must be found, so that a kernel that was
# renamed does not leave the list silently.
HOT = ["norm", "gelu", "silu", "sum_rows", "add", "convert", "dropout", "embedding", "attention", "rotary",
       "cross_entropy", "move", "squares", "adamw"]

# A kernel whose template was given f64: <double, ...> or <..., double>.
F64 = re.compile(r"[<,] ?double[,>]")
BEGIN = re.compile(r"Compiling entry function '(?P<name>\S+)' for '(?P<target>sm_\w+)'")
USE = re.compile(r"(?P<stack>\d+) bytes stack frame, (?P<stores>\d+) bytes spill stores, (?P<loads>\d+) bytes spill loads")


def read(text):
    """[(mangled name, target, bytes spilled)] from the assembler's words."""
    found, current = [], None
    for line in text.splitlines():
        if match := BEGIN.search(line):
            current = (match["name"], match["target"])
        elif (match := USE.search(line)) and current:
            found.append((*current, int(match["stores"]) + int(match["loads"])))
            current = None
    return found


def demangled(names):
    try:
        output = subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return list(names)  # the patterns fit mangled names as well
    return output.splitlines()


def judge(kernels, hot=None):
    """Complaints, one a line."""
    hot = HOT if hot is None else hot
    complaints, seen = [], set()
    words = demangled([name for name, _, _ in kernels])
    for (name, target, spilled), plain in zip(kernels, words):
        own = (plain.split("(")[0] if "(anonymous" not in plain else plain).lower()
        if F64.search(plain):  # for checks only, never in a step's time
            spilled = 0
        patterns = [p for p in hot if p in own]
        seen.update(patterns)
        if patterns and spilled:
            complaints.append(f"{target}: {plain} spills {spilled} bytes: give it fewer registers' worth of work")
    complaints += [f"no kernel has \"{p}\" in its name: the list in check_spills.py is out of date" for p in hot if p not in seen]
    targets = {}
    for name, target, _ in kernels:
        targets.setdefault(name, set()).add(target)
    everywhere = set().union(*targets.values()) if targets else set()
    complaints += [f"{name} was compiled for {sorted(have)} alone, others for {sorted(everywhere)}"
                   for name, have in targets.items() if have != everywhere]
    if not kernels:
        complaints.append("no kernel was found: is this the folder of a CUDA build, and are its commands nvcc's?")
    return complaints


def compile_again(entry):
    words = entry["arguments"] if "arguments" in entry else shlex.split(entry["command"])
    kept, skip = [], False
    for word in words:
        if skip:
            skip = False
        elif word in ("-o", "-MF", "-MT", "-MQ"):
            skip = True
        elif word not in ("-MD", "-MMD"):
            kept.append(word)
    done = subprocess.run(kept + ["-Xptxas", "-v", "-o", os.devnull], cwd=entry["directory"], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"check_spills: compiling {entry['file']} failed:\n{done.stderr[-3000:]}")
    return done.stdout + done.stderr


def main(arguments):
    if len(arguments) == 2 and arguments[0] == "--log":
        text = pathlib.Path(arguments[1]).read_text()
    elif len(arguments) == 1:
        entries = [e for e in json.loads((pathlib.Path(arguments[0]) / "compile_commands.json").read_text())
                   if e["file"].endswith(".cu")]
        with concurrent.futures.ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
            text = "\n".join(pool.map(compile_again, entries))
    else:
        print(__doc__, file=sys.stderr)
        return 2
    kernels = read(text)
    complaints = judge(kernels)
    print("\n".join(complaints) or f"check_spills: {len(kernels)} kernels, none of the hot ones spills")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
