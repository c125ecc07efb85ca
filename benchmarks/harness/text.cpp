// SPDX-License-Identifier: Apache-2.0
// See text.h.
#include "benchmarks/harness/text.h"

#include <fmt/chrono.h>
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>

#include "core/error.h"

namespace quadrille {

namespace {

// Three significant digits without an exponent: 6.13, 45.2, 612.
std::string three_digits(double value) {
  const double size = std::abs(value);
  return fmt::format("{:.{}f}", value, size < 9.995 ? 2 : size < 99.95 ? 1 : 0);
}

std::size_t columns_of(std::string_view utf8) {
  return static_cast<std::size_t>(
      std::count_if(utf8.begin(), utf8.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

}  // namespace

std::string text_bytes(double bytes) {
  if (!std::isfinite(bytes)) return fmt::format("{}", bytes);
  constexpr std::array<const char*, 6> kUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  std::size_t unit = 0;
  while (std::abs(bytes) >= 1024 && unit + 1 < kUnits.size()) bytes /= 1024, ++unit;
  return unit == 0 ? fmt::format("{:.0f} B", bytes) : fmt::format("{} {}", three_digits(bytes), kUnits[unit]);
}

std::string text_scaled(double value, std::string_view unit) {
  if (!std::isfinite(value)) return "n/a";
  constexpr std::array<const char*, 7> kPrefixes = {"", "k", "M", "G", "T", "P", "E"};
  std::size_t prefix = 0;
  while (std::abs(value) >= 999.5 && prefix + 1 < kPrefixes.size()) value /= 1000, ++prefix;
  const bool whole = prefix == 0 && value == std::floor(value);
  const std::string tail = fmt::format("{}{}", kPrefixes[prefix], unit);
  return fmt::format("{}{}{}", whole ? fmt::format("{:.0f}", value) : three_digits(value), tail.empty() ? "" : " ",
                     tail);
}

std::string text_clock(double seconds) {
  if (!std::isfinite(seconds)) return "?";
  if (seconds < 60) return fmt::format("{:.{}f} s", seconds, seconds < 9.995 ? 2 : 1);
  const auto whole = static_cast<long long>(std::llround(seconds));
  const long long hours = whole / 3600, minutes = whole / 60 % 60, rest = whole % 60;
  return hours > 0 ? fmt::format("{}:{:02}:{:02}", hours, minutes, rest) : fmt::format("{}:{:02}", minutes, rest);
}

std::string text_seconds(double seconds) {
  if (!std::isfinite(seconds)) return "n/a";
  if (seconds == 0) return "0 s";
  if (seconds < 0.9995e-3) return fmt::format("{} us", three_digits(seconds * 1e6));
  if (seconds < 0.9995) return fmt::format("{} ms", three_digits(seconds * 1e3));
  return fmt::format("{} s", three_digits(seconds));
}

std::string text_percent(double fraction) {
  return std::isfinite(fraction) ? fmt::format("{:.1f} %", fraction * 100) : "n/a";
}

std::string text_number(double value) { return fmt::format("{:.5g}", value); }

std::string text_grouped(long long value) {
  std::string digits = fmt::format("{}", value < 0 ? -value : value);
  for (std::size_t at = digits.size(); at > 3;) digits.insert(at -= 3, 1, ',');
  return fmt::format("{}{}", value < 0 ? "-" : "", digits);
}

std::string text_runs(const std::vector<int>& ascending) {
  std::string text;
  for (std::size_t i = 0; i < ascending.size();) {
    std::size_t last = i;
    while (last + 1 < ascending.size() && ascending[last + 1] == ascending[last] + 1) ++last;
    text += fmt::format("{}{}", text.empty() ? "" : ",", ascending[i]);
    if (last > i) text += fmt::format("{}{}", last == i + 1 ? "," : "-", ascending[last]);
    i = last + 1;
  }
  return text;
}

std::string text_cpus(const std::vector<int>& cpus) { return cpus.empty() ? "not bound" : text_runs(cpus); }

std::string text_utc(double unix_seconds) {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(static_cast<std::time_t>(unix_seconds)));
}

std::string text_shortened(std::string_view text) {
  constexpr std::size_t kLongest = 200, kKept = 120;
  constexpr std::string_view kBreaks = " \n\t'\"";
  std::string all;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find_first_of(kBreaks, at), text.size());
    const std::string_view word = text.substr(at, end - at);
    if (word.size() > kLongest)
      all += fmt::format("{}... ({} characters)", word.substr(0, kKept), word.size());
    else
      all += word;
    if (end < text.size()) all += text[end];
    at = end + 1;
  }
  return all;
}

void TextTable::row(std::vector<std::string> cells) {
  require(cells.size() == columns_.size(), "a table row of {} cells under {} columns", cells.size(), columns_.size());
  rows_.push_back(std::move(cells));
}

std::string TextTable::text(std::size_t indent) const {
  std::vector<std::string> titles;
  std::vector<std::size_t> widths;
  bool titled = false;
  for (const Column& column : columns_) {
    titles.push_back(column.title);
    widths.push_back(columns_of(column.title));
    titled = titled || !column.title.empty();
  }
  for (const auto& row : rows_)
    for (std::size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], columns_of(row[c]));

  std::string all;
  const auto add = [&](const std::vector<std::string>& cells) {
    std::string line(indent, ' ');
    for (std::size_t c = 0; c < cells.size(); ++c) {
      const std::string blanks(widths[c] - columns_of(cells[c]), ' ');
      if (c > 0) line += "  ";
      line += columns_[c].align == Align::right ? blanks + cells[c] : cells[c] + blanks;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    all += line + "\n";
  };
  if (titled) add(titles);
  for (const auto& row : rows_) add(row);
  return all;
}

}  // namespace quadrille
