// SPDX-License-Identifier: Apache-2.0
// See log_lines.h. The line format is that of the public logging library for training benchmarks.
#include "benchmarks/rules/log_lines.h"

#include <charconv>
#include <cmath>

#include "core/error.h"

namespace quadrille {

namespace {

constexpr std::string_view kPrefix = ":::MLLOG ";
constexpr const char* kLine = "a log line";  // what Json calls the text in its messages; cut off again

// Files are taken as latin-1, so that no byte is wrong; one that is proper UTF-8 reads the same as strict JSON.
std::string from_latin1(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80) {
      out += c;
    } else {
      out += static_cast<char>(0xC0 | (byte >> 6));
      out += static_cast<char>(0x80 | (byte & 0x3F));
    }
  }
  return out;
}

// The reference library writes NaN, Infinity and -Infinity as bare words; here they become the strings that Json knows.
std::string with_quoted_words(std::string_view text) {
  std::string out;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (quoted && text[i] == '\\' && i + 1 < text.size()) {
      out += text.substr(i++, 2);
      continue;
    }
    if (text[i] == '"') quoted = !quoted;
    bool replaced = false;
    for (const auto& [word, string] : {std::pair<std::string_view, std::string_view>{"-Infinity", "\"-inf\""},
                                       {"Infinity", "\"inf\""},
                                       {"NaN", "\"nan\""}}) {
      if (quoted || !text.substr(i).starts_with(word)) continue;
      out += string;
      i += word.size() - 1;
      replaced = true;
      break;
    }
    if (!replaced) out += text[i];
  }
  return out;
}

bool parse(std::string_view text, Json& json, std::string& why) {
  try {
    json = parse_json(text, kLine);
    return true;
  } catch (const Error& error) {
    why = error.what();
  }
  try {
    json = parse_json(with_quoted_words(from_latin1(text)), kLine);
    return true;
  } catch (const Error&) {  // the first complaint is about the text as written
  }
  return false;
}

bool time_of(const Json& value, double& time_ms) {
  if (value.is_number()) {
    time_ms = value.number();
  } else if (value.is_string()) {
    const std::string& word = value.string();
    const auto [end, code] = std::from_chars(word.data(), word.data() + word.size(), time_ms);
    if (code != std::errc() || end != word.data() + word.size()) return false;
  } else {
    return false;
  }
  return std::isfinite(time_ms);
}

class Lines {
 public:
  explicit Lines(LogText& log) : log_(log) {}

  void record(std::string_view text, bool glued) {
    while (!text.empty() && (text.back() == '\r' || text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
    if (glued) add("", "line.glued", "another record follows on the same line; wanted one record a line");
    LogLine line;
    line.number = log_.last_line;
    Json json;
    std::string why;
    if (!parse(text, json, why)) return add("", "line.json", "not JSON: " + why);
    if (!json.is_object()) return add("", "line.object", fmt::format("found {}, wanted an object", json.kind()));
    const Json* key = json.find("key");
    if (!key || !key->is_string()) return add("", "line.key", "has no key that is a string");
    line.key = key->string();
    const Json* time = json.find("time_ms");
    if (!time || !time_of(*time, line.time_ms))
      return add(line.key, "line.time_ms", "has no time_ms that is a finite number");
    const Json* value = json.find("value");
    if (!value) return add(line.key, "line.value", "has no value (null would do)");
    line.value = *value;
    const Json* metadata = json.find("metadata");
    if (!metadata || !metadata->is_object())
      return add(line.key, "line.metadata", "has no metadata object ({} would do)");
    line.metadata = *metadata;
    log_.lines.push_back(std::move(line));
  }

 private:
  void add(std::string key, std::string rule, std::string text) {
    log_.findings.push_back({log_.last_line, false, std::move(key), std::move(rule), std::move(text)});
  }
  LogText& log_;
};

}  // namespace

LogText read_log_text(std::string_view text) {
  LogText log;
  Lines lines(log);
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(line.size() < text.size() ? line.size() + 1 : line.size());
    ++log.last_line;
    for (auto at = line.find(kPrefix); at != std::string_view::npos;) {
      line.remove_prefix(at + kPrefix.size());
      at = line.find(kPrefix);
      lines.record(line.substr(0, at), at != std::string_view::npos);
    }
  }
  return log;
}

}  // namespace quadrille
