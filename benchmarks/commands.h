// SPDX-License-Identifier: Apache-2.0
// One function per verb of the program. Each prints to standard output, returns the exit code, and throws Error for
// what the person at the terminal should mend.
#pragma once

#include <atomic>
#include <functional>
#include <memory>

#include "benchmarks/harness/mllog.h"
#include "benchmarks/options.h"
#include "parallelism/communicator.h"

namespace quadrille {

using WrapWorld = std::function<std::unique_ptr<Communicator>(std::unique_ptr<Communicator>)>;

// `began` turns true once training has begun: an error is bad input before that, a failure after.
int run_command(const RunOptions&, const RunClock&, std::atomic<bool>& began, const WrapWorld& wrap);
int plan_command(const RunOptions&);
int score_command(const std::vector<std::string>& folders);
int compare_command(const CompareOptions&);
int data_command(const DataOptions&);
int check_command(const CheckOptions&, const WrapWorld& wrap);
int log_check_command(const LogCheckOptions&);
int bleu_command(const BleuOptions&);
int package_command(const SubmissionOptions&);
int list_command(const std::string& what);  // empty: everything
int info_command();

}  // namespace quadrille
