// SPDX-License-Identifier: Apache-2.0
// JSON as the house wants it: strict (duplicate keys, trailing text and comments refused), order kept, every value
// knows where it came from, so that a message can name file, line and column. Reader turns a document into a
// configuration and refuses keys nobody asked for. The library behind it (nlohmann/json, SAX interface) is seen by
// json.cpp alone; values are in json_value.cpp, files in json_file.cpp, Reader and set_by_path in reader.cpp.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace quadrille {

class Json {
 public:
  using Array = std::vector<Json>;
  using Member = std::pair<std::string, Json>;
  using Object = std::vector<Member>;  // in the order written

  Json() = default;  // null
  Json(std::nullptr_t) {}
  Json(bool v) : value_(v) {}
  Json(int v) : value_(std::int64_t{v}) {}
  Json(std::int64_t v) : value_(v) {}
  Json(double v) : value_(v) {}  // non-finite: written as "nan", "inf", "-inf"
  Json(const char* v) : value_(std::string(v)) {}
  Json(std::string_view v) : value_(std::string(v)) {}
  Json(std::string v) : value_(std::move(v)) {}
  Json(Array v) : value_(std::move(v)) {}
  Json(Object v) : value_(std::move(v)) {}
  static Json object() { return Json(Object{}); }
  static Json array() { return Json(Array{}); }

  bool is_null() const { return std::holds_alternative<std::nullptr_t>(value_); }
  bool is_bool() const { return std::holds_alternative<bool>(value_); }
  bool is_integer() const { return std::holds_alternative<std::int64_t>(value_); }
  bool is_number() const { return is_integer() || std::holds_alternative<double>(value_); }
  bool is_string() const { return std::holds_alternative<std::string>(value_); }
  bool is_array() const { return std::holds_alternative<Array>(value_); }
  bool is_object() const { return std::holds_alternative<Object>(value_); }
  std::string_view kind() const;  // "an integer", "a string", ... for messages

  // Each throws Error naming origin, what was found and what was wanted.
  bool boolean() const;
  std::int64_t integer() const;
  double number() const;  // integers included; also "nan", "inf", "-inf"
  const std::string& string() const;
  const Array& items() const;
  const Object& members() const;
  std::size_t size() const;  // of an array or object

  const Json* find(std::string_view key) const;  // null when absent
  Json* find(std::string_view key);
  const Json& at(std::string_view key) const;  // throws Error naming the nearest key
  const Json& at(std::size_t index) const;
  Json& at(std::size_t index);
  Json& set(std::string_view key, Json value);      // of an object: replaces or appends; returns the value
  void append_unseen(std::string key, Json value);  // set() for a key known to be new: no search
  void push(Json value);                            // of an array
  void erase(std::string_view key);

  // Where the value was written: "suites/gpt_tiny.json:12:8", "--set training.rate=3e-4", "default".
  const std::string& origin() const { return origin_; }
  Json& from(std::string origin) {
    origin_ = std::move(origin);
    return *this;
  }

  std::string text(int indent = 0) const;  // 0: one line; doubles in their shortest exact form
  bool operator==(const Json& other) const { return value_ == other.value_; }  // origins do not count

 private:
  std::variant<std::nullptr_t, bool, std::int64_t, double, std::string, Array, Object> value_ = nullptr;
  std::string origin_;
};

// Strict: RFC 8259 without duplicate keys, integers of 64 bits, finite numbers, at most kMaxDepth values deep.
inline constexpr int kMaxDepth = 200;
Json parse_json(std::string_view text, std::string_view name);  // `name` stands in messages and origins
Json read_json(const std::string& path);                        // throws Error: missing, unreadable, not strict JSON
void write_file_whole(const std::string& path, std::string_view text);  // to a temporary name, then renamed

// "training.rate=3e-4" -> document.training.rate. The value is JSON when it parses as JSON, a string otherwise (but
// what begins like an array, an object or a quoted string must be one). Keys that lead nowhere are created: the Reader
// refuses them later if nobody knows them. Arrays of pairs (mesh) are addressed by the first of the pair, other arrays
// by the number of the element.
void set_by_path(Json& document, std::string_view assignment);

// The known name nearest to `word` by edit distance, or "" when none is near.
std::string nearest(std::string_view word, const std::vector<std::string>& known);

// Reads one object of a document into a configuration. Every key asked for is remembered; `done` throws for all others
// at once, each with the nearest known name. Values taken (given or default) are put into `resolved`, in the order
// asked.
class Reader {
 public:
  Reader(const Json& object, std::string path);  // path: "training", for messages
  std::int64_t integer(std::string_view key, std::optional<std::int64_t> fallback = {});
  double number(std::string_view key, std::optional<double> fallback = {});
  bool boolean(std::string_view key, std::optional<bool> fallback = {});
  std::string string(std::string_view key, std::optional<std::string> fallback = {});
  std::string choice(std::string_view key, const std::vector<std::string>& allowed,
                     std::optional<std::string> fallback = {});
  const Json* value(std::string_view key);  // anything, or null when absent
  const Json& needed(std::string_view key);
  std::string path_of(std::string_view key) const;
  std::string origin_of(std::string_view key) const;  // "default" when absent
  void done();
  const Json& resolved() const { return resolved_; }

 private:
  const Json* take(std::string_view key);
  [[noreturn]] void missing(std::string_view key) const;
  const Json& object_;
  std::string path_;
  std::vector<std::string> known_;
  Json resolved_ = Json::object();
};

}  // namespace quadrille
