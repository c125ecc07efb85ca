// SPDX-License-Identifier: Apache-2.0
// Reading and changing one Json value; each refusal says where the value was written, what it is and what was wanted.
#include <cmath>
#include <limits>

#include "core/error.h"
#include "core/json.h"

namespace quadrille {

namespace {

std::string where(const Json& v) { return v.origin().empty() ? std::string() : v.origin() + ": "; }

// The value itself where it is short, so that the reader sees which one is meant.
std::string shown(const Json& v) {
  if (v.is_array() || v.is_object() || v.is_null()) return std::string(v.kind());
  std::string text = v.text();
  if (text.size() > 60) text = text.substr(0, 57) + "...";
  return fmt::format("{} ({})", v.kind(), text);
}

[[noreturn]] void wrong_kind(const Json& v, std::string_view wanted) {
  fail("{}found {}, wanted {}", where(v), shown(v), wanted);
}

std::vector<std::string> keys_of(const Json::Object& object) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : object) keys.push_back(key);
  return keys;
}

}  // namespace

std::string_view Json::kind() const {
  if (is_null()) return "null";
  if (is_bool()) return "a truth value";
  if (is_integer()) return "an integer";
  if (is_number()) return "a number with a fraction";
  if (is_string()) return "a string";
  return is_array() ? "an array" : "an object";
}

bool Json::boolean() const {
  if (!is_bool()) wrong_kind(*this, "true or false");
  return std::get<bool>(value_);
}

std::int64_t Json::integer() const {
  if (!is_integer()) wrong_kind(*this, "an integer, without fraction and exponent");
  return std::get<std::int64_t>(value_);
}

double Json::number() const {
  if (is_integer()) return static_cast<double>(std::get<std::int64_t>(value_));
  if (is_number()) return std::get<double>(value_);
  if (is_string()) {
    const std::string& s = std::get<std::string>(value_);
    if (s == "nan") return std::numeric_limits<double>::quiet_NaN();
    if (s == "inf") return std::numeric_limits<double>::infinity();
    if (s == "-inf") return -std::numeric_limits<double>::infinity();
  }
  wrong_kind(*this, "a number");
}

const std::string& Json::string() const {
  if (!is_string()) wrong_kind(*this, "a string");
  return std::get<std::string>(value_);
}

const Json::Array& Json::items() const {
  if (!is_array()) wrong_kind(*this, "an array");
  return std::get<Array>(value_);
}

const Json::Object& Json::members() const {
  if (!is_object()) wrong_kind(*this, "an object");
  return std::get<Object>(value_);
}

std::size_t Json::size() const {
  if (!is_array() && !is_object()) wrong_kind(*this, "an array or an object");
  return is_array() ? std::get<Array>(value_).size() : std::get<Object>(value_).size();
}

const Json* Json::find(std::string_view key) const {
  for (const auto& [name, value] : members())
    if (name == key) return &value;
  return nullptr;
}

Json* Json::find(std::string_view key) { return const_cast<Json*>(std::as_const(*this).find(key)); }

const Json& Json::at(std::string_view key) const {
  if (const Json* value = find(key)) return *value;
  const std::string near = nearest(key, keys_of(members()));
  fail("{}the key \"{}\" is missing{}", where(*this), key, near.empty() ? "" : fmt::format("; there is \"{}\"", near));
}

const Json& Json::at(std::size_t index) const {
  require(index < items().size(), "{}item {} of an array of {} was asked for", where(*this), index, items().size());
  return items()[index];
}

Json& Json::at(std::size_t index) { return const_cast<Json&>(std::as_const(*this).at(index)); }

Json& Json::set(std::string_view key, Json value) {
  if (Json* old = find(key)) return *old = std::move(value);
  append_unseen(std::string(key), std::move(value));
  return std::get<Object>(value_).back().second;
}

void Json::append_unseen(std::string key, Json value) {
  if (!is_object()) wrong_kind(*this, "an object");
  std::get<Object>(value_).emplace_back(std::move(key), std::move(value));
}

void Json::push(Json value) {
  if (!is_array()) wrong_kind(*this, "an array");
  std::get<Array>(value_).push_back(std::move(value));
}

void Json::erase(std::string_view key) {
  if (!is_object()) wrong_kind(*this, "an object");
  std::erase_if(std::get<Object>(value_), [&](const Member& m) { return m.first == key; });
}

}  // namespace quadrille
