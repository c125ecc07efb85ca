// SPDX-License-Identifier: Apache-2.0
// --dump-samples: which samples each rank took up in training, as JSON lines, rank after rank:
//   {"rank": 0, "step": 1, "micro_batch": 0, "first_row": 0, "epochs": [0, 0], "samples": [17, 4]}
// Row first_row + i of the step was sample samples[i] of pass epochs[i] over the data. Steps count from 1, as in the
// record, all else from 0. Ranks that split other things than the batch take up the same rows; stages of a pipeline
// between its ends none.
#pragma once

#include <string>

#include "parallelism/communicator.h"
#include "training/trainer.h"

namespace quadrille {

class SampleDump {
 public:
  explicit SampleDump(int rank) : rank_(rank) {}
  void note(const SamplesTaken&);
  const std::string& text() const { return text_; }

 private:
  int rank_;
  std::string text_;
};

void write_samples(Communicator& world, const SampleDump&, const std::string& path);  // collective; rank 0 writes

}  // namespace quadrille
