#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Products and attention of a GPT in PyTorch on a GPU, at the shapes and under the names of ops_bench: one JSON object a
line. Usage: torch_ops.py [--model gpt2_124m|gpt2_1558m] [--dtype bf16|f32|tf32] [--seconds 0.1]
"""
import argparse
import json
import statistics
import time

import torch
import torch.nn.functional as F

MODELS = {"gpt2_124m": (32, 1024, 12, 64, 50304), "gpt2_1558m": (16, 1024, 25, 64, 50304)}


def seconds_of(call, batch_seconds):
    def batch(calls):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(calls):
            call()
        torch.cuda.synchronize()
        return time.perf_counter() - begin

    call()
    calls = 1
    while (took := batch(calls)) < batch_seconds:
        calls = max(calls + 1, min(10 * calls, int(1.2 * calls * batch_seconds / max(took, 1e-9))))
    return statistics.median(batch(calls) / calls for _ in range(5))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=MODELS, default="gpt2_124m")
    parser.add_argument("--dtype", choices=("bf16", "f32", "tf32"), default="bf16")
    parser.add_argument("--seconds", type=float, default=0.1)
    options = parser.parse_args()
    rows, tokens, heads, head, words = MODELS[options.model]
    width, all_tokens = heads * head, rows * tokens
    torch.backends.cuda.matmul.allow_tf32 = options.dtype == "tf32"
    kind = torch.bfloat16 if options.dtype == "bf16" else torch.float32

    def report(name, seconds, flops):
        print(json.dumps({"op": name, "backend": "torch " + torch.__version__, "dtype": options.dtype, "model": options.model,
                          "seconds": seconds, "flops_per_second": flops / seconds}), flush=True)

    def numbers(*shape, grad=False):
        return torch.randn(*shape, device="cuda", dtype=kind, requires_grad=grad)

    for name, inner, outer in (("qkv", width, 3 * width), ("project", width, width), ("up", width, 4 * width),
                               ("down", 4 * width, width), ("head", width, words)):
        x, dy, w = numbers(all_tokens, inner), numbers(all_tokens, outer), numbers(outer, inner)
        flops = 2.0 * all_tokens * inner * outer
        report(f"gemm/{name}/forward", seconds_of(lambda: F.linear(x, w), options.seconds), flops)
        report(f"gemm/{name}/input_gradient", seconds_of(lambda: dy @ w, options.seconds), flops)
        report(f"gemm/{name}/weight_gradient", seconds_of(lambda: dy.T @ x, options.seconds), flops)
        del x, dy, w
    q, k, v = (numbers(rows, heads, tokens, head, grad=True) for _ in range(3))
    flops = 4.0 * rows * heads * tokens * tokens * head  # all pairs; a causal kernel does half
    out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    grad = torch.randn_like(out)
    with torch.no_grad():
        forward = seconds_of(lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True), options.seconds)
    report("attention/forward", forward, flops)
    backward = seconds_of(lambda: torch.autograd.grad(out, (q, k, v), grad, retain_graph=True), options.seconds)
    report("attention/backward", backward, 2.5 * flops)


main()
