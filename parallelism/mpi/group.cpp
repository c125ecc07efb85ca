// SPDX-License-Identifier: Apache-2.0
#include "parallelism/mpi/group.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/error.h"

namespace quadrille::mpi {

namespace {

constexpr std::int64_t kBlockBytes = std::int64_t{1} << 20;  // of each rank's part, per round of a reduction

// The same on all members, different for all groups that share two ranks: a group is known by the path of splits that
// led to it, for groups with one path have no rank in common. (Mixing steps of splitmix64.)
std::uint64_t child_context(std::uint64_t parent, std::uint64_t ordinal, const std::string& name) {
  std::uint64_t x = parent + 0x9e3779b97f4a7c15u * (ordinal + 1);
  for (const char c : name) x = (x ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

}  // namespace

// One piece to and from every other member, each behind its envelope.
class MpiGroup::Round : public Wait {
 public:
  Round(MpiGroup& group, const Header& header, const Pieces& out, const Pieces& in)
      : Wait(header, group.link_->name, group.link_->world_ranks),
        group_(group),
        link_(*group.link_),
        out_(out),
        in_(in) {
    sleeps = group.sleeps();
  }

  void start() override {
    const int size = group_.size();
    for (int step = 1; step < size; ++step) {
      const int peer = (link_.rank + step) % size;
      const Piece& piece = in_[at(peer)];
      group_.arrivals_[at(peer)].expect(*link_.transport, link_.world_ranks[at(peer)], link_.tag, piece.data,
                                        piece.bytes);
    }
    for (int step = 1; step < size; ++step) {  // each begins with another peer, so that nobody is flooded
      const int peer = (link_.rank + step) % size;
      const Piece& piece = out_[at(peer)];
      group_.departures_[at(peer)].start(*link_.transport, link_.world_ranks[at(peer)], link_.tag,
                                         {link_.context, header, piece.bytes}, piece.data);
    }
  }

  Progress step() override {
    Progress all = Progress::finished;
    for (int peer = 0; peer < group_.size(); ++peer) {
      if (peer == link_.rank) continue;
      const Progress one = group_.arrivals_[at(peer)].step([&](const Envelope& envelope) { accept(peer, envelope); });
      if (one == Progress::flowing)
        all = Progress::flowing;
      else if (one == Progress::idle && all == Progress::finished)
        all = Progress::idle;
      if (!group_.departures_[at(peer)].done() && all == Progress::finished) all = Progress::idle;
    }
    return all;
  }

  void stop() noexcept override {
    for (Arrival& arrival : group_.arrivals_) arrival.take_back();
    for (Departure& departure : group_.departures_) departure.stop();
  }

  std::vector<int> missing() const override {
    std::vector<int> peers;
    for (int peer = 0; peer < group_.size(); ++peer)
      if (peer != link_.rank && !group_.arrivals_[at(peer)].done()) peers.push_back(peer);
    if (!peers.empty()) return peers;
    for (int peer = 0; peer < group_.size(); ++peer)  // all is here, but somebody does not take what was sent
      if (peer != link_.rank && !group_.departures_[at(peer)].done()) peers.push_back(peer);
    return peers;
  }

 private:
  static std::size_t at(int peer) { return static_cast<std::size_t>(peer); }
  void accept(int peer, const Envelope& envelope) {
    if (envelope.context != link_.context || envelope.header != header)
      throw Disagreement{mismatch(link_.name, link_.rank, header, peer, envelope.header)};
  }
  MpiGroup& group_;
  Link& link_;
  const Pieces &out_, &in_;
};

// A receive that was named. Those from one rank are completed in the order in which they were named.
struct MpiGroup::Expected {
  Header header;
  Tensor tensor;  // empty once the ticket was dropped: the numbers are thrown away
  std::vector<std::byte> nowhere;
  Arrival arrival;
  bool started = false;
};

class MpiGroup::Receive : public Wait {
 public:
  Receive(Link& link, Expected& expected, int from)
      : Wait(expected.header, link.name, link.world_ranks), link_(link), expected_(expected), from_(from) {
    sleeps = link.sleeps;
  }
  void start() override {
    if (std::exchange(expected_.started, true)) return;
    const std::int64_t bytes = header.count * size_of(header.dtype);
    if (!expected_.tensor) expected_.nowhere.resize(static_cast<std::size_t>(bytes));
    expected_.arrival.expect(*link_.transport, link_.world_ranks[static_cast<std::size_t>(from_)], link_.tag + 1,
                             expected_.tensor ? expected_.tensor.data() : expected_.nowhere.data(), bytes);
  }
  Progress step() override {
    return expected_.arrival.step([&](const Envelope& envelope) {
      if (envelope.context != link_.context || !fits(header, envelope.header))
        throw Disagreement{mismatch(link_.name, link_.rank, header, from_, envelope.header)};
    });
  }
  void stop() noexcept override { expected_.arrival.take_back(); }
  std::vector<int> missing() const override { return {from_}; }

 private:
  Link& link_;
  Expected& expected_;
  int from_;
};

class MpiGroup::Receipt : public Ticket::Pending {
 public:
  Receipt(std::shared_ptr<Link> link, std::shared_ptr<Queue> queue, std::shared_ptr<Expected> expected, int from)
      : link_(std::move(link)), queue_(std::move(queue)), expected_(std::move(expected)), from_(from) {}
  ~Receipt() override {
    expected_->tensor = {};  // its device may not outlive the ticket
  }
  void wait(Stream&) override {
    while (!expected_->started || !expected_->arrival.done()) {
      Receive receive(*link_, *queue_->front(), from_);
      link_->transport->drive(receive);
      queue_->pop_front();
    }
    expected_->tensor = {};
  }

 private:
  std::shared_ptr<Link> link_;
  std::shared_ptr<Queue> queue_;
  std::shared_ptr<Expected> expected_;
  int from_;
};

MpiGroup::MpiGroup(std::shared_ptr<Transport> transport, std::uint64_t context, std::vector<int> world_ranks, int rank,
                   std::string name)
    : Group(rank, static_cast<int>(world_ranks.size()), name, Moves::host_numbers),
      link_(std::make_shared<Link>()),
      departures_(static_cast<std::size_t>(size())),
      arrivals_(static_cast<std::size_t>(size())) {
  const int tag = transport->open_tags(context, name);
  *link_ = {std::move(transport), context, std::move(world_ranks), tag, std::move(name), rank, false};
}

MpiGroup::~MpiGroup() { link_->transport->close_tags(link_->tag); }

void MpiGroup::round(const Header& header, const Pieces& out, const Pieces& in) {
  Round round(*this, header, out, in);
  link_->transport->drive(round);
}

MpiGroup::Pieces MpiGroup::same(const void* data, std::int64_t bytes) const {
  auto* first = static_cast<std::byte*>(const_cast<void*>(data));  // pieces that go out are only read
  return Pieces(static_cast<std::size_t>(size()), {first, bytes});
}

MpiGroup::Pieces MpiGroup::parts(void* data, std::int64_t bytes) const {
  Pieces pieces;
  for (int peer = 0; peer < size(); ++peer)
    pieces.push_back({bytes ? static_cast<std::byte*>(data) + peer * bytes : nullptr, bytes});
  return pieces;
}

void MpiGroup::collective(const Header& header, const Tensor& out, const Tensor& in) {
  const std::int64_t bytes = header.count * size_of(header.dtype), part = bytes / size();
  const Pieces nothing(static_cast<std::size_t>(size()));
  const auto own = [&](const Pieces& to, const Pieces& from) {
    const auto me = static_cast<std::size_t>(rank());
    if (to[me].bytes > 0 && to[me].data != from[me].data)
      std::memcpy(to[me].data, from[me].data, static_cast<std::size_t>(to[me].bytes));
  };
  switch (header.operation) {
    case Operation::all_reduce:
      if (bytes <= kInline)
        all_reduce_small(header, static_cast<std::byte*>(out.data()));
      else
        all_reduce_large(header, static_cast<std::byte*>(out.data()));
      break;
    case Operation::reduce_scatter:
      combine(
          header, static_cast<const std::byte*>(in.data()),
          [&](int peer) {
            return Range{peer * header.count, header.count};
          },
          static_cast<std::byte*>(out.data()));
      break;
    case Operation::all_gather:
      own(parts(out.data(), bytes), same(in.data(), bytes));
      round(header, same(in.data(), bytes), parts(out.data(), bytes));
      break;
    case Operation::all_to_all:
      own(parts(out.data(), part), parts(in.data(), part));
      round(header, parts(in.data(), part), parts(out.data(), part));
      break;
    case Operation::broadcast: {  // everyone sends an envelope to everyone: a wrong root must be noticed by all
      Pieces from_root = nothing;
      if (rank() == header.root) {
        round(header, same(out.data(), bytes), nothing);
      } else {
        from_root[static_cast<std::size_t>(header.root)] = {static_cast<std::byte*>(out.data()), bytes};
        round(header, nothing, from_root);
      }
      break;
    }
    case Operation::barrier:
      round(header, nothing, nothing);
      break;
    case Operation::exchange:
    case Operation::send:
    case Operation::receive:
      break;
  }
}

// Everyone's numbers to everyone, in one round: half the latency.
void MpiGroup::all_reduce_small(const Header& header, std::byte* inout) {
  const std::int64_t bytes = header.count * size_of(header.dtype);
  staging_.resize(std::max(staging_.size(), static_cast<std::size_t>(bytes * size())));
  const Pieces in = parts(staging_.data(), bytes);
  round(header, same(inout, bytes), in);
  std::vector<const void*> numbers;
  for (int peer = 0; peer < size(); ++peer)
    numbers.push_back(peer == rank() ? inout : in[static_cast<std::size_t>(peer)].data);
  combine_in_rank_order(header.reduce, header.dtype, numbers, header.count, inout);
}

void MpiGroup::all_reduce_large(const Header& header, std::byte* inout) {
  const std::int64_t width = size_of(header.dtype);
  const auto range = [&](int peer) { return cache_aligned_part(header.count, header.dtype, size(), peer); };
  combine(header, inout, range, inout + range(rank()).first * width);
  const Range mine = range(rank());
  Pieces in;
  for (int peer = 0; peer < size(); ++peer)
    in.push_back({inout + range(peer).first * width, range(peer).count * width});
  round(header, same(inout + mine.first * width, mine.count * width), in);
}

// Cut into blocks so that the staging place stays small, whatever the tensor.
void MpiGroup::combine(const Header& header, const std::byte* source, const std::function<Range(int)>& range,
                       std::byte* out) {
  const std::int64_t width = size_of(header.dtype), block = kBlockBytes / width;
  std::int64_t longest = 0;
  for (int peer = 0; peer < size(); ++peer) longest = std::max(longest, range(peer).count);
  const auto cut = [&](int peer, std::int64_t first) {
    const Range whole = range(peer);
    const std::int64_t begin = std::min(first, whole.count);
    return Range{whole.first + begin, std::min(block, whole.count - begin)};
  };
  staging_.resize(std::max(staging_.size(), static_cast<std::size_t>(std::min(block, longest) * width * size())));
  std::int64_t first = 0;
  do {  // at least once: the envelopes are compared even if there are no numbers
    const Range mine = cut(rank(), first);
    Pieces out_pieces;
    for (int peer = 0; peer < size(); ++peer) {
      const Range theirs = cut(peer, first);
      out_pieces.push_back({const_cast<std::byte*>(source) + theirs.first * width, theirs.count * width});
    }
    const Pieces in = parts(staging_.data(), mine.count * width);
    round(header, out_pieces, in);
    std::vector<const void*> numbers;
    for (int peer = 0; peer < size(); ++peer)
      numbers.push_back(peer == rank() ? out_pieces[static_cast<std::size_t>(peer)].data
                                       : in[static_cast<std::size_t>(peer)].data);
    if (mine.count > 0) combine_in_rank_order(header.reduce, header.dtype, numbers, mine.count, out + first * width);
    first += block;
  } while (first < longest);
}

void MpiGroup::post(const Header& header, const Tensor& tensor, int to) {
  link_->transport->post(link_->world_ranks[static_cast<std::size_t>(to)], link_->tag + 1,
                         {link_->context, header, tensor.bytes()}, tensor.data(), name(), to);
}

std::shared_ptr<Ticket::Pending> MpiGroup::await(const Header& header, const Tensor& tensor, int from) {
  link_->transport->refuse_if_poisoned();
  link_->sleeps = sleeps();
  auto& queue = queues_[from];
  if (!queue) queue = std::make_shared<Queue>();
  auto expected = std::make_shared<Expected>();
  expected->header = header, expected->tensor = tensor;
  queue->push_back(expected);
  return std::make_shared<Receipt>(link_, queue, expected, from);
}

// First the lengths, then the texts.
std::vector<Json> MpiGroup::exchange_values(const Header& header, const Json& mine) {
  const std::string text = mine.text();
  auto length = static_cast<std::int64_t>(text.size());
  std::vector<std::int64_t> lengths(static_cast<std::size_t>(size()));
  round(header, same(&length, sizeof(length)), parts(lengths.data(), sizeof(length)));
  std::vector<std::string> texts;
  for (const std::int64_t each : lengths) texts.emplace_back(static_cast<std::size_t>(each), ' ');
  texts[static_cast<std::size_t>(rank())] = text;
  Pieces in;
  for (std::string& each : texts)
    in.push_back({reinterpret_cast<std::byte*>(each.data()), static_cast<std::int64_t>(each.size())});
  round(header, same(text.data(), length), in);
  std::vector<Json> values;
  for (std::size_t peer = 0; peer < texts.size(); ++peer)
    values.push_back(parse_json(texts[peer], fmt::format("rank {} of {}", peer, name())));
  return values;
}

std::unique_ptr<Group> MpiGroup::subgroup(std::vector<int> members, int place, std::uint64_t ordinal, int,
                                          std::string name) {
  link_->transport->refuse_if_poisoned();
  for (int& member : members) member = link_->world_ranks[static_cast<std::size_t>(member)];
  const std::uint64_t context = child_context(link_->context, ordinal, name);
  return std::make_unique<MpiGroup>(link_->transport, context, std::move(members), place, std::move(name));
}

}  // namespace quadrille::mpi
