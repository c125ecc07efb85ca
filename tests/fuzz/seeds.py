#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes what each fuzzer begins with: FOLDER/NAME/ (inputs as NAME_fuzz.cpp reads them) and FOLDER/NAME.dict (words)."""
import base64
import io
import json
import re
import struct
import sys
import tarfile
import zlib
from pathlib import Path

root = Path(__file__).resolve().parents[2]
out = Path(sys.argv[1])
data = root / "tests" / "data"
suites = sorted((root / "benchmarks" / "suites").glob("*.json"))
strategies = sorted((root / "parallelism" / "strategies").glob("*.json"))


def seed(fuzzer, name, content):
    (out / fuzzer).mkdir(parents=True, exist_ok=True)
    (out / fuzzer / name).write_bytes(content)


def words(fuzzer, texts, extra=()):
    found = set(extra)
    for text in texts:
        found.update(re.findall(r'"\w+"', text))
    lines = sorted('"' + word.replace("\\", "\\\\").replace('"', '\\"') + '"' for word in found)
    (out / f"{fuzzer}.dict").write_text("\n".join(lines) + "\n")


big = ("9223372036854775807", "4611686018427387904", "16777216", "-1", "0", "1e308", '"*"')
texts = [path.read_text() for path in suites]
for path, text in zip(suites, texts):
    seed("json", path.name, text.encode() + b"\xfftraining.batch_size=8\xffmesh.x=4\xffa.b={\"c\": [1, 2.5e-3, null]}")
seed("json", "numbers", b'[0.30000000000000004, 2.2250738585072014e-308, 1.7976931348623157e+308, 5e-324, -0.0, 1e22, 123456789.123456789,'
     b' -9223372036854775808, 9223372036854775807, "nan", "\\u0000\\"\\\\\\ud83d\\ude00\xc3\xa9"]')
words("json", texts, big)

tables = [path.read_text() for path in strategies]
for path, text in zip(strategies, tables):
    seed("strategy", path.name, b"\x07" + text.encode())
passing = {"mesh": [["a", 2], ["b", "*"]], "axes": {"batch": "a", "heads": ["b"], "mlp": ["b", "a"]},
           "passing": [["mlp", "sequence", "b"]], "may_gather": ["embed"], "store": {}, "pipeline": {}}
seed("strategy", "passing", b"\x03" + json.dumps(passing).encode())
wide = {"mesh": [["a", 1 << 24], ["b", 1 << 24], ["c", 1 << 24], ["d", "*"]], "axes": {"batch": "a"}}
seed("strategy", "wide", b"\x07" + json.dumps(wide).encode())
context = {"mesh": [["c", 4], ["x", "*"]], "axes": {"sequence": ["c", "x"], "heads": "x"},
           "context": {"attention": "ring", "balanced": True}}
seed("strategy", "context", b"\x07" + json.dumps(context).encode())
words("strategy", tables + [json.dumps(passing), json.dumps(context)], big)

tiny = {"kind": "gpt", "layers": 1, "embed": 8, "heads": 4, "mlp": 32, "tokens": 8, "vocabulary": 13, "dropout": 0.1}
schooling = {"batch_size": 8, "steps": 20, "clip_norm": 0.5, "label_smoothing": 0.1, "dtype": "f64",
             "optimizer": {"kind": "sgd", "momentum": 0.9}, "rate": {"peak": 0.1}}
workloads = [{"model": tiny, "training": schooling, "strategy": json.loads(table)} for table in tables]
for text in texts:
    suite = json.loads(text)
    if "model" in suite and "training" in suite:
        workloads.append({"model": {**suite["model"], "layers": 1}, "training": suite["training"], "strategy": json.loads(tables[0])})
for change in ({"micro_batch": 1 << 62}, {"batch_size": (1 << 62) - 1}):  # numbers that a product or a loop does not bear
    workloads.append({"model": tiny, "training": {**schooling, **change},
                      "strategy": {"mesh": [["d", "*"]], "axes": {"batch": "d"}}})
for number, workload in enumerate(workloads):
    for ranks in (1, 4):
        seed("configuration", f"{number}-{ranks}", bytes([ranks - 1]) + json.dumps(workload).encode())
words("configuration", [json.dumps(w) for w in workloads], big)

