#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""--dump-samples of the real program: over all ranks each sample comes once an epoch, the same ones in every layout and
whoever reads the rows.
usage: dumped_samples.py PROGRAM [--mpi LAUNCHER]"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

parser = argparse.ArgumentParser()
parser.add_argument("program")
parser.add_argument("--mpi", metavar="LAUNCHER", help="also under this launcher")
ARGUMENTS = parser.parse_args()
# 13 windows: 8 steps of 4 rows are two epochs and six rows, and epochs end within a step.
SUITE = {
    "name": "dumped",
    "model": {"kind": "gpt", "layers": 2, "embed": 8, "heads": 2, "mlp": 16, "tokens": 8},
    "data": {"source": "synthetic", "vocabulary": 8, "order": 1, "choices": 2, "noise": 0.1, "train_tokens": 105, "evaluate_tokens": 256},
    "training": {"batch_size": 4, "steps": 8, "rate": {"peak": 1e-3}},
    "run": {"probe_seconds": 0},
}
LAYOUTS = {
    "one": (1, []),
    "no_thread": (1, ["--data-threads", "0"]),
    "two": (2, []),
    "four": (4, ["--data-threads", "3"]),
    "split": (2, ["--strategy", "tensor"]),
    "micro_batches": (2, ["--set", "training.micro_batch=1"]),
    "stages": (2, ["--strategy", "pipeline", "--set", "training.micro_batch=1"]),
}
failures = 0


def expect(condition, what):
    global failures
    if not condition:
        failures += 1
        print("FAILED:", what)


def dumped(folder, name, ranks, words, mpi):
    """{(step, row): (epoch, sample)} of a run, as all its ranks tell it."""
    path = os.path.join(folder, f"{name}_{'mpi' if mpi else 'threads'}.jsonl")
    launcher = [ARGUMENTS.mpi, "--quiet", "-n", str(ranks)] if mpi else []
    command = [*launcher, ARGUMENTS.program, "run", os.path.join(folder, "suite.json"), "--backend", "reference", "--oversubscribe",
               *([] if mpi else ["--ranks", str(ranks)]), *words, "--dump-samples", path, "--out", path + ".run"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    expect(done.returncode == 0, f"{name} ends with 0: {done.stderr}")
    with open(path, encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    keys = [(line["rank"], line["step"], line["micro_batch"]) for line in lines]
    expect(keys == sorted(set(keys)), f"{name}: one line a rank, step and micro-batch, rank after rank")
    expect({key[0] for key in keys} == set(range(ranks)), f"{name}: lines of all ranks")
    rows = {}
    for line in lines:
        for i, sample in enumerate(zip(line["epochs"], line["samples"])):
            place = (line["step"], line["first_row"] + i)
            expect(rows.setdefault(place, sample) == sample, f"{name}: two ranks differ in {place}")
    return rows


def refused(folder, what, words, *parts):
    done = subprocess.run([ARGUMENTS.program, "run", os.path.join(folder, "suite.json"), "--backend", "reference", "--out", os.path.join(folder, "no"), *words],
                          capture_output=True, text=True, timeout=60, check=False)
    expect(done.returncode == 2 and all(part in done.stderr for part in parts), f"{what} is refused: {done.stderr}")
    expect(not os.path.exists(os.path.join(folder, "no")), f"{what}: nothing is left behind")


with tempfile.TemporaryDirectory(prefix="quadrille_") as work:
    with open(os.path.join(work, "suite.json"), "w", encoding="utf-8") as suite:
        json.dump(SUITE, suite)
    wanted = dumped(work, "one", *LAYOUTS["one"], False)
    taken = sorted(wanted.values())
    expect(sorted(wanted) == [(step, row) for step in range(1, 9) for row in range(4)], "each row of each step")
    expect(taken[:26] == [(epoch, sample) for epoch in (0, 1) for sample in range(13)], f"each sample once an epoch, not {taken}")
    expect(len(set(taken)) == 32, "no sample twice in the epoch that was begun")
    for layout, (size, options) in LAYOUTS.items():
        for under_mpi in (False, True):
            if layout != "one" and not (under_mpi and (size == 1 or not ARGUMENTS.mpi)):
                expect(dumped(work, layout, size, options, under_mpi) == wanted, f"{layout}: the samples of one rank")
    there = os.path.join(work, "one_threads.jsonl")
    refused(work, "a folder that is not there", ["--dump-samples", os.path.join(work, "none", "x")], "--dump-samples ", "cannot be written")
    refused(work, "a file that is there", ["--dump-samples", there], "--dump-samples ", "exists already")
    refused(work, "one file for two", ["--dump-samples", there + "2", "--trace", there + "2"], "--trace and --dump-samples")
    refused(work, "a dry run", ["--dump-samples", there + "2", "--dry-run"], "--dump-samples", "trains nothing")
    refused(work, "minus one thread", ["--data-threads", "-1"], "--data-threads")
sys.exit(1 if failures else 0)
