// SPDX-License-Identifier: Apache-2.0
// tf.train.Example in protobuf's wire format: Example.features = 1; Features.feature = 1, a map of entries {key = 1,
// value = 2}; Feature is one of bytes_list = 1, float_list = 2, int64_list = 3, each with the repeated field value = 1
// (tensorflow/core/example/feature.proto).
#include <cstring>

#include "core/error.h"
#include "datasets/tfrecord.h"

namespace quadrille {
namespace {

enum Wire : std::uint32_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

class Message {
 public:
  Message(std::string_view text, std::size_t offset, const std::string& name)
      : text_(text), offset_(offset), name_(name) {}

  bool done() const { return at_ == text_.size(); }
  std::uint64_t number() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<unsigned char>(take(1).front());
      value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    refuse("a number of more than 10 bytes");
  }
  float real() {
    float value;
    std::memcpy(&value, take(4).data(), 4);
    return value;
  }
  std::string_view piece() { return take(number()); }
  Message message() {
    const std::string_view text = piece();
    return {text, offset_ + at_ - text.size(), name_};
  }
  // The next field's number; its wire type goes to `wire`.
  std::uint64_t field(std::uint32_t& wire) {
    const std::uint64_t tag = number();
    wire = tag & 7;
    return tag >> 3;
  }
  void pass_over(std::uint32_t wire) {
    if (wire == Wire::varint)
      number();
    else if (wire == Wire::fixed64)
      take(8);
    else if (wire == Wire::bytes)
      piece();
    else if (wire == Wire::fixed32)
      take(4);
    else
      refuse(fmt::format("a field of the unknown wire type {}", wire));
  }
  [[noreturn]] void refuse(const std::string& what) const {
    fail("{}: {} at byte {} of the message: it is no tf.train.Example, or is damaged; make or fetch the file again",
         name_, what, offset_ + at_);
  }

 private:
  std::string_view take(std::uint64_t count) {
    if (count > text_.size() - at_)
      refuse(fmt::format("{} bytes were wanted and {} are left", count, text_.size() - at_));
    const std::string_view taken = text_.substr(at_, static_cast<std::size_t>(count));
    at_ += taken.size();
    return taken;
  }
  std::string_view text_;
  std::size_t offset_, at_ = 0;
  const std::string& name_;
};

// The values of one list. one(message, values) reads a single one.
template <class T, class One>
std::vector<T> list_of(Message list, std::uint32_t single, One one) {
  std::vector<T> values;
  while (!list.done()) {
    std::uint32_t wire = 0;
    if (list.field(wire) != 1) {
      list.pass_over(wire);
    } else if (wire == single) {
      values.push_back(one(list));
    } else if (wire == Wire::bytes) {  // packed
      for (Message packed = list.message(); !packed.done();) values.push_back(one(packed));
    } else {
      list.refuse(fmt::format("a value of wire type {}", wire));
    }
  }
  return values;
}

ExampleValue value_of(Message feature) {
  ExampleValue value;
  while (!feature.done()) {
    std::uint32_t wire = 0;
    const std::uint64_t kind = feature.field(wire);
    if (kind < 1 || kind > 3) {
      feature.pass_over(wire);
      continue;
    }
    if (wire != Wire::bytes) feature.refuse(fmt::format("a list of wire type {}", wire));
    Message list = feature.message();
    if (kind == 1)
      value = list_of<std::string>(list, Wire::bytes, [](Message& m) { return std::string(m.piece()); });
    else if (kind == 2)
      value = list_of<float>(list, Wire::fixed32, [](Message& m) { return m.real(); });
    else
      value =
          list_of<std::int64_t>(list, Wire::varint, [](Message& m) { return static_cast<std::int64_t>(m.number()); });
  }
  return value;
}

void read_entry(Message entry, Example& example) {
  std::string key;
  ExampleValue value;
  while (!entry.done()) {
    std::uint32_t wire = 0;
    const std::uint64_t field = entry.field(wire);
    if (field == 1 && wire == Wire::bytes)
      key = entry.piece();
    else if (field == 2 && wire == Wire::bytes)
      value = value_of(entry.message());
    else
      entry.pass_over(wire);
  }
  example[std::move(key)] = std::move(value);
}

}  // namespace

Example parse_example(std::string_view text, const std::string& name) {
  Example example;
  for (Message message(text, 0, name); !message.done();) {
    std::uint32_t wire = 0;
    if (message.field(wire) != 1 || wire != Wire::bytes) {
      message.pass_over(wire);
      continue;
    }
    for (Message features = message.message(); !features.done();) {
      if (features.field(wire) == 1 && wire == Wire::bytes)
        read_entry(features.message(), example);
      else
        features.pass_over(wire);
    }
  }
  return example;
}

const std::vector<std::int64_t>& integers_of(const Example& example, std::string_view key, const std::string& name) {
  const auto found = example.find(key);
  if (found == example.end()) {
    std::string known;
    for (const auto& [other, value] : example) known += (known.empty() ? "" : ", ") + other;
    fail("{} has no \"{}\"; it has: {}", name, key, known.empty() ? "nothing" : known);
  }
  const auto* integers = std::get_if<std::vector<std::int64_t>>(&found->second);
  require(integers != nullptr, "{}: \"{}\" holds {}, integers were wanted", name, key,
          found->second.index() == 1 ? "real numbers" : "bytes");
  return *integers;
}

}  // namespace quadrille
