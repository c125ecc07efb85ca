// SPDX-License-Identifier: Apache-2.0
// Samples as a pure function of their number. A dataset knows no ranks and no devices: whoever asks for rows [a, b) of
// step k gets the same numbers whatever the layout. Ids and labels are checked against the vocabulary as they are read.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"
#include "core/random.h"
#include "core/slice.h"
#include "datasets/field.h"

namespace quadrille {

// The numbers of one field, row after row: those of its type, the other array is empty.
struct FieldRows {
  Field field;
  std::vector<std::int32_t> integers;
  std::vector<float> numbers;
};

struct Sample {
  std::int64_t epoch = 0, index = 0;  // index -1: none, a row of padding
};

// Rows [first_row, first_row + rows) of one micro-batch. A label of -1 is not counted.
struct Batch {
  std::int64_t first_row = 0, rows = 0;
  std::int64_t padded_rows = 0;  // past the end of the data: integers are -1, other numbers 0
  std::vector<FieldRows> fields;
  std::vector<Sample> samples;  // of the rows
  // Throw Error naming the fields there are. Of a batch about to go: a copy.
  const std::vector<std::int32_t>& integers(std::string_view field) const&;
  const std::vector<float>& numbers(std::string_view field) const&;
  std::vector<std::int32_t> integers(std::string_view field) const&& { return integers(field); }
  std::vector<float> numbers(std::string_view field) const&& { return numbers(field); }
};

// Room for the numbers of one row of a batch. Different rows may be filled by different threads.
class Row {
 public:
  Row(Batch& batch, std::int64_t row) : batch_(batch), row_(row) {}
  std::span<std::int32_t> integers(std::string_view field) const;
  std::span<float> numbers(std::string_view field) const;
  void pad() const;

 private:
  Batch& batch_;
  std::int64_t row_;
};

class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual Fields fields() const = 0;      // of a row; one is "labels"
  virtual std::int64_t size() const = 0;  // samples in one pass
  // Whether one pass has at least so many samples: told from the sizes of files where these decide it. Text whose ids
  // must be made is otherwise encoded as far as needed, and that is forgotten again: a run does it within its time.
  virtual bool holds(std::int64_t samples) const { return size() >= samples; }
  virtual std::string needed(std::int64_t samples) const;  // what so many would take: "8 x 10 + 1 = 81 tokens"
  virtual std::int64_t vocabulary() const = 0;             // labels, and ids of words, are below this
  // What the labels of one whole pass stand for, so that nats per token become nats per character: e.g. 466,853.
  // The pass counts labels() labels.
  virtual double units() const = 0;
  virtual std::string unit() const = 0;     // "character", "token" or "image"
  virtual std::int64_t labels() const = 0;  // labels that count in one pass
  // Sample `index` of pass `epoch`. Training sets may change a sample from pass to pass: text moves its cut, images
  // their crop. May be called by several threads at once. Throws Error naming file and place of what is wrong there.
  virtual void read(std::int64_t epoch, std::int64_t index, const Row&) const = 0;
  // Reads and checks everything once (files below 64 MiB right after the clock starts).
  virtual void scan() const = 0;
  virtual Json description() const = 0;  // files, sizes, checksums, tokenizer: for the record
};

// Rows `rows` of training step `step` (from 0) with `batch_size` rows a step: row n = step*batch_size + row is sample
// Permutation(seed, epoch)(n mod size) of epoch n / size, so that each pass sees each sample once.
Sample training_sample(std::int64_t size, std::uint64_t seed, std::int64_t n);
std::vector<Sample> training_samples(std::int64_t size, std::uint64_t seed, std::int64_t step, std::int64_t batch_size,
                                     Slice rows);
// Rows in order, nothing shuffled: row r is sample first_sample + r; rows past the end are padding.
std::vector<Sample> evaluation_samples(std::int64_t size, std::int64_t first_sample, Slice rows);

Batch room_for_rows(const Dataset&, std::int64_t rows);
// Says what the rows of this room are to be; its numbers stay what they were until they are read.
void assign_samples(Batch&, std::int64_t first_row, std::vector<Sample>);
// Reads row `row` of the batch, counted from its first. Different rows may be read by different threads.
void read_row(const Dataset&, Batch&, std::int64_t row);

// All of it at once.
Batch training_batch(const Dataset&, std::uint64_t seed, std::int64_t step, std::int64_t batch_size, Slice rows);
Batch evaluation_batch(const Dataset&, std::int64_t first_sample, Slice rows);
Batch single_sample(const Dataset&, std::int64_t epoch, std::int64_t index);

// Throws Error with the equation when one pass holds fewer samples than one step takes. For whoever knows the batch
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
//   {"source": "synthetic_images", "height": 32, ...}   (synthetic_images.h)
//   {"source": "bert_text" | "bert_tfrecord", ...}   (bert.h)
//   {"source": "pairs", ...}   (pairs.h)
//   {"source": "idx" | "cifar10", "directory": ..., "train": [...], "evaluate": [...], "classes": 10, ...}   (images.h)
//   {"source": "jpeg_folders", ...}   (jpeg_folders.h)
// "evaluate" may be left out (null below), except that synthetic text always has it. Characters are what text is
// measured in (all characters of the labels), whatever the tokenizer; tokens where only ids are known.
struct Datasets {
  std::unique_ptr<Dataset> train, evaluate;  // evaluate: null when the configuration names none
  Json resolved;                             // the configuration with every default, for the record
};
// `data_root`: where fetched data lies (the --data option, default "data"). Reads names, sizes, headers and manifests;
// the text itself only where it decides the vocabulary and neither manifest nor cache knows (compact, bpe).
// `tokens_per_window`: of text; 0 where the model has none.
Datasets open_datasets(const Json& config, std::int64_t tokens_per_window, const std::string& data_root);

}  // namespace quadrille
