#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the real program as a person would: good runs, and every kind of bad input. Each refusal must come within seconds,
with its own exit code, as one message on standard error, and leave nothing behind that looks like a result.
usage: end_to_end.py PROGRAM SOURCE_FOLDER [--mpi LAUNCHER] [--backends NAME ...]"""
import argparse
import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

parser = argparse.ArgumentParser()
parser.add_argument("program")
parser.add_argument("source")
parser.add_argument("--mpi", metavar="LAUNCHER", help="also run under this launcher")
parser.add_argument("--faulty", metavar="PROGRAM", help="tests/benchmarks/faulty_quadrille")
parser.add_argument("--only", metavar="PART", help="one of the functions at the end of this file")
parser.add_argument("--with-cuda", action="store_true", help="the build has the cuda back end")
parser.add_argument("--backends", nargs="+", default=["reference"])
ARGUMENTS = parser.parse_args()
PROGRAM, SOURCE = os.path.abspath(ARGUMENTS.program), ARGUMENTS.source
WORK = tempfile.mkdtemp(prefix="quadrille_")
FAILURE, BAD_INPUT, STUCK, NOT_REACHED, DIVERGED, NOT_VALID, DIFFERS = 1, 2, 3, 4, 5, 6, 7
KILLED = 128 + signal.SIGKILL
# Small enough for the reference back end: a run takes a fraction of a second.
SUITE = {
    "name": "small",
    "model": {"kind": "gpt", "layers": 1, "embed": 8, "heads": 2, "mlp": 16, "tokens": 8},
    "data": {"source": "synthetic", "vocabulary": 8, "order": 1, "choices": 2, "noise": 0.1, "train_tokens": 4096,
             "evaluate_tokens": 256},
    "training": {"batch_size": 4, "steps": 8, "rate": {"peak": 1e-3}},
    "run": {"target": {"metric": "nats_per_token", "value": 5.0}, "evaluate_every": 4, "warm_up_steps": 1,
            "probe_seconds": 0},
}
failures = []
count = 0


def suite(name="small", **changes):
    document = json.loads(json.dumps(SUITE))
    for path, value in changes.items():
        at = document
        *parents, last = path.split("__")
        for key in parents:
            at = at[key]
        if value is None:
            del at[last]
        else:
            at[last] = value
    path = os.path.join(WORK, name + ".json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(document, file, indent=1)
    return path


def run(*words, env=None, seconds=30, mpi=0, program=PROGRAM, before=()):
    global count
    count += 1
    launcher = [ARGUMENTS.mpi, "--quiet", "-n", str(mpi)] if mpi else list(before)
    begin = time.monotonic()
    program = [] if launcher[1:] and PROGRAM in launcher else [program]
    done = subprocess.run([*launcher, *program, *words], cwd=WORK, capture_output=True, text=True, timeout=seconds, check=False,
                          env={**os.environ, **(env or {})})
    done.seconds = time.monotonic() - begin
    return done


def expect(condition, what, done=None):
    if condition:
        return
    failures.append(what)
    print("FAILED:", what)
    if done is not None:
        print("  exit", done.returncode, "\n  out:", done.stdout[-800:], "\n  err:", done.stderr[-800:])


def out(name):
    return os.path.join(WORK, name)


def read_record(folder):
    with open(out(folder + "/record.json"), encoding="utf-8") as file:
        return json.load(file)


def refused(what, words, *parts, code=BAD_INPUT, env=None, folder=None, mpi=0, before=()):
    done = run(*words, env=env, mpi=mpi, before=before)
    expect(done.returncode == code, f"{what}: exit code {code}", done)
    expect(done.stderr.count("quadrille: error: ") == 1 and done.stderr.startswith("quadrille: error: "),
           f"{what}: exactly one message", done)
    for part in parts:
        expect(part in done.stderr, f"{what}: the message says '{part}'", done)
    if folder:
        expect(not os.path.exists(os.path.join(folder, "record.json")), f"{what}: no record", done)


def good_runs():
    base = ["run", suite(), "--backend", "reference"]
    done = run(*base, "--out", out("a"))
    expect(done.returncode == 0, "a good run ends with 0", done)
    expect("SCORE" in done.stdout and "NOT VALID as a timed claim" in done.stdout, "the last screen is the score", done)
    expect("rank" in done.stdout and "threads" in done.stdout, "there is a launch table", done)
    expect("\r" not in done.stdout, "no carriage returns where there is no terminal", done)
    with open(out("a/record.json"), encoding="utf-8") as file:
        record = json.load(file)
    expect(record["stop_reason"] == "target reached" and record["seconds_to_target"] > 0, "the record has the score")
    expect(record["verdict"]["valid"], f"valid: {record['verdict']}")
    expect([s["step"] for s in record["steps"]] == [1, 2, 3, 4], "stopped at the first evaluation that reached the target")
    work, flops = record["flops"]["training"], record["flops"]
    expect(abs(work["useful_flops"] + work["skipped_flops"] - 4 * flops["model_full_flops_per_step"]) < 1, "FLOPs equal the formula")
    named = sum(v for k, v in record["phases_seconds"].items() if k != "other")
    expect(abs(named - record["timed_seconds"]) < 0.02 * record["timed_seconds"] + 0.005, "phases add up to the timed interval")
    check_log(record)

    run(*base, "--out", out("b"))
    done = run("compare", out("a"), out("b"))
    expect(done.returncode == 0 and "SAME" in done.stdout, "the same run twice is the same bit for bit", done)
    done = run(*base, "--seed", "5", "--out", out("c"))
    done = run("compare", out("a"), out("c"))
    expect(done.returncode == DIFFERS and "seed" in done.stdout, "another seed is told", done)
    done = run(*base, "--ranks", "2", "--oversubscribe", "--out", out("d"))
    expect(done.returncode == 0, "two ranks", done)
    done = run("compare", out("a"), out("d"), "--tolerance", "2e-6")
    expect(done.returncode == 0, "two ranks have the losses of one", done)
    done = run("compare", out("a"), "--published")
    expect(done.returncode == 0 and "not to be divided" in done.stdout, "beside published numbers", done)
    validate_schema(record)
    placements()


# What the mesh does not tell: layers of stages, replicas of key/value heads, traffic of stages that differ.
def placements():
    with open(out("stages.json"), "w", encoding="utf-8") as file:
        json.dump({"mesh": [["pipe", 3]], "pipeline": {"axis": "pipe"}}, file)
    stages = [suite("stages5", model__layers=5), "--backend", "reference", "--strategy", out("stages.json"), "--ranks", "3"]
    done = run("run", *stages, "--oversubscribe", "--out", out("pipe"))
    expect("layers of each stage: 2, 2, 1" in done.stdout, "a run says how layers lie", done)
    record = read_record("pipe")
    expect(record["pipeline"]["layers"] == [2, 2, 1], "so does its record")
    validate_schema(record)
    done = run("plan", *stages)
    tables = [line for line in done.stdout.splitlines() if line.startswith("Traffic of a step")]
    expect(tables == ["Traffic of a step, stages 0,2 (rank 0)", "Traffic of a step, stage 1 (rank 1)"], "traffic of each stage", done)
    done = run("run", suite("shared", model__heads=2, model__kv_heads=1), "--backend", "reference", "--strategy", "tensor", "--ranks",
               "2", "--oversubscribe", "--out", out("shared"))
    expect("each lies on 2 ranks" in done.stdout, "a run says that keys are replicated", done)
    expect(read_record("shared")["key_value_replicas"] == 2, "so does its record")


def check_log(record):
    with open(out("a/result_0.txt"), encoding="utf-8") as file:
        lines = [json.loads(line.split(":::MLLOG ", 1)[1]) for line in file]
    keys = [line["key"] for line in lines]
    for key in ("submission_benchmark", "submission_org", "submission_platform", "submission_division", "submission_status",
                "cache_clear", "init_start", "init_stop", "run_start", "run_stop", "global_batch_size", "seed",
                "train_samples", "eval_samples", "gradient_accumulation_steps", "opt_name", "opt_base_learning_rate",
                "block_start", "block_stop", "eval_accuracy", "tensor_parallelism", "micro_batch_size"):
        expect(key in keys, f"the log has {key}")
    for once in ("init_start", "init_stop", "run_start", "run_stop", "seed", "train_samples", "eval_samples"):
        expect(keys.count(once) == 1, f"the log has {once} once")
    for first, second in (("submission_division", "init_stop"), ("init_start", "init_stop"), ("init_stop", "run_start"),
                          ("global_batch_size", "eval_accuracy"), ("run_start", "block_start"), ("eval_accuracy", "run_stop")):
        expect(keys.index(first) < keys.index(second), f"{first} before {second} in the log")
    expect(keys.count("block_start") == keys.count("block_stop"), "blocks are closed")
    at = {line["key"]: line for line in lines}
    seconds = (at["run_stop"]["time_ms"] - at["run_start"]["time_ms"]) / 1000
    expect(abs(seconds - record["seconds_to_target"]) < 0.0021, "log and record agree on the score")
    expect(at["run_stop"]["metadata"]["status"] == "success", "run_stop says success")
    expect(all("file" in line["metadata"] and "lineno" in line["metadata"] for line in lines), "file and line of each event")


def validate_schema(record):
    try:
        import jsonschema
    except ImportError:
        return
    with open(os.path.join(SOURCE, "results/schema.json"), encoding="utf-8") as file:
        schema = json.load(file)
    try:
        jsonschema.validate(record, schema)
    except jsonschema.ValidationError as error:
        expect(False, f"the record fits the schema: {error.message}")


def short_deadlines():
    """A message that comes too late is a failure of the run, in both worlds alike."""
    worlds = [(["--ranks", "2"], 0), ([], 2)]
    for words, mpi in worlds if ARGUMENTS.mpi else worlds[:1]:
        refused(f"no time at all, {mpi} processes", ["run", suite(), "--backend", "reference", "--oversubscribe", "--strategy", "data",
                                                     "--timeout", "0.0000001", "--out", out("late"), *words],
                "rank ", "waited 1e-07 s and gave up", code=FAILURE, folder=out("late"), mpi=mpi)


def sets_of_runs():
    done = run("run", suite(), "--backend", "reference", "--runs", "3", "--out", out("set"))
    expect(done.returncode == 0 and "olympic mean" in done.stdout, "three runs give an olympic mean", done)
    for name in ("result_0.txt", "result_2.txt", "record_0.json", "record_2.json", "score.json"):
        expect(os.path.exists(out("set/" + name)), f"--runs 3 leaves {name}")
    done = run("score", out("set"))
    expect(done.returncode == 0 and "Score" in done.stdout, "score of a folder", done)
    done = run("compare", out("set"), "--published")
    expect(done.returncode == 0 and "Score" in done.stdout and "the run nearest to the score" in done.stdout
           and "not to be divided" in done.stdout, "a set beside published numbers", done)
    refused("a set beside one run", ["compare", out("set"), out("a")], "the records of 3 runs", "record_0.json")
    done = run("score", out("a"))
    expect("not an olympic mean" in done.stdout, "one run is no olympic mean", done)


def other_endings():
    done = run("run", suite("hard", run__target__value=0.01), "--backend", "reference", "--out", out("hard"))
    expect(done.returncode == NOT_REACHED and "target not reached" in done.stdout, "target not reached", done)
    with open(out("hard/record.json"), encoding="utf-8") as file:
        record = json.load(file)
    expect("seconds_to_target" not in record and not record["verdict"]["valid"], "no score without the target")
    done = run("run", suite("wild", training__rate={"peak": 1e30}, run__target__value=0.01), "--backend", "reference", "--ranks",
               "2", "--oversubscribe", "--out", out("wild"))
    expect(done.returncode == DIVERGED and "diverged" in done.stdout, "diverged", done)
    done = run("run", suite("slow", training__steps=1000000, run__target__value=0.01, run__evaluate_every=0), "--backend",
               "reference", "--max-minutes", "0.02", "--ranks", "2", "--oversubscribe", "--out", out("slow"))
    expect(done.returncode == NOT_REACHED and "time limit" in done.stdout and done.seconds < 15, "time limit", done)
    with open(out("slow/result_0.txt"), encoding="utf-8") as file:
        text = file.read()
    expect(text.count('"block_start"') == text.count('"block_stop"') == 1, "a run that is cut short closes its block")
    expect('"status":"aborted"' in text, "and says aborted")
    done = run("run", suite("fixed", run__target=None, run__evaluate_every=None), "--backend", "reference", "--out", out("fixed"))
    expect(done.returncode == 0 and "per step" in done.stdout, "fixed steps without a target", done)
    done = run("run", suite(), "--backend", "reference", "--steps", "2", "--out", out("two"))
    expect("too few steps" in done.stdout, "two steps are too few", done)
    done = run("run", suite("hard", run__target__value=0.01), "--backend", "reference", "--steps", "6", "--out", out("look"))
    expect(done.returncode == NOT_REACHED and "a quick look, not a result" in done.stdout and "NOT VALID" not in done.stdout,
           "fewer steps are a quick look", done)
    expect(not read_record("look")["verdict"]["valid"], "a quick look is not valid")
    done = run("run", suite(), "--backend", "reference", "--ranks", "2", "--oversubscribe", "--trace", out("trace.json"), "--out", out("traced"))
    with open(out("trace.json"), encoding="utf-8") as file:
        ranks = {event["pid"] for event in json.load(file)["traceEvents"]}
    expect(ranks == {0, 1}, "the trace has both ranks", done)
    done = run("run", suite(), "--backend", "reference", "--dry-run", "--ranks", "2", "--out", out("dry"))
    expect(done.returncode == 0 and "from" in done.stdout and "Memory forecast" in done.stdout, "dry run", done)
    expect(not os.path.exists(out("dry")), "a dry run leaves nothing")


def suites_and_options():
    base = ["--backend", "reference", "--out", out("bad")]
    bad = out("bad")
    refused("misspelt key", ["run", suite("k", model__hads=3), *base], "model.hads", "heads", folder=bad)
    refused("two misspelt keys", ["run", suite("k2", model__hads=3, run__warmup=1), *base], "hads", "run.warmup", folder=bad)
    refused("wrong type", ["run", suite("t", training__steps="six"), *base], "training.steps", "t.json:", folder=bad)
    refused("no such suite", ["run", "gpt_tny"], "gpt_tiny")
    refused("a folder as suite", ["run", WORK + "/"], "suite ", "is a folder, wanted a .json file")
    refused("a folder as strategy", ["run", suite(), "--strategy", WORK, *base], "strategy ", "is a folder", folder=bad)
    refused("no such strategy", ["run", suite(), "--strategy", "tensr", *base], "tensor", folder=bad)
    refused("sizes that do not divide", ["run", suite(), "--ranks", "3", "--strategy", "tensor", *base], "model.heads 2", "model.mlp 16",
            "legal", folder=bad)
    refused("batch arithmetic", ["run", suite(), "--ranks", "3", *base], "batch_size 4", "small.json:", folder=bad)
    refused("unknown option", ["run", suite(), "--rank", "3"], "--rank")
    refused("no verb", [], "--help")
    for words in (["run", suite()], ["run", suite(), "--dry-run"], ["plan", suite()]):
        refused("unknown back end", [*words, "--backend", "refernce"], 'did you mean "reference"?', "reference, cpu, cuda, counting")
        if not ARGUMENTS.with_cuda:
            refused("a back end that is not in this build", [*words, "--backend", "cuda"], "not in this build", "preset cuda")
    for words in (["run", suite()], ["run", suite(), "--dry-run"]):
        refused("unknown world", [*words, "--world", "thread"], 'did you mean "threads"?', "threads, mpi, counting")
        refused("no world of this version", [*words, "--world", "nccl"], "no world of its own", "--collectives nccl", "threads, mpi, counting")
    refused("a world that only counts", ["run", suite(), "--world", "counting"], "quadrille plan")
    refused("a check in a world that only counts", ["check", "--layouts", "--world", "counting"], "nothing to be checked")
    refused("a check in no world of this version", ["check", "--layouts", "--world", "nccl"], "no world of its own")
    refused("too many threads", ["run", suite(), *base, "--threads", "4096"], "--oversubscribe", folder=bad)
    refused("more ranks than cores", ["run", suite(), *base, "--ranks", "4096", "--set", "training.batch_size=4096", "--set",
                                     "data.train_tokens=1000000"], "4096 ranks of 1 thread",
            "may be used", "--oversubscribe", folder=bad)
    one_core = ["taskset", "-c", str(min(os.sched_getaffinity(0)))]
    refused("two ranks on one core", ["run", suite(), *base, "--ranks", "2"], "2 ranks of 1 thread", "1 may be used", "--oversubscribe",
            folder=bad, before=one_core)
    done = run("run", suite(), "--backend", "reference", "--ranks", "2", "--oversubscribe", "--out", out("crowded"), before=one_core)
    expect(done.returncode == 0 and "2 threads share 1 cores" in done.stdout, "two ranks on one core when asked for", done)
    for words in ([], ["--world", "threads"]):
        for variable, value in (("PMI_RANK", "1"), ("SLURM_PROCID", "3"), ("OMPI_COMM_WORLD_RANK", "1"), ("SLURM_NPROCS", "4"),
                                ("PMIX_SIZE", "2"), ("SLURM_NTASKS", "abc")):
            refused(f"{variable}={value} {words}", ["run", suite(), *base, *words], variable,
                    env={variable: value}, folder=bad)
    refused("used folder", ["run", suite(), "--backend", "reference", "--out", out("a")], "not empty")
    with open(out("dup.json"), "w", encoding="utf-8") as file:
        file.write('{"name": "a", "name": "b"}')
    refused("duplicate key", ["run", out("dup.json"), *base], "dup.json:1", "name", folder=bad)
    with open(out("cut.json"), "w", encoding="utf-8") as file:
        file.write('{"name": "a", ')
    refused("half a document", ["run", out("cut.json"), *base], "cut.json", folder=bad)
    refused("accidental singletons", ["run", suite(), *base, "--world", "threads"], "OMPI_COMM_WORLD_SIZE", "--allow-singleton",
            env={"OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_RANK": "0"}, folder=bad)
    silent = run("run", suite(), *base, "--world", "threads", env={"OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_RANK": "1"})
    expect(silent.returncode == BAD_INPUT and silent.stderr == "", "only one process tells", silent)
    done = run("run", suite(), "--backend", "reference", "--allow-singleton", "--out", out("alone"),
               env={"OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_RANK": "0"})
    expect(done.returncode == 0, "singletons when allowed", done)


def text_suite(name, train, evaluate, **changes):
    data = {"source": "text", "directory": "texts", "train": train, "evaluate": evaluate,
            "tokenizer": {"kind": "byte", "alphabet": "compact"}}
    return suite(name, data=data, run__target__metric="nats_per_character", **changes)


def bad_data():
    os.makedirs(out("data/texts"))
    plain = "the quick brown fox jumps over the lazy dog and runs away. " * 20
    for name, text in {"good.txt": plain, "short.txt": "abc", "letters.txt": "abc" * 50, "empty.txt": "", "other.txt": plain + "@#"}.items():
        with open(out("data/texts/" + name), "w", encoding="utf-8") as file:
            file.write(text)
    with open(out("data/texts/torn.txt"), "wb") as file:
        file.write(plain.encode() + b"\xff\xfe")
    base = ["--backend", "reference", "--out", out("bad_data")]
    folder = out("bad_data")

    def again():
        shutil.rmtree(folder, ignore_errors=True)

    refused("missing file", ["run", text_suite("m", ["good.txt"], ["none.txt"]), *base], "none.txt", folder=folder)
    refused("empty file", ["run", text_suite("e", ["empty.txt"], ["good.txt"]), *base], "empty.txt", folder=folder)
    refused("short text", ["run", text_suite("s", ["short.txt"], ["letters.txt"]), *base], "short.txt", folder=folder)
    for kind, batch in (("byte", 1000), ("bpe", 1000), ("bpe", 100)):  # 1180 bytes make windows of 8: 147 of bytes, fewer of pairs
        tokenizer = {"kind": kind, **({"vocabulary": 280} if kind == "bpe" else {})}
        for words in (["run"], ["plan"], ["run", "--dry-run"]):
            end = ["--backend", "reference"] if words == ["plan"] else base
            refused(f"{kind} text shorter than a batch of {batch}", [words[0], text_suite(
                "b", ["good.txt"], ["letters.txt"], data__tokenizer=tokenizer, training__batch_size=batch), *words[1:], *end],
                "one step takes", f"{batch} x 8 + 1", folder=folder)
            expect(not os.path.exists(folder), f"a text shorter than a batch leaves nothing ({words}, {kind})")
    refused("bytes beyond the alphabet", ["run", text_suite("o", ["good.txt"], ["other.txt"]), *base], "other.txt", folder=folder)
    again()
    refused("not UTF-8", ["run", text_suite("u", ["torn.txt"], ["good.txt"]), *base], "torn.txt", folder=folder)
    again()
    refused("one token short of a batch", ["run", suite("few", data__train_tokens=31), *base], "one step takes", folder=folder)
    again()
    header = struct.pack("<256i", 20240520, 1, 64, *([0] * 253))
    llmc = {"source": "llmc", "directory": "texts", "train": "x.bin", "evaluate": "y.bin", "vocabulary": 8}
    with open(out("data/texts/y.bin"), "wb") as file:
        file.write(header + struct.pack("<64H", *([1] * 64)))

    def token_file(head, ids):
        with open(out("data/texts/x.bin"), "wb") as file:
            file.write(head + struct.pack(f"<{len(ids)}H", *ids))
        return suite("tokens", data=llmc)

    refused("truncated tokens", ["run", token_file(header, [1] * 20), *base], "x.bin", folder=folder)
    again()
    refused("byte-swapped tokens", ["run", token_file(struct.pack(">256i", 20240520, 1, 64, *([0] * 253)), [1] * 64), *base], "x.bin",
            folder=folder)
    again()
    refused("foreign tokens", ["run", token_file(b"not a token file" * 64, [1] * 64), *base], "x.bin", folder=folder)
    again()
    refused("ids beyond the vocabulary", ["run", token_file(header, [1] * 40 + [60000] + [1] * 23), *base], "x.bin", "60000",
            folder=folder)
    with open(os.path.join(folder, "result_0.txt"), encoding="utf-8") as file:
        log = file.read()
    expect(log.count('"run_stop"') == 1 and '"aborted"' in log, "bad content: the log says that the run was aborted")
    again()


def below_the_data_folder():
    """Names lead nowhere else, and --data says where they lead."""
    os.makedirs(out("elsewhere/set"))
    with open(out("elsewhere/set/a.txt"), "w", encoding="utf-8") as file:
        file.write("all is well here, as it was yesterday. " * 20)
    data = ["--data", out("elsewhere")]
    done = run("data", "show", "set/a.txt", "--count", "1", *data)
    expect(done.returncode == 0 and '"a"' in done.stdout, "data show looks below --data", done)
    done = run("data", "prepare", "set", "a.txt", "--output", "a.bin", *data)
    expect(done.returncode == 0 and os.path.exists(out("elsewhere/set/a.bin")), "data prepare", done)
    refused("verify without a word", ["data", "verify"], "or --suite")
    refused("verify with too many", ["data", "verify", "set", "--suite", "gpt_synthetic"], "or --suite")
    refused("prepare twice", ["data", "prepare", "set", "a.txt", "--output", "a.bin", *data], "a.bin is there already")
    refused("prepare outside", ["data", "prepare", "set", "a.txt", "--output", "../../z.bin", *data], "../../z.bin")
    expect(not os.path.exists(out("z.bin")), "nothing is written outside the data folder")
    refused("misspelt vocabulary", ["data", "prepare", "set", "a.txt", "--output", "b.bin", "--tokenizer",
                                    '{"kind": "bpe", "vocab": 300}', *data], 'unknown key "tokenizer.vocab"', 'known keys of tokenizer: kind, vocabulary')
    refused("text from elsewhere", ["run", text_suite("p", ["../../../../../etc/passwd"], ["a.txt"])], "etc/passwd", "below the data folder")


def curve(folder):
    record = read_record(folder)
    return ([(s["step"], s["loss"], s["gradient_norm"]) for s in record["steps"]],
            [e["quality"] for e in record["evaluations"]])


def over_mpi():
    """The same layout in both worlds: the same losses, bit for bit; and errors that pass the launcher unharmed."""
    if not ARGUMENTS.mpi:
        return
    for backend in ARGUMENTS.backends:
        for strategy, ranks in (("data", 4), ("tensor", 2), ("data_tensor", 4)):
            what = f"{strategy} on {ranks} ranks, back end {backend}"
            name = f"mpi_{backend}_{strategy}"
            base = ["run", suite(), "--backend", backend, "--strategy", strategy, "--threads", "1", "--oversubscribe"]
            run(*base, "--world", "threads", "--ranks", str(ranks), "--out", out(name + "_threads"))
            done = run(*base, "--world", "mpi", "--out", out(name), mpi=ranks)
            expect(done.returncode == 0 and "(valid" in done.stdout and done.stderr == "", f"{what}: a good run over MPI", done)
            expect(done.stdout.count("SCORE") == 1 and done.stdout.count("rank  host") == 1, f"{what}: one table, one screen", done)
            expect(f"{ranks} ranks in world mpi" in done.stdout, f"{what}: {ranks} ranks", done)
            expect("\r" not in done.stdout, f"{what}: no carriage returns where there is no terminal", done)
            expect(sorted(os.listdir(out(name))) == ["record.json", "result_0.txt"], f"{what}: one log and one record", done)
            expect(curve(name) == curve(name + "_threads"), f"{what}: the losses of the thread world, bit for bit")
            expect(len(read_record(name)["rank_lines"]) == ranks, f"{what}: all ranks are in the record")
            run(*base, "--world", "mpi", "--out", out(name + "_again"), mpi=ranks)
            done = run("compare", out(name), out(name + "_again"))
            expect(done.returncode == 0 and "SAME" in done.stdout, f"{what}: twice the same bit for bit", done)
    base = ["--backend", "reference", "--world", "mpi", "--oversubscribe", "--out", out("mpi_bad")]
    folder = out("mpi_bad")
    with open(out("not_together.json"), "w", encoding="utf-8") as file:
        json.dump({"mesh": [["a", 2]], "axes": {"heads": "a"}, "passing": [["sequence", "batch", "a"]]}, file)
    refused("placements that do not go together", ["run", suite(), *base, "--strategy", out("not_together.json")],
            "not_together.json:1:", "do not go together", mpi=2)
    expect(not os.path.exists(folder), "placements that do not go together: no folder is left")
    refused("misspelt key over MPI", ["run", suite("k", model__hads=3), *base], "model.hads", folder=folder, mpi=2)
    refused("another number of ranks", ["run", suite(), *base, "--ranks", "3"], "3 ranks are wanted", "gave 2", folder=folder, mpi=2)
    refused("sizes that do not divide over MPI", ["run", suite(), "--strategy", "tensor", *base], "model.heads 2", folder=folder, mpi=3)
    refused("missing file over MPI", ["run", text_suite("m", ["good.txt"], ["none.txt"]), *base], "none.txt", folder=folder, mpi=2)
    refused("too many threads over MPI", ["run", suite(), "--backend", "reference", "--world", "mpi", "--threads", "4096", "--out",
                                          folder], "--oversubscribe", folder=folder, mpi=2)
    refused("more ranks than cores over MPI", ["run", suite(), "--backend", "reference", "--world", "mpi", "--threads", "1", "--set",
                                               "training.batch_size=16", "--out", folder], "--oversubscribe", folder=folder,
            mpi=2 * len(os.sched_getaffinity(0)))
    good = [PROGRAM, "run", suite(), *base, "--strategy", "data"]

    def others(*words):  # the launcher starts rank 1 with more words than rank 0
        return [ARGUMENTS.mpi, "--quiet", "-n", "1", *good, ":", "-n", "1", *good, *words]

    for words, key in ((["--seed", "7"], "run.seed is 7, on rank 0 it is 1"),
                       (["--set", "training.rate.peak=0.1"], "training.rate.peak is 0.1, on rank 0 it is 0.001"),
                       (["--steps", "9"], "training.steps is 9, on rank 0 it is 8"),
                       (["--trace", out("t.json")], "--trace is true, on rank 0 it is false")):
        refused(f"rank 1 with {words}", words, "rank 1 was started with other settings than rank 0: ", key, folder=folder, before=others())
    begin = time.monotonic()
    refused("a rank that never joins", ["--timeout", "5", ":", "-n", "1", "sleep", "40"], "rank 0 on ", "MPI did not start within 10 s",
            code=STUCK, folder=folder, before=[ARGUMENTS.mpi, "--quiet", "-n", "1", *good])
    expect(time.monotonic() - begin < 20, "a rank that never joins: within 20 s")
    refused("threads under a launcher", ["run", suite(), "--backend", "reference", "--world", "threads", "--out", folder],
            "--world mpi", folder=folder, mpi=2)
    hard = suite("hard", run__target__value=0.01)
    done = run("run", hard, "--backend", "reference", "--oversubscribe", "--out", out("mpi_hard"), mpi=2)
    expect(done.returncode == NOT_REACHED and done.stderr == "", "exit codes pass the launcher: target not reached", done)
    wild = suite("wild", training__rate={"peak": 1e30}, run__target__value=0.01)
    done = run("run", wild, "--backend", "reference", "--oversubscribe", "--out", out("mpi_wild"), mpi=2)
    expect(done.returncode == DIVERGED and done.stderr == "", "exit codes pass the launcher: diverged", done)
    done = run("run", suite(), "--backend", "reference", "--oversubscribe", "--runs", "3", "--out", out("mpi_set"), mpi=2)
    expect(done.returncode == 0 and "olympic mean" in done.stdout, "three runs over MPI", done)
    done = run("run", suite(), "--backend", "reference", "--oversubscribe", "--trace", out("mpi_trace.json"), "--out",
               out("mpi_traced"), mpi=2)
    with open(out("mpi_trace.json"), encoding="utf-8") as file:
        ranks = {event["pid"] for event in json.load(file)["traceEvents"]}
    expect(ranks == {0, 1}, "the trace over MPI has both ranks", done)


def no_result(what, folder):
    """Nothing that was left behind can be taken for a result."""
    expect(not os.path.exists(out(folder + "/record.json")), f"{what}: no record")
    if os.path.exists(out(folder + "/result_0.txt")):
        with open(out(folder + "/result_0.txt"), encoding="utf-8") as file:
            expect('"success"' not in file.read(), f"{what}: the log does not look like a result")
        done = run("score", out(folder))
        expect(done.returncode == NOT_VALID and "Score  none" in done.stdout,
               f"{what}: no score of it", done)


def faults_in_one_rank():
    if not ARGUMENTS.faulty:
        return
    program = os.path.abspath(ARGUMENTS.faulty)
    host = os.uname().nodename
    long = suite("long", training__steps=100000, run__target__value=0.01, run__evaluate_every=0)
    worlds = [("threads", "reference", 0), ("mpi", "reference", 3)]
    for world, backend, mpi in worlds if ARGUMENTS.mpi else worlds[:1]:
        def planted(what, fault, *parts, ranks=3, strategy="data", timeout="60", within=20, code=None):
            name = f"planted_{world}_{fault.replace(' ', '_')}"
            done = run("run", long, "--backend", backend, "--world", world, *([] if mpi else ["--ranks", str(ranks)]), "--threads",
                       "1", "--oversubscribe", "--strategy", strategy, "--timeout", timeout, "--set", "training.batch_size=6", "--out",
                       out(name), env={"QUADRILLE_PLANTED": fault}, mpi=ranks if mpi else 0, program=program)
            what = f"{what}, world {world}"
            if code is None:
                expect(done.returncode not in (0, BAD_INPUT, NOT_REACHED, DIVERGED), f"{what}: ends in failure", done)
                expect(done.stderr.count("error: ") == 1 and done.stderr.startswith("quadrille: error: rank ")
                       and done.stderr.count("\n") == 1, f"{what}: exactly one message", done)
                no_result(what, name)
            else:
                expect(done.returncode == code, f"{what}: ends with {code}", done)
                expect(done.stderr == "" or (code == KILLED and "SIGTERM" in done.stderr and done.stderr.count("\n") == 1),
                       f"{what}: nothing on the error stream but what the launcher did", done)
            expect(done.seconds < within, f"{what}: within {within} s, took {done.seconds:.1f}", done)
            for part in parts:
                expect(part in done.stderr, f"{what}: says '{part}'", done)
            return done, name

        for rank in range(3):
            planted("an error", f"throw {rank} 40", f"rank {rank} on {host}: the last wheel came off")
        planted("no memory", "no_memory 1 40", f"rank 1 on {host}: ")
        for rank in (0, 2):
            planted("sleep", f"sleep {rank} 40", f" on {host}: all_reduce of ", ", number ", " in group data waited 1 s and gave up",
                    f"rank {rank} had not arrived", timeout="1")
        planted("sleep in a tensor group", "sleep 1 40", f"rank 0 on {host}: all_reduce", "in group x waited 1 s",
                "rank 1 had not arrived", timeout="1", ranks=2, strategy="tensor")
        planted("a message left out", "skip 1 41", f" on {host}: the ranks of group data disagree about message number 41", "rank 1 called all_reduce of ")
        done, name = planted("not a number in one rank's loss", "nan 1 7 3", code=DIVERGED)
        expect(done.stdout.count("diverged") >= 1 and done.stdout.count("SCORE") == 1, "the screen says diverged", done)
        record = read_record(name)
        expect(record["stop_reason"] == "diverged" and not record["verdict"]["valid"] and "seconds_to_target" not in record,
               "the record says diverged")
        expect([s["step"] for s in record["steps"]][-2:] == [7, 8] and not record["steps"][6].get("finite", True),
               f"all ranks stop at the report after the step: {record['steps'][-2:]}")
        done, name = planted("not a number in one rank's gradient", "nan 2 40", code=DIVERGED)
        expect(read_record(name)["stop_reason"] == "diverged", "the record says diverged after a bad gradient")
        if mpi:  # who is killed says nothing; the launcher ends the others
            _, name = planted("a killed rank", "killed 1 40", code=KILLED)
            no_result("a killed rank", name)


def checks():
    """quadrille check and run --check-replicas: right programs pass, and what is wrong is named."""
    done = run("check", "--layouts", "--ranks", "1", "--backend", "reference", seconds=600)
    expect(done.returncode == 0 and "All " in done.stdout and "equal the serial run" in done.stdout and "WRONG" not in done.stdout
           and done.stdout.count(" equal  ") > 5, "check of one rank, a line for each layout", done)
    for words, parts in (([], ["--layouts"]), (["--layouts", "gtp", "--ranks", "2"], ["gtp", "gpt"]), (["--layouts", "--world", "mpi"], ["mpirun"])):
        refused("check " + " ".join(words), ["check", *words], *parts)
    if ARGUMENTS.mpi:
        done = run("check", "--layouts", "--backend", "reference", mpi=2, seconds=600)
        expect(done.returncode == 0 and "equal the serial run" in done.stdout and "(mpi)" in done.stdout, "check over MPI", done)
    if not ARGUMENTS.faulty:
        return
    program = os.path.abspath(ARGUMENTS.faulty)
    done = run("check", "--layouts", "--ranks", "2", "--backend", "reference", program=program, seconds=600,
               env={"QUADRILLE_PLANTED": "throw 1 1"})
    expect(done.returncode == FAILURE and "WRONG" in done.stdout and "the last wheel came off" in done.stdout
           and "layouts are WRONG" in done.stdout, "check of a wrong program", done)
    words = ["run", suite(), "--backend", "reference", "--ranks", "2", "--threads", "1", "--oversubscribe", "--strategy", "data"]
    done = run(*words, "--check-replicas", "1", "--out", out("replicas"))
    expect("replicas    compared " in done.stdout and read_record("replicas")["replica_comparisons"] > 1, "replicas that agree", done)
    done = run(*words, "--check-replicas", "2", "--out", out("drift"), program=program, env={"QUADRILLE_PLANTED": "drift 1 9"})
    expect(done.returncode == FAILURE and "replicas of table along data" in done.stderr
           and "rank 1 differs from rank 0" in done.stderr, "a replica that drifts", done)
    no_result("a replica that drifts", "drift")


def interruptions():
    """SIGINT and SIGTERM in the middle of a run: one message, no result, within a moment."""
    global count
    long = suite("long", training__steps=1000000, run__target__value=0.01, run__evaluate_every=0)
    cases = [("threads", ["--ranks", "1"], []), ("threads", ["--ranks", "2"], [])]
    if ARGUMENTS.mpi:
        cases.append(("mpi", [], [ARGUMENTS.mpi, "--quiet", "-n", "2"]))
    for number, (world, words, launcher) in enumerate(cases):
        for kind in (signal.SIGINT, signal.SIGTERM):
            what = f"{kind.name} {world} {' '.join(words)}"
            name = f"interrupted_{number}_{kind.name}"
            count += 1
            process = subprocess.Popen([*launcher, PROGRAM, "run", long, "--backend", "reference", "--world", world, *words,
                                        "--oversubscribe", "--out", out(name)], cwd=WORK, stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE, text=True)
            begin = time.monotonic()
            log = out(name + "/result_0.txt")
            while time.monotonic() < begin + 20:  # until it trains
                if os.path.exists(log) and "block_start" in open(log, encoding="utf-8").read():
                    break
                time.sleep(0.05)
            begin = time.monotonic()
            process.send_signal(kind)
            try:
                _, errors = process.communicate(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
                _, errors = process.communicate()
            seconds = time.monotonic() - begin
            expect(process.returncode != 0 and seconds < 10, f"{what}: ended with {process.returncode} after {seconds:.1f} s")
            expect(errors.count("quadrille: error: ") == 1 and errors.count("\n") == 1 and "interrupted by SIG" in errors,
                   f"{what}: one message, not {errors!r}")
            no_result(what, name)


def information():
    done = run("list")
    expect(done.returncode == 0 and "gpt_tiny" in done.stdout and "data_tensor" in done.stdout, "list", done)
    done = run("info")
    expect(done.returncode == 0 and "usable cores" in done.stdout and "fmt" in done.stdout, "info", done)
    done = run("--help")
    expect(done.returncode == 0 and "Exit codes" in done.stdout, "help", done)
    done = run("plan", "llama31_8b", "--ranks", "8", "--strategy", "tensor", "--backend", "reference", seconds=600)
    expect(done.returncode == 0 and "a run would be refused" in done.stdout and "C4" in done.stdout, "plan without data", done)


for part in (good_runs, short_deadlines, sets_of_runs, other_endings, suites_and_options, bad_data, below_the_data_folder, over_mpi, faults_in_one_rank, checks, interruptions, information):
    if ARGUMENTS.only not in (None, part.__name__):
        continue
    begin = time.monotonic()
    part()
    print(f"{part.__name__}: {time.monotonic() - begin:.1f} s")
shutil.rmtree(WORK)
print(f"{count} runs of the program, {len(failures)} failures")
sys.exit(1 if failures else 0)
