#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures what can be reached without a neural network, on the very files, vocabulary and metric of a suite.

  floors.py ngram    data/austen --train emma.txt ... --evaluate persuasion.txt   nats a character, contexts of 0 to 5
  floors.py masked   data/sotu --train sotu.txt --every 10 --tokenizer bpe-4093-*.merges | vocab.txt
  floors.py ibm1     data/libreoffice_help --quadrille build/cpu/quadrille        BLEU of copying and of IBM model 1
  floors.py softmax  data/fashion_mnist                                           accuracy of one linear layer (numpy)

Prints one JSON row as in results/floors.json; --store FILE puts it there in place of the row of the same data and metric.
All of them are deterministic.
"""
import argparse
import collections
import gzip
import json
import math
import re
import struct
import subprocess
import sys
import tempfile
import unicodedata
from pathlib import Path


def ngram(train, evaluate, order):
    """Interpolated Witten-Bell: p(c|h) = (n(hc) + t(h) p(c|h')) / (n(h) + t(h)), t the number of different successors."""
    counts = [collections.defaultdict(collections.Counter) for _ in range(order + 1)]
    for text in train:
        for n in range(order + 1):
            table = counts[n]
            for i in range(n, len(text)):
                table[text[i - n:i]][text[i]] += 1
    totals = [{h: sum(c.values()) for h, c in table.items()} for table in counts]
    alphabet = len({c for text in train + evaluate for c in text})
    sums, labels = [0.0] * (order + 1), 0
    for text in evaluate:
        for i in range(1, len(text)):  # as a run counts: the first character is nobody's label
            labels += 1
            p = 1 / alphabet
            for n in range(order + 1):
                seen = counts[n].get(text[i - n:i]) if n <= i else None
                if seen:
                    total, kinds = totals[n][text[i - n:i]], len(seen)
                    p = (seen.get(text[i], 0) + kinds * p) / (total + kinds)
                sums[n] -= math.log(p)
    return [s / labels for s in sums]


def bert_words(text):
    """What WordPiece splits into words, for text without controls and CJK: the rules of docs/data.md."""
    text = "".join(c for c in unicodedata.normalize("NFD", text.lower()) if unicodedata.category(c) != "Mn")
    words, word = [], ""
    for c in text:
        alone = unicodedata.category(c)[0] == "P" or (32 < ord(c) < 127 and not c.isalnum())
        if c.isspace() or alone:
            words += [word] if word else []
            word = ""
            words += [c] if alone else []
        else:
            word += c
    return words + ([word] if word else [])


class WordPiece:
    marks = 0  # among the pieces

    def __init__(self, path):
        self.ids = {piece: i for i, piece in enumerate(path.read_text(encoding="utf-8").split("\n")[:-1])}
        self.size = len(self.ids)
        self.cache = {}

    def word(self, word):
        ids, start = [], 0
        while start < len(word):
            for end in range(len(word), start, -1):
                piece = ("##" if start else "") + word[start:end]
                if piece in self.ids:
                    ids.append(self.ids[piece])
                    start = end
                    break
            else:
                return [self.ids["[UNK]"]]
        return ids

    def encode(self, text):
        out = []
        for word in bert_words(text):
            if word not in self.cache:
                self.cache[word] = self.word(word)
            out += self.cache[word]
        return out


class BytePairs:
    """Merges that a run has learned and kept beside the text."""
    marks = 3  # [CLS] [SEP] [MASK]
    # A word with one space before it; bytes from 0x80 are letters (datasets/words.h).
    split = re.compile(rb" ?[A-Za-z\x80-\xff]+| ?[0-9]+| ?[^ \t-\rA-Za-z0-9\x80-\xff]+|[ \t-\r]+(?![^ \t-\r])|[ \t-\r]+")

    def __init__(self, path):
        lines = path.read_text().splitlines()[1:-1]
        self.merges = {tuple(map(int, line.split())): i for i, line in enumerate(lines)}
        self.size = 256 + len(lines) + self.marks
        self.cache = {}

    def word(self, word):
        ids = list(word)
        while len(ids) > 1:
            rank, at = min((self.merges.get((a, b), math.inf), i) for i, (a, b) in enumerate(zip(ids, ids[1:])))
            if rank == math.inf:
                break
            ids[at:at + 2] = [256 + rank]
        return ids

    def encode(self, text):
        out = []
        for word in self.split.findall(text.encode()):
            if word not in self.cache:
                self.cache[word] = self.word(word)
            out += self.cache[word]
        return out


def masked(documents, every, tokenizer):
    """Guess a piece from its neighbours: the most frequent one between them, after the left one, or at all."""
    parts = {True: [], False: []}
    for number, lines in enumerate(documents):
        parts[number % every == every - 1].append([i for line in lines for i in tokenizer.encode(line)])
    single, left, both = collections.Counter(), collections.defaultdict(collections.Counter), collections.defaultdict(collections.Counter)
    for ids in parts[False]:
        single.update(ids)
        for a, b in zip(ids, ids[1:]):
            left[a][b] += 1
        for a, b, c in zip(ids, ids[1:], ids[2:]):
            both[a, c][b] += 1
    best = lambda counter: max(counter.items(), key=lambda item: (item[1], -item[0]))[0]
    most, after = best(single), {a: best(c) for a, c in left.items()}
    between = {ac: best(c) for ac, c in both.items()}
    total, right, nats, pieces = sum(single.values()) + tokenizer.size, [0, 0, 0], 0.0, 0
    for ids in parts[True]:
        for a, b, c in zip(ids, ids[1:], ids[2:]):
            pieces += 1
            nats -= math.log((single[b] + 1) / total)
            guess = after.get(a, most)
            right[0] += b == most
            right[1] += b == guess
            right[2] += b == between.get((a, c), guess)
    return nats / pieces, [r / pieces for r in right], pieces


def words_of(line):
    return re.findall(r"\w+|[^\w\s]", line)


def ibm1(pairs, rounds):
    """Translation probabilities t(target | source) by expectation and maximisation (Brown et al. 1993), with NULL."""
    data = [(["", *words_of(s)], words_of(t)) for s, t in pairs]
    table = collections.defaultdict(dict)
    for source, target in data:
        for s in source:
            for t in target:
                table[s][t] = 1.0
    for s in table:
        table[s] = dict.fromkeys(table[s], 1 / len(table[s]))
    for _ in range(rounds):
        counts = {s: dict.fromkeys(row, 0.0) for s, row in table.items()}
        for source, target in data:
            rows = [(table[s], counts[s]) for s in source]
            for t in target:
                norm = sum(row[t] for row, _ in rows)
                for row, count in rows:
                    count[t] += row[t] / norm
        for s, count in counts.items():
            total = sum(count.values())
            table[s] = {t: c / total for t, c in count.items()}
    return {s: max(sorted(row), key=row.get) for s, row in table.items() if s}


def written(words):
    """Tokens as plain text: no space before closing signs or after opening ones."""
    text = " ".join(words)
    text = re.sub(r" ([.,;:!?)\]%])", r"\1", text)
    return re.sub(r"([(\[]) ", r"\1", text)


def bleu(program, hypotheses, references):
    with tempfile.TemporaryDirectory() as folder:
        said, wanted = Path(folder, "said"), Path(folder, "wanted")
        said.write_text("".join(line + "\n" for line in hypotheses), encoding="utf-8")
        wanted.write_text("".join(line + "\n" for line in references), encoding="utf-8")
        line = subprocess.run([program, "bleu", "--hypotheses", said, "--references", wanted], check=True,
                              capture_output=True, text=True).stdout
    return float(re.match(r"BLEU = ([0-9.]+)", line).group(1)), line.split()[-1]


def idx(path):
    content = path.read_bytes()
    content = gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content
    return content[4 + 4 * content[3]:], struct.unpack_from(f">{content[3]}i", content, 4)


def softmax(folder, epochs):
    try:
        import numpy as np
    except ImportError:
        sys.exit("floors.py softmax: numpy is missing: install python3-numpy")

    def load(stem):
        pixels, (count, height, width) = idx(folder / f"{stem}-images-idx3-ubyte.gz")
        labels, _ = idx(folder / f"{stem}-labels-idx1-ubyte.gz")
        x = np.frombuffer(pixels, np.uint8).reshape(count, height * width).astype(np.float64) / 255
        return x, np.frombuffer(labels, np.uint8).astype(np.int64)

    (x, y), (test, wanted) = load("train"), load("t10k")
    mean = x.mean(0)
    x, test = x - mean, test - mean
    centres = np.stack([x[y == k].mean(0) for k in range(10)])
    centroid = (((test[:, None, :] - centres) ** 2).sum(2).argmin(1) == wanted).mean()
    weights, bias, random = np.zeros((x.shape[1], 10)), np.zeros(10), np.random.default_rng(1)
    for epoch in range(epochs):
        order = random.permutation(len(x))
        for at in range(0, len(x), 100):
            rows = order[at:at + 100]
            logits = x[rows] @ weights + bias
            p = np.exp(logits - logits.max(1, keepdims=True))
            p /= p.sum(1, keepdims=True)
            p[np.arange(len(rows)), y[rows]] -= 1
            rate = 0.5 / (1 + epoch) / len(rows)
            weights -= rate * (x[rows].T @ p)
            bias -= rate * p.sum(0)
    return centroid, ((test @ weights + bias).argmax(1) == wanted).mean()


def documents_of(paths):
    documents = []
    for path in paths:
        lines = []
        for line in path.read_text(encoding="utf-8").split("\n") + [""]:
            if line.strip():
                lines.append(line.strip())
            elif lines:
                documents.append(lines)
                lines = []
    return documents


def plural(n):
    return f"{n} character{'' if n == 1 else 's'} of context"


def measure(options):
    folder = options.folder
    read = lambda names: [(folder / name).read_text(encoding="utf-8") for name in names]
    row = {"directory": folder.name, "evaluate": options.evaluate}
    if options.kind == "ngram":
        train = read(options.train)
        values = ngram(train, read(options.evaluate), 5)
        row.update(data=f"{folder.name}: evaluate on {', '.join(options.evaluate)}", metric="nats_per_character",
                   how=f"interpolated Witten-Bell n-gram over characters, counted on {sum(map(len, train)):,} characters",
                   floors=[{"name": f"n-gram, {plural(n)}", "value": round(v, 3)} for n, v in enumerate(values)])
    elif options.kind == "masked":
        path = folder / options.tokenizer
        tokenizer = BytePairs(path) if path.suffix == ".merges" else WordPiece(path)
        nats, right, pieces = masked(documents_of([folder / name for name in options.train]), options.every, tokenizer)
        row.update(data=f"{folder.name}: every {options.every}th document for evaluation, {tokenizer.size:,} pieces",
                   vocabulary=tokenizer.size, metric="accuracy" if options.metric == "accuracy" else "nats_per_token",
                   how=f"counted on the training documents, {pieces:,} pieces of the evaluation documents guessed with their "
                       "true neighbours (a run sees some of these masked)")
        if options.metric == "accuracy":
            names = ["always the most frequent piece", "left neighbour", "left and right neighbour"]
            row["floors"] = [{"name": n, "value": round(v, 4)} for n, v in zip(names, right)]
        else:
            row["floors"] = [{"name": "frequency of the piece, add one", "value": round(nats, 3)}]
    elif options.kind == "ibm1":
        split = lambda name: [line.split("\t") for line in read([name])[0].split("\n") if line]
        best, test = ibm1(split("train.tsv"), 5), split("test.tsv")
        references = [t for _, t in test]
        copied, signature = bleu(options.quadrille, [s for s, _ in test], references)
        translated, _ = bleu(options.quadrille, [written([best.get(w, w) for w in words_of(s)]) for s, _ in test], references)
        row.update(evaluate=["test.tsv"], data=f"{folder.name}: English to German, {len(test)} pairs of test.tsv",
                   metric="bleu", how=f"five rounds of IBM model 1 on train.tsv, word by word in the order of the source; {signature}",
                   floors=[{"name": "the source itself", "value": copied}, {"name": "IBM model 1", "value": translated}])
    else:
        centroid, linear = softmax(folder, 20)
        row.update(evaluate=["t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"], data="Fashion-MNIST: 10,000 test images", metric="accuracy",
                   how="pixels of the training images minus their mean; softmax: 20 epochs, batches of 100, rate 0.5/(1 + epoch)",
                   floors=[{"name": "nearest class mean", "value": round(float(centroid), 4)},
                           {"name": "linear softmax", "value": round(float(linear), 4)}])
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=["ngram", "masked", "ibm1", "softmax"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--train", nargs="+", default=[])
    parser.add_argument("--evaluate", nargs="+", default=[])
    parser.add_argument("--every", type=int, default=10)
    parser.add_argument("--tokenizer", default="vocab.txt", help="below FOLDER: a .merges file, else WordPieces")
    parser.add_argument("--metric", choices=["accuracy", "nats"], default="accuracy")
    parser.add_argument("--quadrille", default="build/cpu/quadrille")
    parser.add_argument("--store", type=Path)
    options = parser.parse_args()
    try:
        row = measure(options)
    except (OSError, ValueError, KeyError, subprocess.CalledProcessError) as error:
        sys.exit(f"floors.py {options.kind}: {error}. Fetch the data (quadrille data fetch) and name its folder")
    print(json.dumps(row, indent=1, ensure_ascii=False))
    if options.store:
        document = json.loads(options.store.read_text(encoding="utf-8"))
        key = lambda r: (r["directory"], r["evaluate"], r["metric"], r.get("vocabulary"))
        document["rows"] = [r for r in document["rows"] if key(r) != key(row)] + [row]
        options.store.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
