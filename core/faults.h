// SPDX-License-Identifier: Apache-2.0
// Several faults told at once: a person who must mend a configuration wants to know all of them. Used by whoever checks
// sizes against one another.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace quadrille {

// Throws Error unless `faults` is empty: the fault itself when it is the only one, otherwise "N WHAT:" and a list.
void refuse_all(const std::vector<std::string>& faults, const std::string& what);

// Runs `read`; the fault, or the list of faults, that it is refused for joins `faults`, so that reading may go on.
void collect_faults(std::vector<std::string>& faults, const std::function<void()>& read);

// "1, 2, 3, 6": the divisors of n in order, at most `most` of them.
std::string divisors_text(std::int64_t n, std::size_t most = 24);

}  // namespace quadrille
