// SPDX-License-Identifier: Apache-2.0
// The line that lives while a run goes on: rewritten in place on a terminal, a plain line every few seconds elsewhere.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

namespace quadrille {

struct LiveStatus {
  std::int64_t step = 0, steps = 0;
  double loss = 0;
  double work_per_second = 0;        // NaN while unknown
  double flops_per_second = 0;       // model, full attention; NaN while unknown
  double peak_flops_per_second = 0;  // 0: unknown
  double seconds_left = 0;           // NaN while unknown
  std::string work_unit = "token";   // of work_per_second
};
std::string live_text(const LiveStatus&);

class LiveLine {
 public:
  explicit LiveLine(std::FILE* out);
  LiveLine(std::FILE* out, bool terminal) : out_(out), terminal_(terminal) {}
  ~LiveLine();
  LiveLine(const LiveLine&) = delete;
  LiveLine& operator=(const LiveLine&) = delete;

  bool due(double now) const;  // seconds of any monotonic clock
  void show(const LiveStatus& status, double now) { rewrite("  " + live_text(status), now); }
  void rewrite(std::string text, double now);  // the live line, as a whole
  // On a terminal until the next line; elsewhere only if `lasting`.
  void announce(const std::string& text, bool lasting, double now);
  void print(const std::string& line);  // a lasting line; the live one moves below it
  void clear();

 private:
  std::FILE* out_;
  bool terminal_;
  double last_ = -1e9;
  std::size_t width_ = 0;  // of what stands on the terminal
};

}  // namespace quadrille
