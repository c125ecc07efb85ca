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

Ledger::Ledger(bool keep_entries, int track)
    : keep_entries_(keep_entries), track_(track), birth_nanoseconds_(nanoseconds()) {}

double Ledger::now() const { return static_cast<double>(nanoseconds() - birth_nanoseconds_) * 1e-9; }

void Ledger::message(std::string_view kind, std::string_view group, const Traffic& traffic) {
  Traffic& sum = messages_[{std::string(group), std::string(kind)}];
  const double exposed = track_ == 0 ? sum.exposed + traffic.exposed : 0;
  sum += traffic;
  sum.exposed = exposed;
}

void Ledger::entry(Entry e) {
  if (!keep_entries_) return;
  e.track = track_;
  last_end_ = e.end;
  entries_.push_back(std::move(e));
}

void Ledger::take_over(Ledger& other) {
  work_ += other.work_;
  for (const auto& [key, traffic] : other.messages_) messages_[key] += traffic;
  for (const auto& [name, seconds] : other.phases_) phases_[name] += seconds;
  const double later = static_cast<double>(other.birth_nanoseconds_ - birth_nanoseconds_) * 1e-9;
  for (Entry& e : other.entries_) {
    if (!keep_entries_) break;
    e.begin += later, e.end += later;
    entries_.push_back(std::move(e));
  }
  other.clear();
}

void Ledger::op(std::string name, const Cost& cost) {
  const double end = now(), begin = last_end_ < 0 ? end : last_end_;
  entry({Entry::Kind::op, std::move(name), {}, cost, begin, end});
}

void Ledger::clear() {
  work_ = {};
  messages_.clear();
  phases_.clear();
  entries_.clear();
  last_end_ = -1;
}

}  // namespace quadrille