merges = (data / "gpt2-merges.bpe").read_bytes()[:600].rsplit(b"\n", 1)[0] + b"\n"
prose = (data / "evaluate.txt").read_bytes()[:400]
seed("tokenizer", "merges", b"\x08" + merges + b"\xff" + prose)
seed("tokenizer", "prose", b"\x20" + prose + b"\xff" + "Grüße, 12 'll\n\n  end".encode())

for magic, version, width in ((20240520, 1, 2), (20240801, 7, 4)):
    header = struct.pack("<256i", magic, version, 3, *[0] * 253)
    seed("token_files", f"llmc{width}", b"\x00" + header + bytes(3 * width))
seed("token_files", "nanogpt", b"\x01" + bytes(10))
index = (data / "persuasion.idx").read_bytes()
seed("token_files", "megatron", b"\x02\x40" + index[:400])
small = b"MMIDIDX\x00\x00" + struct.pack("<QBQQ", 1, 8, 2, 3) + struct.pack("<2i2q3q", 4, 6, 0, 8, 0, 1, 2)
seed("token_files", "megatron-small", b"\x02\x0a" + small)

records = (data / "sotu-bert.tfrecord").read_bytes()
first = 16 + struct.unpack_from("<Q", records)[0]
seed("tfrecord", "file", b"\x00" + records[:first])
seed("tfrecord", "packed", b"\x00" + (data / "sotu-bert.tfrecord.gz").read_bytes()[:1500])
seed("tfrecord", "message", b"\x01" + records[12:first - 4])

pieces = b"[UNK]\n[MASK]\nthe\n##s\na\n##b\nun\n##able\n,\n.\n"
seed("wordpiece", "text", pieces + b"\xff" + prose[:200])
seed("wordpiece", "unicode", pieces + b"\xff" + "\u00c9t\u00e9 \u4e2d\u6587 \u03a3\u03a3 e\u0301, \u200b\ud55c".encode())

rdx, rdb = (data / "small.rdx").read_bytes(), (data / "small.rdb").read_bytes()
seed("rdata", "small", b"\x00" + struct.pack("<H", len(rdx)) + rdx + rdb)

plain = zlib.decompress(rdx, 47)
seed("rdata", "plain-index", b"\x01" + struct.pack("<H", len(plain)) + plain + zlib.decompressobj().decompress(rdb[4:]))

