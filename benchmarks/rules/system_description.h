// SPDX-License-Identifier: Apache-2.0
// The system description that a submission of training results carries: 33 fields, filled from what this machine says
// about itself. What it does not say stays empty and is named, for a person to fill in.
#pragma once

#include <string>
#include <vector>

#include "core/json.h"

namespace quadrille {

struct SystemFacts {
  std::string submitter, division, system_name;
  int nodes = 1;
  bool this_machine = true;   // false: the runs are of another one, so nothing is said about its parts
  bool accelerators = false;  // the runs used some: this program does not describe them yet
};

// `root`: where /proc and /sys lie; for tests.
Json system_description(const SystemFacts&, const std::string& root = "");
// Fields without a value. Notes may be empty.
std::vector<std::string> missing_fields(const Json& description);

}  // namespace quadrille
