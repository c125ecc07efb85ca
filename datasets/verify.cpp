// SPDX-License-Identifier: Apache-2.0
// `data verify`: are the files what the manifest says, and does the order of samples cover them?
#include <algorithm>
#include <filesystem>

#include "core/error.h"
#include "datasets/commands.h"
#include "datasets/images.h"
#include "datasets/manifest.h"
#include "datasets/mapped_file.h"
#include "datasets/token_files.h"

namespace quadrille {
namespace {

namespace fs = std::filesystem;

void check_text(const std::string& path, const Json& entry) {
  const MappedFile file(path);
  const std::int64_t bad = first_ill_formed(file.text());
  require(bad < 0, "{} is not UTF-8 text at byte {}", path, bad);
  if (const Json* characters = entry.find("characters")) {
    require(characters->integer() == count_characters(file.text()), "{} has {} characters, its manifest says {}", path,
            count_characters(file.text()), characters->integer());
  }
  if (const Json* alphabet = entry.find("alphabet")) {
    require(alphabet->string() == to_hex(distinct_bytes(file.text())),
            "{} uses other bytes than the alphabet in its manifest", path);
  }
}

void check_llmc(const std::string& path, const Json& entry) {
  const TokenFile file = open_llmc(path);
  const auto same = [&](const char* key, std::int64_t found) {
    require(entry.at(key).integer() == found, "{}: {} is {}, its manifest says {}", path, key, found,
            entry.at(key).integer());
  };
  same("tokens", file.piece.count);
  same("id_bytes", size_of(file.type));
  require(entry.at("byte_order").string() == "little", "{}: its manifest says byte order {}, wanted little", path,
          entry.at("byte_order").string());
  FileTokens({file.piece}, file.type, entry.at("vocabulary").integer(), Json()).scan();
}

void check_idx(const std::string& path, const Json& entry) {
  std::vector<std::int64_t> wanted;
  for (const Json& dimension : entry.at("shape").items()) wanted.push_back(dimension.integer());
  const fs::path file(path);
  const std::string content = ImageFile(file.parent_path().string(), file.filename().string()).content();
  const auto found = idx_dimensions(content, static_cast<std::int64_t>(wanted.size()), path);
  require(found == wanted, "{} has other dimensions than its manifest says", path);
  require(static_cast<std::int64_t>(content.size()) == idx_bytes(found), "{} holds {} bytes unpacked, {} were wanted",
          path, content.size(), idx_bytes(found));
}

// How often each sample of each epoch comes up when all ranks walk their rows, step by step.
void walk_training(const Dataset& data, const CoverageOptions& options) {
  const std::int64_t size = data.size(), samples = size * options.epochs;
  std::vector<std::uint8_t> seen(static_cast<std::size_t>(samples));
  const std::int64_t steps = (samples + options.batch_size - 1) / options.batch_size;
  for (std::int64_t step = 0; step < steps; ++step) {
    for (std::int64_t rank = 0; rank < options.ranks; ++rank) {
      const Slice rows = part({0, options.batch_size}, options.ranks, rank);
      for (std::int64_t row = rows.first; row < rows.end(); ++row) {
        const Sample sample = training_sample(size, options.seed, step * options.batch_size + row);
        if (sample.epoch >= options.epochs) continue;  // the last step runs into the next epoch
        auto& count = seen[static_cast<std::size_t>(sample.epoch * size + sample.index)];
        require(count == 0, "sample {} comes twice in epoch {}", sample.index, sample.epoch);
        count = 1;
      }
    }
  }
  const auto missing = std::ranges::find(seen, 0) - seen.begin();
  require(missing == samples, "sample {} of epoch {} never comes", missing % size, missing / size);
}

std::int64_t walk_evaluation(const Dataset& data, const CoverageOptions& options) {
  std::int64_t labels = 0;
  for (std::int64_t first = 0; first < data.size(); first += options.batch_size) {
    for (std::int64_t rank = 0; rank < options.ranks; ++rank) {
      const Batch batch = evaluation_batch(data, first, part({0, options.batch_size}, options.ranks, rank));
      labels += std::ranges::count_if(batch.integers("labels"), [](std::int32_t label) { return label >= 0; });
    }
  }
  require(labels == data.labels(), "{} labels come up in evaluation, {} were wanted", labels, data.labels());
  return labels;
}

}  // namespace

Json verify_directory(const std::string& directory, const Progress& progress) {
  const std::optional<Json> manifest = read_manifest(directory);
  require(manifest.has_value(), "{} has no {}: it was not made by `data fetch` or `data prepare`", directory,
          kManifestName);
  Json report = Json::object(), files = Json::array(), unlisted = Json::array();
  for (const Json& entry : manifest->at("files").items()) {
    const std::string& name = entry.at("file").string();
    const std::string path = (fs::path(directory) / name).string();
    check_against_entry(directory, entry);
    const std::string kind = entry.at("kind").string();
    require(kind == "text" || kind == "llmc" || kind == "idx", "{}: {} is of an unknown kind \"{}\"", directory, name,
            kind);
    (kind == "text" ? check_text : kind == "llmc" ? check_llmc : check_idx)(path, entry);
    progress(fmt::format("{}: {} bytes, checksum and content as the manifest says", path, entry.at("bytes").integer()));
    files.push(name);
  }
  std::vector<std::string> others;
  for (const auto& item : fs::directory_iterator(directory)) {
    const std::string name = item.path().filename().string();
    if (name != kManifestName && !manifest_entry(*manifest, name)) others.push_back(name);
  }
  std::ranges::sort(others);
  for (const std::string& name : others) unlisted.push(name);
  report.set("files", std::move(files));
  report.set("unlisted", std::move(unlisted));
  return report;
}

Json verify_coverage(const Datasets& sets, const CoverageOptions& options, const Progress& progress) {
  require(options.batch_size >= 1 && options.ranks >= 1 && options.epochs >= 1,
          "coverage of {} rows a step, {} ranks, {} epochs: wanted at least 1 of each", options.batch_size,
          options.ranks, options.epochs);
  Json report = Json::object();
  report.set("ranks", options.ranks);
  report.set("rows_per_step", options.batch_size);
  report.set("epochs", options.epochs);
  if (sets.train) {
    sets.train->scan();
    require_one_batch(*sets.train, options.batch_size);
    walk_training(*sets.train, options);
    report.set("training_samples", sets.train->size());
    progress(fmt::format("training: each of {} samples once in each of {} epochs over {} ranks", sets.train->size(),
                         options.epochs, options.ranks));
  }
  if (sets.evaluate) {
    sets.evaluate->scan();
    report.set("evaluation_labels", walk_evaluation(*sets.evaluate, options));
    report.set("evaluation_samples", sets.evaluate->size());
    progress(fmt::format("evaluation: each of {} labels once over {} ranks", sets.evaluate->labels(), options.ranks));
  }
  return report;
}

}  // namespace quadrille
