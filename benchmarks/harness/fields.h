// SPDX-License-Identifier: Apache-2.0
// One list of fields serves writing and reading: a struct names its members once, in `template <class V> void
// fields(V& visit, T& value)`, and to_json / from_json follow that list. Used by record.h.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/json.h"

namespace quadrille {

class FieldWriter;
class FieldReader;

inline Json to_json(const Json& value) { return value; }
inline Json to_json(bool value) { return value; }
inline Json to_json(int value) { return value; }
inline Json to_json(std::int64_t value) { return value; }
inline Json to_json(double value) { return value; }
inline Json to_json(const std::string& value) { return value; }
template <class T>
Json to_json(const std::vector<T>& values);
template <class T>
Json to_json(const std::map<std::string, T>& values);
template <class T>
Json to_json(const T& value);

inline void from_json(const Json& json, Json& value) { value = json; }
inline void from_json(const Json& json, bool& value) { value = json.boolean(); }
inline void from_json(const Json& json, int& value) { value = static_cast<int>(json.integer()); }
inline void from_json(const Json& json, std::int64_t& value) { value = json.integer(); }
inline void from_json(const Json& json, double& value) { value = json.number(); }
inline void from_json(const Json& json, std::string& value) { value = json.string(); }
template <class T>
void from_json(const Json& json, std::vector<T>& values);
template <class T>
void from_json(const Json& json, std::map<std::string, T>& values);
template <class T>
void from_json(const Json& json, T& value);

class FieldWriter {
 public:
  template <class T>
  void operator()(const char* name, const T& value) {
    object.set(name, to_json(value));
  }
  // An absent optional is an absent field: nothing is written that could be read as zero.
  template <class T>
  void operator()(const char* name, const std::optional<T>& value) {
    if (value) object.set(name, to_json(*value));
  }
  Json object = Json::object();
};

class FieldReader {
 public:
  explicit FieldReader(const Json& object) : object_(object) {}
  template <class T>
  void operator()(const char* name, T& value) {
    from_json(object_.at(name), value);
  }
  template <class T>
  void operator()(const char* name, std::optional<T>& value) {
    if (const Json* found = object_.find(name)) from_json(*found, value.emplace());
  }

 private:
  const Json& object_;
};

template <class T>
Json to_json(const T& value) {
  FieldWriter writer;
  fields(writer,
         const_cast<T&>(value));  // the list takes a reference that readers may write through; this one does not
  return writer.object;
}
template <class T>
Json to_json(const std::vector<T>& values) {
  Json array = Json::array();
  for (const T& value : values) array.push(to_json(value));
  return array;
}
template <class T>
Json to_json(const std::map<std::string, T>& values) {
  Json object = Json::object();
  for (const auto& [name, value] : values) object.set(name, to_json(value));
  return object;
}
template <class T>
void from_json(const Json& json, T& value) {
  FieldReader reader(json);
  fields(reader, value);
}
template <class T>
void from_json(const Json& json, std::vector<T>& values) {
  values.clear();
  for (const Json& item : json.items()) from_json(item, values.emplace_back());
}
template <class T>
void from_json(const Json& json, std::map<std::string, T>& values) {
  values.clear();
  for (const auto& [name, item] : json.members()) from_json(item, values[name]);
}

}  // namespace quadrille
