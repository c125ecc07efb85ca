// SPDX-License-Identifier: Apache-2.0
// TensorFlow's files of records, and the messages tf.train.Example inside them. A file is a row of {length u64, masked
// CRC-32C of it, data, masked CRC-32C of them}, little-endian, plain or packed by gzip as a whole. Own code: the
// formats take a hundred lines, protobuf and TensorFlow a hundred megabytes. Used by bert_records.cpp.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "datasets/mapped_file.h"

namespace quadrille {

std::uint32_t crc32c(std::string_view bytes);  // Castagnoli's polynomial, reflected: 0x82f63b78
constexpr std::uint32_t masked_crc(std::uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xa282ead8u; }

class RecordFile {
 public:
  explicit RecordFile(const std::string& path);  // walks the lengths; throws Error naming file, record and byte
  std::int64_t size() const { return static_cast<std::int64_t>(records_.size()); }
  std::string_view record(std::int64_t i) const;  // throws Error when its checksum is another
  std::string name(std::int64_t i) const;         // "x.tfrecord, record 3 (byte 2310)", for messages
  const std::string& path() const { return path_; }

 private:
  struct Place {
    std::size_t at, bytes;  // of the data
  };
  std::string path_, unpacked_;
  std::unique_ptr<MappedFile> file_;
  std::string_view text_;
  std::vector<Place> records_;
};

using ExampleValue = std::variant<std::vector<std::int64_t>, std::vector<float>, std::vector<std::string>>;
using Example = std::map<std::string, ExampleValue, std::less<>>;
// Numbers packed or not. Unknown fields are passed over, as protobuf wants. `name` stands in messages.
Example parse_example(std::string_view message, const std::string& name);
// The integers under `key`; throws Error naming the keys there are, or what else stands there.
const std::vector<std::int64_t>& integers_of(const Example&, std::string_view key, const std::string& name);

}  // namespace quadrille
