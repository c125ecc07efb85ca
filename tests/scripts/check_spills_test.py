#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What scripts/check_spills.py says about the assembler's words: kept here as ptxas 13.0 writes them."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
import check_spills  # noqa: E402

HEAD = "ptxas info    : 0 bytes gmem\n"


def kernel(name, target, stores=0, loads=0):
    return (f"ptxas info    : Compiling entry function '{name}' for '{target}'\n"
            f"ptxas info    : Function properties for {name}\n"
            f"    0 bytes stack frame, {stores} bytes spill stores, {loads} bytes spill loads\n"
            f"ptxas info    : Used 26 registers, used 0 barriers\n")


def complaints(text, hot):
    return check_spills.judge(check_spills.read(HEAD + text), hot)


ADAMW, OTHER = "_ZN9quadrille12adamw_kernelEPf", "_ZN9quadrille12other_kernelEPf"
clean = kernel(ADAMW, "sm_80") + kernel(ADAMW, "sm_90") + kernel(OTHER, "sm_80", 8) + kernel(OTHER, "sm_90")
assert complaints(clean, ["adamw"]) == [], "a kernel that is not hot may spill"
spilling = complaints(clean.replace("0 bytes spill loads", "4 bytes spill loads", 2), ["adamw"])
assert len(spilling) == 2 and "sm_80" in spilling[0] and "adamw" in spilling[0] and "4 bytes" in spilling[0], spilling
assert "rotary" in complaints(clean, ["adamw", "rotary"])[0], "a pattern that fits nothing is named"
assert "alone" in complaints(kernel(ADAMW, "sm_80") + kernel(OTHER, "sm_80") + kernel(OTHER, "sm_90"), ["adamw"])[0]
assert "no kernel" in complaints("", [])[0]
OF_F64, OF_F32 = "_Z12adamw_kernelIdEvPT_PKd", "_Z12adamw_kernelIfEvPT_PKd"
assert complaints(kernel(OF_F64, "sm_80", 8), ["adamw"]) == [], "f64 is for checks and may spill"
assert len(complaints(kernel(OF_F32, "sm_80", 8), ["adamw"])) == 1, "reading f64 is no excuse"
assert complaints(kernel("_Z11each_numberI4GeluEvv", "sm_80"), ["gelu"]) == [], "patterns do not look at capitals"
print("check_spills: as expected")
