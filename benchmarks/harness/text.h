// SPDX-License-Identifier: Apache-2.0
// Numbers with units and columns that align: how everything that a person reads on the terminal is written.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace quadrille {

std::string text_bytes(double bytes);                          // "512 B", "1.50 MiB"
std::string text_scaled(double value, std::string_view unit);  // 45231, "tokens/s" -> "45.2 ktokens/s"; "6.13 GFLOP/s"
std::string text_clock(double seconds);                        // "0.84 s", "2:31", "1:02:03"
std::string text_seconds(double seconds);                      // "1.23 ms", "840 ms", "12.3 s"
std::string text_percent(double fraction);                     // "38.1 %"
std::string text_number(double value);                         // five significant digits, no useless zeros
std::string text_grouped(long long value);                     // "466,853"
std::string text_runs(const std::vector<int>& ascending);      // "0-3,8"
std::string text_cpus(const std::vector<int>& cpus);           // the same; "not bound" when empty
std::string text_utc(double unix_seconds);                     // "2025-01-31T12:34:56Z"

// A message with every word (what stands between blanks or quotes) of more than 200 characters cut to its beginning.
std::string text_shortened(std::string_view text);

// Columns as wide as their widest cell; two blanks between them; no blanks at the end of a line.
class TextTable {
 public:
  enum class Align : unsigned char { left, right };
  struct Column {
    std::string title;
    Align align = Align::right;
  };
  explicit TextTable(std::vector<Column> columns) : columns_(std::move(columns)) {}
  void row(std::vector<std::string> cells);  // as many as there are columns
  bool empty() const { return rows_.empty(); }
  std::string text(std::size_t indent = 2) const;  // titles left out when all are empty

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace quadrille
