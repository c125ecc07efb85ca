// SPDX-License-Identifier: Apache-2.0
// `quadrille package`: the logs of finished runs in the tree that a submission has, with the system description, and a
// list of what is still missing.
#pragma once

#include <string>
#include <vector>

namespace quadrille {

struct SubmissionOptions {
  std::vector<std::string> folders;    // that hold result_*.txt
  std::string out, submitter, system;  // system empty: the host's name
};

struct Submission {
  std::vector<std::string> written;  // paths below `out`
  std::vector<std::string> missing;  // each a sentence
};

// Throws Error: `out` exists and is not an empty folder (nothing is ever overwritten), or no logs.
Submission write_submission(const SubmissionOptions&);

}  // namespace quadrille
