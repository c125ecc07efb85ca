#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The model of benchmarks/suites/gpt_peer.json in eager PyTorch: prints the seconds of each timed training step, one a line.

Pre-norm decoder, packed QKV, additive causal mask, erf GELU, learned positions, tied head without bias, AdamW on all
parameters, no dropout. Usage: torch_gpt.py [--threads N] [--steps K]
"""
import argparse
import math
import time

import torch
import torch.nn.functional as F
from torch import nn

LAYERS, EMBED, HEADS, TOKENS, WORDS, ROWS = 6, 384, 6, 256, 8192, 8


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(EMBED), nn.LayerNorm(EMBED)
        self.qkv, self.proj = nn.Linear(EMBED, 3 * EMBED), nn.Linear(EMBED, EMBED)
        self.up, self.down = nn.Linear(EMBED, 4 * EMBED), nn.Linear(4 * EMBED, EMBED)
        self.register_buffer("mask", torch.triu(torch.full((TOKENS, TOKENS), -1e9), 1))

    def forward(self, x):
        rows, tokens, embed = x.shape
        q, k, v = (t.view(rows, tokens, HEADS, embed // HEADS).transpose(1, 2) for t in self.qkv(self.norm1(x)).split(embed, 2))
        weights = F.softmax(q @ k.transpose(-2, -1) / math.sqrt(embed // HEADS) + self.mask, -1)
        x = x + self.proj((weights @ v).transpose(1, 2).reshape(rows, tokens, embed))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.positions = nn.Embedding(WORDS, EMBED), nn.Embedding(TOKENS, EMBED)
        self.layers = nn.Sequential(*[Layer() for _ in range(LAYERS)])
        self.norm, self.head = nn.LayerNorm(EMBED), nn.Linear(EMBED, WORDS, bias=False)
        self.head.weight = self.table.weight

    def forward(self, ids):
        return self.head(self.norm(self.layers(self.table(ids) + self.positions.weight)))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--steps", type=int, default=6)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    model = Gpt()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)
    ids = torch.randint(0, WORDS, (ROWS, TOKENS + 1))
    for step in range(options.steps + 2):  # the first two warm up
        begin = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(model(ids[:, :-1]).reshape(-1, WORDS), ids[:, 1:].reshape(-1))
        loss.backward()
        optimizer.step()
        loss.item()
        if step >= 2:
            print(f"{time.perf_counter() - begin:.4f}", flush=True)


main()