# Small files of libjpeg-turbo: their tables are optimised, so that they are short.
jpegs = {
    "colour":
        "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAA0JCgsKCA0LCgsODg0PEyAVExISEyccHhcgLikxMC4pLSwzOko+MzZGNywtQFdBRkxOUlNSMj5aYVpQYEpRUk"
        "//2wBDAQ4ODhMREyYVFSZPNS01T09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT0//wAARCAAUABMDASIAAhEBAxEB"
        "/8QAGAABAQEBAQAAAAAAAAAAAAAAAAQFAQb/xAAdEAACAQUBAQAAAAAAAAAAAAAAAwQBAiExYVER/8QAGAEAAgMAAAAAAAAAAAAAAAAABAUBAwb/xAAbEQ"
        "ADAAIDAAAAAAAAAAAAAAAAAQQDIREUMf/aAAwDAQACEQMRAD8A8UmJwvTE4XJicL0xOF+SkiKvwzaRMaBu0iY0AXsj1V6OJXb4XJXb4ACZGYiJvRZRdvzQ"
        "ABeR8mz/2Q==",
    "grey":
        "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAA0JCgsKCA0LCgsODg0PEyAVExISEyccHhcgLikxMC4pLSwzOko+MzZGNywtQFdBRkxOUlNSMj5aYVpQYEpRUk"
        "//wAALCAAJABEBAREA/8QAFgABAQEAAAAAAAAAAAAAAAAABQQG/8QAGxAAAgIDAQAAAAAAAAAAAAAAAAQDIRMxQWH/2gAIAQEAAD8AwKsWqGVYtUXYvAFX"
        "gwrwuP/Z",
    "progressive":
        "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAA0JCgsKCA0LCgsODg0PEyAVExISEyccHhcgLikxMC4pLSwzOko+MzZGNywtQFdBRkxOUlNSMj5aYVpQYEpRUk"
        "//2wBDAQ4ODhMREyYVFSZPNS01T09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT0//wgARCAARABIDASIAAhEBAxEB"
        "/8QAFwABAQEBAAAAAAAAAAAAAAAAAAMEBf/EABgBAAIDAAAAAAAAAAAAAAAAAAMEAQIF/9oADAMBAAIQAxAAAAHiaL3vGZuDencHj1A3v//EABgQAAMBAQ"
        "AAAAAAAAAAAAAAAAABAhIQ/9oACAEBAAEFAlIpMikUmRC5/8QAFxEBAQEBAAAAAAAAAAAAAAAAAwAQE//aAAgBAwEBPwEVusOf/8QAGBEAAgMAAAAAAAAA"
        "AAAAAAAAAAIDEBP/2gAIAQIBAT8BaQ0Gr//EABQQAQAAAAAAAAAAAAAAAAAAADD/2gAIAQEABj8CH//EABQQAQAAAAAAAAAAAAAAAAAAADD/2gAIAQEAAT"
        "8hH/8A/9oADAMBAAIAAwAAABCcx/z/xAAWEQEBAQAAAAAAAAAAAAAAAAAQMUH/2gAIAQMBAT8Qmcn/xAAUEQEAAAAAAAAAAAAAAAAAAAAg/9oACAECAQE/"
        "EA3/xAAYEAADAQEAAAAAAAAAAAAAAAAAMWEQQf/aAAgBAQABPxCJEVESIq04f//Z",
    "inks":
        "/9j/7gAOQWRvYmUAZAAAAAAA/9sAQwANCQoLCggNCwoLDg4NDxMgFRMSEhMnHB4XIC4pMTAuKS0sMzpKPjM2RjcsLUBXQUZMTlJTUjI+WmFaUGBKUVJP/8"
        "AAFAgACAAJBEMRAE0RAFkRAEsRAP/EABcAAQEBAQAAAAAAAAAAAAAAAAAHBAb/xAAYEAEAAwEAAAAAAAAAAAAAAAAABBNhQf/aAA4EQwBNAFkASwAAPwCd"
        "xeJvVibOsbirAf/Z",
}
for number, (name, text) in enumerate(jpegs.items()):
    seed("jpeg", name, bytes([4 * number + 1]) + base64.b64decode(text))

for path in sorted(data.glob("*.deb")):
    seed("package", path.name, b"\x00" + path.read_bytes())
archive = io.BytesIO()
with tarfile.open(fileobj=archive, mode="w", format=tarfile.GNU_FORMAT) as tar:
    entry = tarfile.TarInfo("usr/share/a.txt")
    entry.size = 5
    tar.addfile(entry, io.BytesIO(b"words"))
seed("package", "tar", b"\x01" + archive.getvalue()[:2048])

golden = sorted((root / "tests" / "golden").glob("golden_*.txt"))
rules = sorted((root / "benchmarks" / "rulesets").glob("*.json"))
for number, path in enumerate(golden):  # which set it is held against follows from the number
    lines = path.read_bytes().splitlines(keepends=True)
    for part in range(0, len(lines), 12):
        seed("log", f"{path.stem}-{part}", bytes([number + 1]) + b"".join(lines[part:part + 12]))
odd = (b'\r\n3: :::MLLOG {"time_ms": "1", "key": "seed", "value": {0}, "metadata": {}}\n:::MLLOG {"key": "seed"}:::MLLOG {"time_ms": 1,'
       b' "key": "opt_name", "value": NaN, "metadata": {}}\n')
for number in range(1, 7):
    seed("log", f"odd-{number}", bytes([number]) + odd)
for path in rules:
    seed("log", path.name, b"\x00" + odd + b"\xff" + path.read_bytes()[:3500])
small = {"name": "s", "extends": "common", "benchmarks": {"b": {"runs": 1, "counted": "epoch_num", "keys": [
    {"key": "seed", "count": "one", "value": {"sum_with": {"key": "opt_name", "total": 3}, "power_of_two_times": 2}}]}}}
seed("log", "small-set", b"\x00" + odd + b"\xff" + json.dumps(small).encode())
words("log", [path.read_text()[:20000] for path in rules] + [path.read_text()[:4000] for path in golden], (*big, '":::MLLOG "'))
