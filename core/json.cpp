// SPDX-License-Identifier: Apache-2.0
// From text to values and back: the only file that includes nlohmann/json. Its SAX interface hands over one value at a
// time, without recursion; a cursor beside it finds where each began, since the library keeps no positions.
#include "core/json.h"

#include <fmt/core.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "core/error.h"

namespace quadrille {

namespace {

// Line and column (in bytes, both from 1) of a place in the text. Places are asked for in rising order.
class Position {
 public:
  Position(std::string_view text, std::string_view name) : text_(text), name_(name) {}
  std::string at(std::size_t byte) {
    for (; seen_ < byte && seen_ < text_.size(); ++seen_)
      if (text_[seen_] == '\n') ++line_, line_begin_ = seen_ + 1;
    return fmt::format("{}:{}:{}", name_, line_, byte - line_begin_ + 1);
  }

 private:
  std::string_view text_, name_;
  std::size_t seen_ = 0, line_ = 1, line_begin_ = 0;
};

// Called by the library with each token; keeps the open arrays and objects on a stack of its own.
class Builder : public nlohmann::json_sax<nlohmann::json> {
 public:
  Builder(std::string_view text, std::string_view name) : text_(text), name_(name), position_(text, name) {
    constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";  // the library skips it, so must the cursor
    if (text.starts_with(kByteOrderMark)) cursor_ = kByteOrderMark.size();
  }
  Json take() { return std::move(root_); }

  bool null() override { return add(Json(), 4); }
  bool boolean(bool v) override { return add(Json(v), v ? 4 : 5); }
  bool number_integer(number_integer_t v) override { return add(Json(std::int64_t{v}), number_length()); }
  bool number_unsigned(number_unsigned_t v) override {
    if (v > static_cast<std::uint64_t>(INT64_MAX)) too_large();
    return add(Json(static_cast<std::int64_t>(v)), number_length());
  }
  bool number_float(number_float_t v, const std::string& written) override {
    if (written.find_first_of(".eE") == std::string::npos) too_large();  // the library's answer to a huge integer
    return add(Json(v), number_length());
  }
  bool string(std::string& v) override { return add(Json(std::move(v)), string_length()); }
  bool binary(binary_t&) override { return false; }  // no such thing in text

