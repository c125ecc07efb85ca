#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""scripts/gpu_check.sh over tools that only pretend: without a GPU it writes nothing and ends with 2; with one, every row
becomes one line of JSON, also those that fail or find no time."""
import json
import os
import pathlib
import shutil
import subprocess
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parents[2]
WORK = pathlib.Path(tempfile.mkdtemp(prefix="quadrille_gpu_check_"))
TOOLS = {
    "nvidia-smi": "echo 'NVIDIA H200, 9.0'",
    "nvcc": "exit 0",
    "python3": "[ \"$1\" = - ] && echo '{}'",  # summaries are made, PyTorch is not there
    "cmake": r"""
[ "$1" = --build ] && exit 0
mkdir -p build/gpu_check/tests
printf '#!/bin/sh\necho noise\necho "{\\"op\\": \\"copy\\"}"\n' >build/gpu_check/ops_bench
printf '#!/bin/sh\nexit 1\n' >build/gpu_check/tests/judge_ops
printf '#!/bin/sh\nexit 6\n' >build/gpu_check/quadrille
chmod +x build/gpu_check/ops_bench build/gpu_check/quadrille build/gpu_check/tests/judge_ops""",
}


def check(words, **tools):
    folder = pathlib.Path(tempfile.mkdtemp(dir=WORK))
    for name, body in (TOOLS | tools).items():
        (folder / name).write_text(f"#!/bin/sh\n{body}\n")
        (folder / name).chmod(0o755)
    path = f"{folder}:{os.environ['PATH']}"
    return subprocess.run([WORK / "tree/scripts/gpu_check.sh", *words], env=os.environ | {"PATH": path}, capture_output=True,
                          text=True, timeout=100)


try:
    shutil.copytree(SOURCE / "scripts", WORK / "tree/scripts", ignore=shutil.ignore_patterns("__pycache__"))
    out = WORK / "out"
    done = check(["--out", out], **{"nvidia-smi": "exit 9"})
    assert done.returncode == 2 and "no GPU" in done.stderr and len(done.stderr.splitlines()) == 1 and not out.exists(), done
    done = check(["--dry-run", "--out", out], **{"nvidia-smi": "exit 9"})
    assert done.returncode == 0 and "gpt2_124m" in done.stdout and not out.exists(), done

    done = check(["--out", out])
    rows = {row["row"]: row for row in map(json.loads, (out / "gpu_check.jsonl").read_text().splitlines())}
    assert done.returncode == 1, "a row failed"
    assert rows["ops"]["status"] == "failed with exit code 1" and rows["ops"]["results"] == []
    assert rows["gemm"]["results"] == [{"op": "copy"}] and rows["gemm"]["gpu"] == "NVIDIA H200"
    assert rows["gpt2_124m"]["status"] == "ok" and rows["gpt2_124m"]["results"], "a run that is not valid is a result"
    assert "no torch" in rows["gpt2_124m_torch"]["status"]
    done = check(["--out", out])
    assert done.returncode == 2 and "exists" in done.stderr, "records are not written over"

    done = check(["--out", WORK / "late", "--minutes", "0"])
    late = [json.loads(line) for line in (WORK / "late/gpu_check.jsonl").read_text().splitlines()]
    assert late and all(row["status"].startswith("left out") for row in late), late
    print("gpu_check: as expected")
finally:
    shutil.rmtree(WORK)
