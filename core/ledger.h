// SPDX-License-Identifier: Apache-2.0
// What a rank did: every op, message and wait, with its bill. A real run fills it with measured times, the counting run
// with none; both through the same code, so that a plan cannot drift from a run. Totals are always kept, the entries
// themselves only when asked for (--trace). One Ledger belongs to one thread: the rank's own, or the one beside it that
// carries messages (parallelism/courier.h), whose ledger the rank's takes over from time to time.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace quadrille {

// The bill of one op on one rank. FLOPs are those of matrix products and convolutions only (2 per multiply-add), the
// convention of published utilisations; element-wise work is not in it.
struct Cost {
  double flops = 0;       // executed
  double skipped = 0;     // not executed though the full model formula counts it (causal blocks above the diagonal)
  double recomputed = 0;  // part of `flops` that was done before (attention scores rebuilt in backward)
  double bytes = 0;       // least memory traffic
  Cost& operator+=(const Cost& o) {
    flops += o.flops, skipped += o.skipped, recomputed += o.recomputed, bytes += o.bytes;
    return *this;
  }
};

// Executed FLOPs split by why they were done; the first four add up to what ran.
struct Work {
  double useful = 0, recomputed = 0, repeated = 0, padded = 0;
  double skipped = 0;  // like Cost::skipped, already divided among replicas like `useful`
  double executed() const { return useful + recomputed + repeated + padded; }
  Work& operator+=(const Work& o) {
    useful += o.useful, recomputed += o.recomputed, repeated += o.repeated, padded += o.padded, skipped += o.skipped;
    return *this;
  }
  Work operator-(const Work& o) const {
    return {useful - o.useful, recomputed - o.recomputed, repeated - o.repeated, padded - o.padded,
            skipped - o.skipped};
  }
};

// Messages of one kind over one group of mesh axes.
struct Traffic {
  std::int64_t calls = 0;
  double elements = 0;  // what a ring sends per rank: 2(n-1)/n of an all-reduced tensor, (n-1)/n of a gathered one
  double bytes = 0;
  double seconds = 0;  // from the call to its completion as this rank saw it, waiting for others included
  double exposed = 0;  // part of them in which the rank's own thread stood still
  Traffic& operator+=(const Traffic& o) {
    calls += o.calls, elements += o.elements, bytes += o.bytes, seconds += o.seconds, exposed += o.exposed;
    return *this;
  }
};

struct Entry {
  enum class Kind : std::uint8_t { op, message, wait, phase } kind = Kind::op;
  std::string name;   // "linear layers.0.up", "all_reduce"
  std::string group;  // of a message: the mesh axes, "data+x"
  Cost cost;
  double begin = 0, end = 0;  // seconds since the ledger's birth; equal in a counting run
  int track = 0;              // 0: the rank's own thread, 1: the one beside it; set by the ledger
};

class Ledger {
 public:
  // `track` 1: of a thread beside the rank's own. Its messages hold up nobody: none of their seconds is exposed.
  explicit Ledger(bool keep_entries = false, int track = 0);
  bool keeps_entries() const { return keep_entries_; }
  double now() const;  // seconds since birth, monotonic

  void work(const Work& w) { work_ += w; }
  void message(std::string_view kind, std::string_view group, const Traffic&);
  void op(std::string name, const Cost&);  // an entry of its own, ending now; begins where the last one ended
  void phase(std::string_view name, double seconds) { phases_[std::string(name)] += seconds; }
  void entry(Entry);
  // Adds what the other ledger holds, its times on this one's clock, and empties it.
  void take_over(Ledger& other);

  using MessageKey = std::pair<std::string, std::string>;  // group, kind
  const Work& work() const { return work_; }
  const std::map<MessageKey, Traffic>& messages() const { return messages_; }
  const std::map<std::string, double>& phases() const { return phases_; }
  const std::vector<Entry>& entries() const { return entries_; }
  void clear();  // totals and entries; the clock goes on

 private:
  bool keep_entries_;
  int track_;
  std::int64_t birth_nanoseconds_;
  double last_end_ = -1;  // of an entry of this thread; negative: none yet
  Work work_;
  std::map<MessageKey, Traffic> messages_;
  std::map<std::string, double> phases_;
  std::vector<Entry> entries_;
};

}  // namespace quadrille