  bool start_object(std::size_t) override { return open(Json::object()); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(std::string& key) override {
    const std::string here = position_.at(start());
    const auto [first, fresh] = stack_.back().keys.emplace(key, here);
    if (!fresh) fail("{}: the key \"{}\" is given twice; the first is at {}", here, key, first->second);
    stack_.back().key = std::move(key);
    cursor_ += string_length();
    return true;
  }

  // `byte` counts the bytes read when the library gave up: the last of them is the unexpected one.
  bool parse_error(std::size_t byte, const std::string&, const nlohmann::detail::exception& problem) override {
    std::string_view what = problem.what();  // "[json.exception....] parse error at line 1, column 2: the reason"
    const std::size_t reason = what.find(": ");
    if (reason != std::string_view::npos && what.find("parse error at") < reason)
      what.remove_prefix(reason + 2);
    else if (const std::size_t bracket = what.find("] "); bracket != std::string_view::npos)
      what.remove_prefix(bracket + 2);
    // A number out of range is reported with its end.
    const std::size_t at = problem.id == 406 ? start() : std::min(byte > 0 ? byte - 1 : 0, text_.size());
    fail("{}: not valid JSON: {}", Position(text_, name_).at(at), what);
  }

 private:
  struct Open {
    Json value;
    std::string key;                                    // of the member being read
    std::unordered_map<std::string, std::string> keys;  // those seen, and where
  };

  // First byte of the token in hand: what lies between two tokens is white space, commas and colons.
  std::size_t start() {
    cursor_ = std::min(text_.find_first_not_of(" \t\r\n,:", cursor_), text_.size());
    return cursor_;
  }
  std::size_t number_length() {
    return std::min(text_.find_first_not_of("+-.0123456789eE", start()), text_.size()) - cursor_;
  }
  std::size_t string_length() {
    std::size_t end = start() + 1;
    while (end < text_.size() && text_[end] != '"') end += text_[end] == '\\' ? 2 : 1;
    return end + 1 - cursor_;
  }
  [[noreturn]] void too_large() {
    const std::size_t length = number_length();
    fail("{}: the integer {} does not fit 64 bits with sign", position_.at(cursor_), text_.substr(cursor_, length));
  }

  bool add(Json value, std::size_t length) {
    value.from(position_.at(start()));
    cursor_ += length;
    place(std::move(value));
    return true;
  }
  bool open(Json value) {
    value.from(position_.at(start()));
    require(stack_.size() < kMaxDepth, "{}: arrays and objects are nested more than {} deep", value.origin(),
            kMaxDepth);
    ++cursor_;
    stack_.push_back({std::move(value), {}, {}});
    return true;
  }
  bool close() {
    start();
    ++cursor_;
    Json value = std::move(stack_.back().value);
    stack_.pop_back();
    place(std::move(value));
    return true;
  }
  void place(Json value) {
    if (stack_.empty())
      root_ = std::move(value);
    else if (stack_.back().value.is_array())
      stack_.back().value.push(std::move(value));
    else
      stack_.back().value.append_unseen(std::move(stack_.back().key), std::move(value));
  }

  std::string_view text_, name_;
  Position position_;
  std::size_t cursor_ = 0;
  std::vector<Open> stack_;
  Json root_;
};

std::string quoted(const std::string& s) {
  // Bytes that are not UTF-8 (a strange host or file name) become U+FFFD: a document must stay readable.
  return nlohmann::json(s).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string number_text(double v) {
  if (std::isnan(v)) return "\"nan\"";
  if (std::isinf(v)) return v > 0 ? "\"inf\"" : "\"-inf\"";
  std::string out = fmt::format("{}", v);  // the shortest form that reads back to the same double
  if (out.find_first_of(".e") == std::string::npos) out += ".0";
  return out;
}

// Arrays of numbers, strings and other single values stay on one line: a list of sizes reads better so.
bool is_flat(const Json& array) {
  for (const Json& v : array.items())
    if (v.is_object() || v.is_array()) return false;
  return true;
}

void write(const Json& v, std::size_t indent, std::size_t depth, std::string& out) {
  const bool array = v.is_array();
  if (v.is_null())
    out += "null";
  else if (v.is_bool())
    out += v.boolean() ? "true" : "false";
  else if (v.is_integer())
    out += fmt::format("{}", v.integer());
  else if (v.is_number())
    out += number_text(v.number());
  else if (v.is_string())
    out += quoted(v.string());
  else if (v.size() == 0)
    out += array ? "[]" : "{}";
  else {
    const bool lines = indent > 0 && !(array && is_flat(v));
    const std::string_view gap = indent > 0 ? " " : "";
    const auto begin_value = [&](bool first) {
      if (!first) out += lines || gap.empty() ? "," : ", ";
      if (lines) out.append("\n").append(indent * (depth + 1), ' ');
    };
    bool first = true;
    out += array ? '[' : '{';
    if (array)
      for (const Json& item : v.items()) begin_value(std::exchange(first, false)), write(item, indent, depth + 1, out);
    else
      for (const auto& [key, value] : v.members()) {
        begin_value(std::exchange(first, false));
        out.append(quoted(key)).append(":").append(gap);
        write(value, indent, depth + 1, out);
      }
    if (lines) out.append("\n").append(indent * depth, ' ');
    out += array ? ']' : '}';
  }
}

}  // namespace

Json parse_json(std::string_view text, std::string_view name) {
  Builder builder(text, name);
  require(nlohmann::json::sax_parse(text.begin(), text.end(), &builder), "{}: not valid JSON", name);
  return builder.take();
}

std::string Json::text(int indent) const {
  std::string out;
  write(*this, indent > 0 ? static_cast<std::size_t>(indent) : 0, 0, out);
  return out;
}

}  // namespace quadrille
