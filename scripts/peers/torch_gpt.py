#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A suite's GPT in PyTorch: prints the seconds of each timed training step, one a line, the first steps left out.

Reads the same JSON as the program (benchmarks/suites/NAME.json): pre-norm decoder with packed QKV, erf GELU, learned
positions, tied head without bias, AdamW, no dropout. On processors attention is written out, as eager PyTorch of that
time did it; on GPUs it is scaled_dot_product_attention, the optimizer is fused, and with --dtype bf16 weights stay f32
and autocast does the rest, which is how PyTorch trains in bf16.
"""
import argparse
import contextlib
import json
import math
import pathlib
import time

import torch
import torch.nn.functional as F
from torch import nn


class Layer(nn.Module):
    def __init__(self, m, written_out):
        super().__init__()
        embed = m["embed"]
        self.heads, self.written_out = m["heads"], written_out
        self.norm1, self.norm2 = nn.LayerNorm(embed), nn.LayerNorm(embed)
        self.qkv, self.proj = nn.Linear(embed, 3 * embed), nn.Linear(embed, embed)
        self.up, self.down = nn.Linear(embed, m["mlp"]), nn.Linear(m["mlp"], embed)
        if written_out:
            self.register_buffer("mask", torch.triu(torch.full((m["tokens"], m["tokens"]), -1e9), 1))

    def attention(self, q, k, v):
        if not self.written_out:
            return F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return F.softmax(q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1]) + self.mask, -1) @ v

    def forward(self, x):
        rows, tokens, embed = x.shape
        parts = self.qkv(self.norm1(x)).split(embed, 2)
        q, k, v = (t.view(rows, tokens, self.heads, embed // self.heads).transpose(1, 2) for t in parts)
        x = x + self.proj(self.attention(q, k, v).transpose(1, 2).reshape(rows, tokens, embed))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Gpt(nn.Module):
    def __init__(self, m, written_out):
        super().__init__()
        self.table, self.positions = nn.Embedding(m["vocabulary"], m["embed"]), nn.Embedding(m["tokens"], m["embed"])
        self.layers = nn.Sequential(*[Layer(m, written_out) for _ in range(m["layers"])])
        self.norm, self.head = nn.LayerNorm(m["embed"]), nn.Linear(m["embed"], m["vocabulary"], bias=False)
        self.head.weight = self.table.weight

    def forward(self, ids, labels):
        logits = self.head(self.norm(self.layers(self.table(ids) + self.positions.weight)))
        return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), labels.reshape(-1))


def optimizer_of(model, settings, device):
    """As the program does it: weights of matrices and tables decay, norms and biases do not, unless all do."""
    decay = settings["weight_decay"]
    groups = [{"params": list(model.parameters()), "weight_decay": decay}]
    if not settings.get("decay_all", False):
        groups = [{"params": [p for p in model.parameters() if p.dim() > 1], "weight_decay": decay},
                  {"params": [p for p in model.parameters() if p.dim() < 2], "weight_decay": 0.0}]
    extra = {"fused": True} if device == "cuda" else {}
    return torch.optim.AdamW(groups, lr=1e-4, betas=(settings["beta1"], settings["beta2"]), eps=settings["epsilon"], **extra)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--suite", default="gpt_peer")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--warm-up", type=int, default=2)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--dtype", choices=("f32", "tf32", "bf16"), default="f32")
    parser.add_argument("--compile", action="store_true")
    options = parser.parse_args()
    suite = json.loads((pathlib.Path(__file__).parents[2] / f"benchmarks/suites/{options.suite}.json").read_text())
    model_of, training = suite["model"], suite["training"]
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    gpu = options.device == "cuda"
    if gpu:
        torch.backends.cuda.matmul.allow_tf32 = options.dtype == "tf32"
    model = Gpt(model_of, written_out=not gpu).to(options.device)
    optimizer = optimizer_of(model, training["optimizer"], options.device)
    clip = training.get("clip_norm", 0)
    call = torch.compile(model) if options.compile else model
    precision = torch.autocast(options.device, torch.bfloat16) if options.dtype == "bf16" else contextlib.nullcontext()
    ids = torch.randint(0, model_of["vocabulary"], (training["batch_size"], model_of["tokens"] + 1), device=options.device)
    inputs, labels = ids[:, :-1].contiguous(), ids[:, 1:].contiguous()
    for step in range(options.steps + options.warm_up):
        begin = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        with precision:
            loss = call(inputs, labels)
        loss.backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        loss.item()  # waits for the device
        if step >= options.warm_up:
            print(f"{time.perf_counter() - begin:.5f}", flush=True)


main()
