#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs every example that --help, README.md and docs/ print, as it is printed, but that runs only say what they would do
(--dry-run), nothing is downloaded, and what takes minutes (check) is only read. Texts of the right names stand in for the real data set.
usage: examples.py PROGRAM SOURCE_FOLDER BACKEND"""
import glob
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

PROGRAM, SOURCE, BACKEND = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]), sys.argv[3]
WORK = tempfile.mkdtemp(prefix="quadrille_examples_")
VERBS = ("run", "plan", "score", "compare", "data", "check", "log-check", "package", "list", "info")
COMMAND = re.compile(r"^\s*(?:[`$] *)?((?:mpirun [^`#]*?)?(?:build/cpu/)?quadrille (?:%s|--help|--version)\b.*)$" % "|".join(VERBS))
PLACEHOLDER = re.compile(r"^[A-Z][A-Z_]*$|\.\.\.|NAME|^\[")
failures, done = [], []


def run(words, seconds=300):
    return subprocess.run([PROGRAM, *words], cwd=WORK, capture_output=True, text=True, timeout=seconds, check=False)


def examples_in(text):
    """Whole lines only; what stands behind two blanks or a # explains."""
    for line in text.splitlines():
        for part in re.findall(r"`([^`]+)`", line) if "`" in line else [line]:
            found = COMMAND.match(part)
            if found:
                yield re.split(r" {2,}|\s+#", found.group(1))[0].strip()


def all_examples():
    """(where, command) of all that is printed."""
    for words in ([], *([verb] for verb in VERBS), *(["data", verb] for verb in ("fetch", "prepare", "verify", "show"))):
        for command in examples_in(run([*words, "--help"]).stdout):
            yield " ".join(["quadrille", *words, "--help"]), command
    for path in [SOURCE + "/README.md", *sorted(glob.glob(SOURCE + "/docs/*.md"))]:
        with open(path, encoding="utf-8") as file:
            for command in examples_in(file.read()):
                yield os.path.relpath(path, SOURCE), command


def prepare():
    """A data set of the right names, and runs to compare."""
    with open(SOURCE + "/benchmarks/suites/gpt_tiny.json", encoding="utf-8") as file:
        data = json.load(file)["data"]
    os.makedirs(WORK + "/data/" + data["directory"])
    for number, name in enumerate(data["train"] + data["evaluate"]):
        with open(SOURCE + "/tests/data/train.txt", encoding="utf-8") as file:
            text = file.read()
        with open(f"{WORK}/data/{data['directory']}/{name}", "w", encoding="utf-8") as file:
            file.write(text[number:])
    small = ["run", "gpt_synthetic", "--backend", "reference", "--steps", "2", "--set", "model.layers=1", "--set", "model.embed=16",
             "--set", "model.mlp=16", "--set", "training.batch_size=2", "--set", "data.evaluate_tokens=256", "--set",
             "run.probe_seconds=0"]
    run([*small, "--runs", "3", "--out", "results/mine"])
    run([*small, "--out", "runs/one"])


def check(where, command):
    words = shlex.split(command.replace("runs/NAME", "runs/one"))
    if any(PLACEHOLDER.search(word) for word in words):
        return
    at = next(i for i, word in enumerate(words) if os.path.basename(word) == "quadrille")
    launcher, words = words[:at], words[at + 1:]
    if launcher and "--ranks" not in words:
        words += ["--ranks", launcher[launcher.index("-n") + 1]]
    if words[0] == "run" and "--dry-run" not in words:
        words.append("--dry-run")
    if words[0] in ("run", "plan") and "--backend" not in words:
        words += ["--backend", BACKEND]
    if words[:2] == ["data", "fetch"] or words[0] == "check":
        words.append("--help")
    if words in done:
        return
    done.append(words)
    answer = run(words)
    if words[0] == "package":  # several examples name one folder
        shutil.rmtree(os.path.join(WORK, words[words.index("--out") + 1]), ignore_errors=True)
    differ = words[0] == "compare" and answer.returncode == 7
    invalid = words[0] in ("score", "log-check", "package") and answer.returncode == 6
    if "is not in this program" in answer.stderr or "is not in this build" in answer.stderr:  # what was not built
        return
    if answer.returncode != 0 and not differ and not invalid:
        failures.append(f"{where}: {command}\n  exit {answer.returncode}: {answer.stderr[-600:]}")


prepare()
# Files are listed in a manifest once something was made from them, so what makes comes first.
for place, example in sorted(all_examples(), key=lambda pair: "data prepare" not in pair[1]):
    check(place, example)
shutil.rmtree(WORK)
for failure in failures:
    print("FAILED:", failure)
print(f"{len(done)} examples run, {len(failures)} failures:", *(" ".join(words) for words in done), sep="\n  ")
sys.exit(1 if failures or len(done) < 15 else 0)
