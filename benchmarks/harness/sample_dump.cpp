// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/harness/sample_dump.h"

#include <fmt/format.h>

#include "benchmarks/harness/gather.h"
#include "core/error.h"
#include "core/json.h"

namespace quadrille {

void SampleDump::note(const SamplesTaken& taken) {
  std::vector<std::int64_t> epochs, samples;
  for (const Sample& sample : taken.samples) epochs.push_back(sample.epoch), samples.push_back(sample.index);
  text_ += fmt::format(
      R"({{"rank": {}, "step": {}, "micro_batch": {}, "first_row": {}, "epochs": [{}], "samples": [{}]}})", rank_,
      taken.step, taken.micro_batch, taken.first_row, fmt::join(epochs, ", "), fmt::join(samples, ", "));
  text_ += '\n';
}

void write_samples(Communicator& world, const SampleDump& dump, const std::string& path) {
  std::string text;
  for (const std::string& of_rank : gather_text(world, dump.text())) text += of_rank;
  if (world.rank() == 0) write_file_whole(path, text);
}

}  // namespace quadrille
