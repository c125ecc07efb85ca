// SPDX-License-Identifier: Apache-2.0
#include "core/faults.h"

#include <algorithm>

#include "core/error.h"

namespace quadrille {

void refuse_all(const std::vector<std::string>& faults, const std::string& what) {
  if (faults.empty()) return;
  if (faults.size() == 1) throw Error(faults.front());
  std::string text = fmt::format("{} {}:", faults.size(), what);
  for (const std::string& fault : faults) text += "\n  - " + fault;
  throw Error(text);
}

std::string divisors_text(std::int64_t n, std::size_t most) {
  std::vector<std::int64_t> divisors;
  constexpr std::int64_t kLargest = 1 << 16;  // of the smaller of two: a count may have 63 bits
  for (std::int64_t d = 1; d <= std::min(n / d, kLargest); ++d) {
    if (n % d != 0) continue;
    divisors.push_back(d);
    if (d != n / d) divisors.push_back(n / d);
  }
  std::sort(divisors.begin(), divisors.end());
  std::string text;
  for (std::size_t i = 0; i < std::min(divisors.size(), most); ++i)
    text += (i ? ", " : "") + std::to_string(divisors[i]);
  return divisors.size() > most ? text + ", ..." : text;
}

}  // namespace quadrille
