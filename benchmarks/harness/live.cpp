// SPDX-License-Identifier: Apache-2.0
// See live.h.
#include "benchmarks/harness/live.h"

#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cmath>

#include "benchmarks/harness/text.h"

namespace quadrille {

namespace {

constexpr double kTerminalPeriod = 0.1, kPlainPeriod = 5;

// MPI launchers give a process a terminal without a width, whatever they do with what is written to it.
bool can_rewrite(std::FILE* out) {
  winsize size{};
  return isatty(fileno(out)) == 1 && ioctl(fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
}

// A line that wraps cannot be rewritten: it is cut one column short of the terminal's width.
std::string cut_to_terminal(std::string text, std::FILE* out) {
  winsize size{};
  if (ioctl(fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col > 1 && text.size() >= size.ws_col)
    text.resize(size.ws_col - 1U);
  return text;
}

}  // namespace

std::string live_text(const LiveStatus& s) {
  const std::string steps = fmt::format("{}", s.steps);
  std::string text = fmt::format("step {:>{}}/{}  loss {:.4f}", s.step, steps.size(), steps, s.loss);
  if (std::isfinite(s.work_per_second))
    text += fmt::format("  {:>14}", text_scaled(s.work_per_second, s.work_unit + "s/s"));
  if (std::isfinite(s.flops_per_second)) {
    text += fmt::format("  {:>12}", text_scaled(s.flops_per_second, "FLOP/s"));
    if (s.peak_flops_per_second > 0)
      text += fmt::format("  MFU {:>6}", text_percent(s.flops_per_second / s.peak_flops_per_second));
  }
  if (std::isfinite(s.seconds_left)) text += fmt::format("  left {}", text_clock(s.seconds_left));
  return text;
}

LiveLine::LiveLine(std::FILE* out) : LiveLine(out, can_rewrite(out)) {}

LiveLine::~LiveLine() { clear(); }

bool LiveLine::due(double now) const { return now - last_ >= (terminal_ ? kTerminalPeriod : kPlainPeriod); }

void LiveLine::rewrite(std::string text, double now) {
  last_ = now;
  if (terminal_) {
    text = cut_to_terminal(std::move(text), out_);
    fmt::print(out_, "\r{:<{}}", text, width_);
    width_ = text.size();
  } else {
    fmt::print(out_, "{}\n", text);
  }
  std::fflush(out_);
}

void LiveLine::announce(const std::string& text, bool lasting, double now) {
  if (terminal_ || lasting) rewrite(text, now);
}

void LiveLine::print(const std::string& line) {
  clear();
  fmt::print(out_, "{}\n", line);
  std::fflush(out_);
}

void LiveLine::clear() {
  if (width_ == 0) return;
  fmt::print(out_, "\r{:<{}}\r", "", width_);
  std::fflush(out_);
  width_ = 0;
}

}  // namespace quadrille
