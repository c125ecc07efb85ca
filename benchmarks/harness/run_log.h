// SPDX-License-Identifier: Apache-2.0
// The lines of a run between init_stop and run_stop, in the units that its benchmark counts in (log_table.h). Written
// by TimedRun on rank 0; the golden logs of the tests come from the same functions.
#pragma once

#include <cstdint>
#include <string_view>

#include "benchmarks/harness/log_table.h"
#include "benchmarks/harness/mllog.h"

namespace quadrille {

class RunLog {
 public:
  struct Units {
    std::int64_t train_samples = 0, eval_samples = 0;
    std::int64_t tokens = 1;         // of one sample
    std::int64_t block_samples = 0;  // from one evaluation to the next
  };
  struct Place {  // in the run
    std::int64_t samples = 0, step = 0;
    double at = -1;  // seconds of the clock; negative: now
  };
  RunLog(MlLog& log, const LogTable& table, const Units& units) : log_(log), table_(table), units_(units) {}

  void run_start(double at);  // init_stop with it
  void data(double at = -1);  // how many samples: known once the data may be touched
  void block_start(const Place&);
  void block_stop(const Place&);
  void eval_start(const Place&);
  void eval_stop(double quality, const Place&);
  void statistics(const Json& value, const Place&);
  void run_stop(std::string_view status, std::string_view reason, const Place&);

 private:
  Json counters(const Place&) const;
  MlLog& log_;
  const LogTable& table_;
  Units units_;
};

}  // namespace quadrille
