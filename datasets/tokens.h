// SPDX-License-Identifier: Apache-2.0
// A long row of ids, wherever it lies, and the data set that cuts it into windows. Every file format is a Tokens; what
// a window is, is decided once, here.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "datasets/dataset.h"
#include "datasets/mapped_file.h"

namespace quadrille {

class Tokens {
 public:
  virtual ~Tokens() = default;
  virtual std::int64_t count() const = 0;
  virtual bool holds(std::int64_t tokens) const { return count() >= tokens; }  // see Dataset::holds
  virtual std::int64_t vocabulary() const = 0;
  // Ids [first, first + ids.size()), each checked against the vocabulary.
  virtual void read(std::int64_t first, std::span<std::int32_t> ids) const = 0;
  virtual double units(Slice tokens) const = 0;  // what these tokens stand for
  virtual std::string unit() const = 0;          // "character" or "token"
  virtual std::string name() const = 0;          // for messages
  virtual void scan() const;                     // reads every id once
  virtual Json description() const = 0;
};

// Integers in files, little-endian as they lie: one piece per file or per sequence, read as if they were one row.
struct Piece {
  std::shared_ptr<const MappedFile> file;
  std::int64_t offset = 0;  // of the first integer, in bytes; need not be aligned
  std::int64_t count = 0;
  std::int64_t base = 0;   // byte where token 0 of the file lies, for messages
  std::int64_t first = 0;  // tokens before this piece; set by FileTokens
};
enum class IdType : std::uint8_t { u8, i8, u16, i16, u32, i32, i64 };
std::int64_t size_of(IdType);

class FileTokens : public Tokens {
 public:
  FileTokens(std::vector<Piece> pieces, IdType type, std::int64_t vocabulary, Json description);
  std::int64_t count() const override { return count_; }
  std::int64_t vocabulary() const override { return vocabulary_; }
  void read(std::int64_t first, std::span<std::int32_t> ids) const override;
  double units(Slice tokens) const override { return static_cast<double>(tokens.count); }
  std::string unit() const override { return "token"; }
  std::string name() const override;
  Json description() const override { return description_; }
  const std::vector<Piece>& pieces() const { return pieces_; }

 private:
  [[noreturn]] void refuse(const Piece&, std::int64_t position, std::int64_t id) const;
  std::vector<Piece> pieces_;
  IdType type_;
  std::int64_t count_ = 0, vocabulary_;
  Json description_;
};

// Training: floor((count - 1) / tokens) windows. In epoch e the cut is moved right by an addressed offset in [0,
// tokens), 0 in epoch 0. A window that the shift pushes over the end takes the head of the text instead, so that every
// epoch has the same number of windows. Refuses fewer than tokens + 1 ids.
std::unique_ptr<Dataset> training_windows(std::shared_ptr<const Tokens>, std::int64_t tokens);
// Evaluation: ceil((count - 1) / tokens) windows strided by their length; labels past the end are -1. So every token
// but the first is predicted exactly once. Refuses fewer than 2 ids.
std::unique_ptr<Dataset> evaluation_windows(std::shared_ptr<const Tokens>, std::int64_t tokens);

}  // namespace quadrille
