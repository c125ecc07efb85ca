// SPDX-License-Identifier: Apache-2.0
// NVIDIA's ranges for profilers, as far as the product uses them: the stand-in remembers which are open and which were.
#pragma once

#include <string>
#include <vector>

namespace standin {
struct Ranges {
  std::vector<std::string> open, ended;  // of the calling thread
};
inline Ranges& ranges() {
  thread_local Ranges mine;
  return mine;
}
}  // namespace standin

inline int nvtxRangePushA(const char* name) {
  standin::ranges().open.emplace_back(name);
  return static_cast<int>(standin::ranges().open.size()) - 1;
}
inline int nvtxRangePop() {
  auto& [open, ended] = standin::ranges();
  if (open.empty()) return -2;
  ended.push_back(open.back());
  open.pop_back();
  return static_cast<int>(open.size());
}
