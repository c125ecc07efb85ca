// SPDX-License-Identifier: Apache-2.0
// What the log of each benchmark must say about its configuration: which keys, in which order, from which value. A
// model or an optimizer that is added later only supplies values; names of keys stand here alone.
#pragma once

#include <string_view>
#include <vector>

#include "benchmarks/harness/mllog.h"

namespace quadrille {

struct LogRow {
  std::string_view key;             // as checkers know it
  std::string_view value;           // name of the value
  std::string_view optimizer = {};  // only with this one; empty: always
  std::string_view metadata = {};   // name of a metadata field, which is also the name of its value; empty: none
  bool optional = false;            // left out where there is no such value
};

struct LogTable {
  std::string_view benchmark;  // empty: any other, our own suites
  // What "epoch_num" counts there: epochs (numbered from 1), samples or tokens.
  std::string_view epochs = "epochs";
  std::vector<LogRow> rows;  // between global_batch_size and what all logs end their configuration with
};

const LogTable& log_table(std::string_view benchmark);

// All lines before init_stop. `values`: by the names of the tables; throws Error naming key and value where one is
// missing. Times are seconds of the clock; `at` negative: now.
void log_values(MlLog&, const LogTable&, const Json& values, double init_start, double at = -1);

}  // namespace quadrille
