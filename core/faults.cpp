// SPDX-License-Identifier: Apache-2.0
#include "core/faults.h"

#include <algorithm>
#include <string_view>

#include "core/error.h"

namespace quadrille {

namespace {
constexpr std::string_view kItem = "\n  - ";
}

void refuse_all(const std::vector<std::string>& faults, const std::string& what) {
  if (faults.empty()) return;
  if (faults.size() == 1) throw Error(faults.front());
  std::string text = fmt::format("{} {}:", faults.size(), what);
  for (const std::string& fault : faults) text += std::string(kItem) + fault;
  throw Error(text);
}

void collect_faults(std::vector<std::string>& faults, const std::function<void()>& read) {
  try {
    read();
  } catch (const Error& error) {
    std::string_view text = error.what();
    std::size_t at = text.find(kItem);
    if (at == std::string_view::npos) faults.emplace_back(text);
    while (at != std::string_view::npos) {
      text.remove_prefix(at + kItem.size());
      at = text.find(kItem);
      faults.emplace_back(text.substr(0, at));
    }
  }
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
