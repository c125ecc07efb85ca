// SPDX-License-Identifier: Apache-2.0
// BERT's samples from records that MLPerf's create_pretraining_data.py writes: masked beforehand, so every epoch sees
// the same. A file's lengths are walked when it is opened, a record is checked and taken apart when it is read.
#include <algorithm>
#include <filesystem>

#include "core/error.h"
#include "datasets/bert.h"
#include "datasets/text.h"
#include "datasets/tfrecord.h"

namespace quadrille {
namespace {

using Integers = std::vector<std::int64_t>;
using Files = std::vector<std::shared_ptr<const RecordFile>>;

class BertRecords : public Dataset {
 public:
  BertRecords(Files files, std::int64_t tokens, std::int64_t vocabulary)
      : files_(std::move(files)), tokens_(tokens), vocabulary_(vocabulary) {
    for (const auto& file : files_) size_ += file->size();
    const Example example = parse_example(files_[0]->record(0), files_[0]->name(0));
    const std::string name = files_[0]->name(0);
    masked_ = static_cast<std::int64_t>(integers_of(example, "masked_lm_positions", name).size());
    const auto found = static_cast<std::int64_t>(integers_of(example, "input_ids", name).size());
    require(found == tokens, "{} has {} input_ids, model.tokens is {}: set it to {}, or make records of that length",
            name, found, tokens, found);
    require(masked_ >= 1, "{} has no masked_lm_positions: nothing to predict", name);
  }
  Fields fields() const override { return bert_fields(tokens_, masked_); }
  std::int64_t size() const override { return size_; }
  std::int64_t vocabulary() const override { return vocabulary_; }
  double units() const override { return static_cast<double>(labels()); }
  std::string unit() const override { return "token"; }
  std::int64_t labels() const override {
    std::int64_t sum = 0;
    for (std::int64_t i = 0; i < size_; ++i) sum += counted(single_sample(*this, 0, i));
    return sum;
  }
  void read(std::int64_t epoch, std::int64_t index, const Row& row) const override;
  void scan() const override { labels(); }
  Json description() const override {
    Json json = Json::object(), files = Json::array();
    json.set("source", "bert_tfrecord");
    for (const auto& file : files_) {
      Json entry = Json::object();
      entry.set("file", file->path());
      entry.set("records", file->size());
      files.push(std::move(entry));
    }
    json.set("files", std::move(files));
    return json;
  }

 private:
  static std::int64_t counted(const Batch& batch) {
    return std::ranges::count_if(batch.integers("labels"), [](std::int32_t label) { return label >= 0; });
  }
  // The integers of `key`: so many, each from 0 to below `limit`.
  const Integers& list(const Example& example, const char* key, std::int64_t count, std::int64_t limit,
                       const std::string& name) const {
    const Integers& values = integers_of(example, key, name);
    require(static_cast<std::int64_t>(values.size()) == count, "{}: {} has {} numbers, {} were wanted, as in record 0",
            name, key, values.size(), count);
    for (std::size_t i = 0; i < values.size(); ++i)
      require(values[i] >= 0 && values[i] < limit,
              "{}: {}[{}] is {}, wanted 0 to {}: another vocabulary or length, or "
              "a damaged file",
              name, key, i, values[i], limit - 1);
    return values;
  }

  Files files_;
  std::int64_t tokens_, vocabulary_, size_ = 0, masked_ = 0;
};

void BertRecords::read(std::int64_t epoch, std::int64_t index, const Row& row) const {
  require(epoch >= 0 && index >= 0 && index < size_, "record {} of epoch {}: there are records 0 to {}", index, epoch,
          size_ - 1);
  std::size_t file = 0;
  while (index >= files_[file]->size()) index -= files_[file++]->size();
  const std::string name = files_[file]->name(index);
  const Example example = parse_example(files_[file]->record(index), name);
  const Integers& ids = list(example, "input_ids", tokens_, vocabulary_, name);
  const Integers& mask = list(example, "input_mask", tokens_, 2, name);
  const Integers& segments = list(example, "segment_ids", tokens_, 2, name);
  const Integers& places = list(example, "masked_lm_positions", masked_, tokens_, name);
  const Integers& labels = list(example, "masked_lm_ids", masked_, vocabulary_, name);
  const Integers& next = list(example, "next_sentence_labels", 1, 2, name);
  const auto found = example.find("masked_lm_weights");
  const auto* weights = found == example.end() ? nullptr : std::get_if<std::vector<float>>(&found->second);
  require(weights && weights->size() == places.size(), "{}: masked_lm_weights must be {} real numbers", name, masked_);
  const auto length = std::ranges::find(mask, 0) - mask.begin();
  require(std::all_of(mask.begin() + length, mask.end(), [](std::int64_t m) { return m == 0; }),
          "{}: input_mask has a 1 after a 0 at {}: padding stands at the end of a row", name, length);
  row.pad();
  for (std::ptrdiff_t i = 0; i < length; ++i) {
    const auto at = static_cast<std::size_t>(i);
    row.integers("ids")[at] = static_cast<std::int32_t>(ids[at]);
    row.integers("segments")[at] = static_cast<std::int32_t>(segments[at]);
  }
  for (std::size_t i = 0; i < places.size(); ++i) {
    if ((*weights)[i] == 0) continue;  // padding
    require(places[i] < length, "{}: masked_lm_positions[{}] is {}, but the row has {} ids", name, i, places[i],
            length);
    row.integers("places")[i] = static_cast<std::int32_t>(places[i]);
    row.integers("labels")[i] = static_cast<std::int32_t>(labels[i]);
  }
  row.integers("next")[0] = static_cast<std::int32_t>(next[0]);
}

}  // namespace

Datasets open_bert_records(const Json& config, std::int64_t tokens, const std::string& data_root) {
  Reader reader(config, "data");
  reader.choice("source", {"bert_tfrecord"});
  const std::string directory = read_directory(reader, data_root);
  const auto train = names_of(reader.needed("train"), "data.train");
  std::vector<std::string> evaluate;
  if (const Json* value = reader.value("evaluate")) evaluate = names_of(*value, "data.evaluate");
  const std::int64_t vocabulary = reader.integer("vocabulary", 30522);
  require(vocabulary >= 1 && vocabulary <= (std::int64_t{1} << 31), "data.vocabulary is {}: wanted 1 to 2^31",
          vocabulary);
  reader.done();
  const auto opened = [&](const std::vector<std::string>& names) {
    Files files;
    for (const std::string& name : names)
      files.push_back(
          std::make_shared<RecordFile>((std::filesystem::path(directory) / name).lexically_normal().string()));
    return std::make_unique<BertRecords>(std::move(files), tokens, vocabulary);
  };
  Datasets sets;
  sets.resolved = reader.resolved();
  sets.train = opened(train);
  if (!evaluate.empty()) sets.evaluate = opened(evaluate);
  return sets;
}

}  // namespace quadrille
