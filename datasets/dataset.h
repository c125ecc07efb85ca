// SPDX-License-Identifier: Apache-2.0
// Samples as a pure function of their number. A dataset knows no ranks and no devices: whoever asks for rows [a, b) of
// step k gets the same numbers whatever the layout. Ids are checked against the vocabulary as they are read.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/json.h"
#include "core/random.h"
#include "core/slice.h"

namespace quadrille {

// Rows [first_row, first_row + rows) of one micro-batch; each row has `tokens` ids and as many labels (-1: not
// counted).
struct Batch {
  std::int64_t first_row = 0, rows = 0, tokens = 0;
  std::int64_t padded_rows = 0;           // rows past the end of the data: all labels -1
  std::vector<std::int32_t> ids, labels;  // [rows, tokens]
};

// Text cut into windows of `tokens` ids, the labels being the ids one further on.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual std::int64_t size() const = 0;  // windows in one pass
  // Whether one pass has at least so many windows: told from the sizes of files where these decide it. Text whose ids
  // must be made is otherwise encoded as far as needed, and that is forgotten again: a run does it within its time.
  virtual bool holds_windows(std::int64_t windows) const { return size() >= windows; }
  virtual std::int64_t tokens() const = 0;      // ids per window
  virtual std::int64_t vocabulary() const = 0;  // ids are below this
  // What the labels of one whole pass stand for, so that nats per token become nats per character: e.g. 466,853.
  // The pass counts labels() labels.
  virtual double units() const = 0;
  virtual std::string unit() const = 0;     // "character" or "token"
  virtual std::int64_t labels() const = 0;  // labels that count in one pass
  // Window `index` of pass `epoch`. Training sets move the cut from epoch to epoch; epoch 0 starts at token 0.
  // Throws Error naming file, token position, id and vocabulary when an id is too large.
  virtual void read(std::int64_t epoch, std::int64_t index, std::span<std::int32_t> ids,
                    std::span<std::int32_t> labels) const = 0;
  // Reads and checks everything once (files below 64 MiB right after the clock starts).
  virtual void scan() const = 0;
  virtual Json description() const = 0;  // files, sizes, checksums, tokenizer: for the record
};

// Rows `rows` of training step `step` (from 0) with `batch_size` rows a step: sample n = step*batch_size + row is
// window Permutation(seed, epoch)(n mod size) of epoch n / size, so that each pass sees each window once.
struct Window {
  std::int64_t epoch = 0, index = 0;
};
Window training_window(std::int64_t windows, std::uint64_t seed, std::int64_t sample);
Batch training_batch(const Dataset&, std::uint64_t seed, std::int64_t step, std::int64_t batch_size, Slice rows);
// Rows in order, nothing shuffled: row r is window first_window + r; rows past the end are padding.
Batch evaluation_batch(const Dataset&, std::int64_t first_window, Slice rows);

// Throws Error with the equation when one pass holds fewer windows than one step takes. For whoever knows the batch
// size.
void require_one_batch(const Dataset&, std::int64_t batch_size);

// The two sets that a configuration names. config: the "data" object of a workload, one of
//   {"source": "text", "directory": "austen", "train": ["emma.txt", ...], "evaluate": ["persuasion.txt"],
//    "tokenizer": {"kind": "byte", "alphabet": "full" | "compact"} | {"kind": "bpe", "vocabulary": 512} |
//                 {"kind": "gpt2", "merges": "vocab.bpe"},
//    "documents": "files" | "blank_lines", "end_of_text": false}
//   {"source": "llmc" | "megatron" | "nanogpt", "directory": ..., "train": "x.bin", "evaluate": "y.bin", "vocabulary":
//   50257}
//   {"source": "synthetic", "vocabulary": 32, ...}   (synthetic.h)
// "evaluate" may be left out (null below), except that synthetic text always has it. Characters are what text is
// measured in (all characters of the labels), whatever the tokenizer; tokens where only ids are known.
struct Datasets {
  std::unique_ptr<Dataset> train, evaluate;  // evaluate: null when the configuration names none
  Json resolved;                             // the configuration with every default, for the record
};
// `data_root`: where fetched data lies (the --data option, default "data"). Reads names, sizes, headers and manifests;
// the text itself only where it decides the vocabulary and neither manifest nor cache knows (compact, bpe).
Datasets open_datasets(const Json& config, std::int64_t tokens_per_window, const std::string& data_root);

}  // namespace quadrille
