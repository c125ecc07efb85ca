// SPDX-License-Identifier: Apache-2.0
#include "core/ledger.h"

#include <chrono>

namespace quadrille {

namespace {
std::int64_t nanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}
}  // namespace

Ledger::Ledger(bool keep_entries) : keep_entries_(keep_entries), birth_nanoseconds_(nanoseconds()) {}

double Ledger::now() const { return static_cast<double>(nanoseconds() - birth_nanoseconds_) * 1e-9; }

void Ledger::message(std::string_view kind, std::string_view group, const Traffic& traffic) {
  messages_[{std::string(group), std::string(kind)}] += traffic;
}

void Ledger::op(std::string name, const Cost& cost) {
  const double end = now(), begin = entries_.empty() ? end : entries_.back().end;
  entry({Entry::Kind::op, std::move(name), {}, cost, begin, end});
}

void Ledger::clear() {
  work_ = {};
  messages_.clear();
  phases_.clear();
  entries_.clear();
}

}  // namespace quadrille
