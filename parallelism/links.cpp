// SPDX-License-Identifier: Apache-2.0
#include "parallelism/links.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "core/error.h"
#include "parallelism/forwarding_communicator.h"
#include "parallelism/message.h"
#include "parallelism/world.h"

namespace quadrille {

Links links_from(const Json& json) {
  Reader reader(json, "links");
  const Links links{.bandwidth_bytes_per_s = reader.number("bandwidth_bytes_per_s"),
                    .latency_s = reader.number("latency_s", 0)};
  reader.done();
  require(links.bandwidth_bytes_per_s > 0, "links.bandwidth_bytes_per_s is {}: more than 0 is wanted",
          links.bandwidth_bytes_per_s);
  require(links.latency_s >= 0, "links.latency_s is {}: 0 or more is wanted", links.latency_s);
  return links;
}

Links links_from_text(std::string_view text) {
  const auto comma = text.find(',');
  const std::string latency(comma == std::string_view::npos ? "0" : text.substr(comma + 1));
  const auto number = [&](const std::string& part) {
    try {
      return parse_json(part, "links").number();
    } catch (const Error&) {
      fail("{} is no link: wanted BYTES_PER_S or BYTES_PER_S,SECONDS, for example 1e9 or 1e9,1e-5", text);
    }
  };
  Json json = Json::object();
  json.set("bandwidth_bytes_per_s", number(std::string(text.substr(0, comma))));
  json.set("latency_s", number(latency));
  try {
    return links_from(json);
  } catch (const Error& error) {
    fail("{}: {}", text, error.what());
  }
}

// While k messages are under way, `moved` grows by bytes_per_s / k; the next one to be through is the one of the
// smallest goal.
void SharedLink::advance(double now) {
  while (!goals_.empty()) {
    const double share = bytes_per_s_ / static_cast<double>(goals_.size()), next = *goals_.begin();
    const double until = at_ + (next - moved_) / share;
    if (until > now) {
      moved_ += std::max(0.0, now - at_) * share;
      break;
    }
    moved_ = next, at_ = until;
    goals_.erase(goals_.begin());
  }
  at_ = std::max(at_, now);
}

double SharedLink::begin(double now, double bytes) {
  advance(now);
  const double goal = moved_ + bytes;
  if (bytes > 0) goals_.insert(goal);
  return goal;
}

double SharedLink::remaining(double now, double goal) {
  advance(now);
  double seconds = 0, moved = moved_;
  auto under_way = static_cast<double>(goals_.size());
  for (const double next : goals_) {
    if (next > goal) break;
    seconds += (next - moved) * under_way / bytes_per_s_;
    moved = next;
    --under_way;
  }
  return seconds;
}

namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

// The link of one rank, used by all threads that send for it.
class Line {
 public:
  explicit Line(const Links& links) : links_(links), shared_(links.bandwidth_bytes_per_s) {}

  struct Passage {
    double goal = 0, earliest = 0;  // of the bytes; of the whole message, as if it were alone
  };
  // Of a message that has the link for itself.
  double seconds_alone(double bytes, int steps) const {
    return links_.latency_s * steps + bytes / links_.bandwidth_bytes_per_s;
  }
  const Links& links() const { return links_; }
  Passage begin(double bytes, int steps) {
    const std::lock_guard lock(mutex_);
    const double now = this->now();
    changed_.notify_all();  // the others are slower from now on
    return {shared_.begin(now, bytes), now + seconds_alone(bytes, steps)};
  }
  void wait(const Passage& passage) {
    std::unique_lock lock(mutex_);
    for (;;) {
      const double now = this->now(), left = std::max(shared_.remaining(now, passage.goal), passage.earliest - now);
      if (left <= 0) return;
      changed_.wait_for(lock, Seconds(std::min(left, 60.0)));
    }
  }

 private:
  double now() const { return Seconds(Clock::now() - birth_).count(); }
  const Links links_;
  const Clock::time_point birth_ = Clock::now();
  std::mutex mutex_;
  std::condition_variable changed_;
  SharedLink shared_;
};

class OverLinks : public ForwardingCommunicator {
 public:
  OverLinks(std::unique_ptr<Communicator> right, std::shared_ptr<Line> line, Ledger* ledger)
      : ForwardingCommunicator(std::move(right)), line_(std::move(line)), ledger_(ledger) {}

  Ticket all_reduce(const Tensor& inout, Reduce reduce, Stream& s) override {
    return collective({Operation::all_reduce, inout.dtype(), reduce, -1, inout.count()}, s,
                      [&] { return right_->all_reduce(inout, reduce, s); });
  }
  Ticket all_gather(const Tensor& full, const Tensor& mine, Stream& s) override {
    return collective({Operation::all_gather, mine.dtype(), Reduce::sum, -1, mine.count()}, s,
                      [&] { return right_->all_gather(full, mine, s); });
  }
  Ticket reduce_scatter(const Tensor& mine, const Tensor& full, Reduce reduce, Stream& s) override {
    return collective({Operation::reduce_scatter, mine.dtype(), reduce, -1, mine.count()}, s,
                      [&] { return right_->reduce_scatter(mine, full, reduce, s); });
  }
  Ticket all_to_all(const Tensor& out, const Tensor& in, Stream& s) override {
    return collective({Operation::all_to_all, in.dtype(), Reduce::sum, -1, in.count()}, s,
                      [&] { return right_->all_to_all(out, in, s); });
  }
  // Along a ring every rank but the last hands all of it on.
  Ticket broadcast(const Tensor& inout, int root, Stream& s) override {
    return collective({Operation::broadcast, inout.dtype(), Reduce::sum, rank(), inout.count()}, s,
                      [&] { return right_->broadcast(inout, root, s); });
  }
  Ticket send(const Tensor& tensor, int to, Stream& s) override {
    const Header header{Operation::send, tensor.dtype(), Reduce::sum, -1, tensor.count()};
    slowed(header, 1, [] {});
    return right_->send(tensor, to, s);
  }
  std::unique_ptr<Communicator> split(const std::function<int(int rank)>& colour_of, std::string name) override {
    return std::make_unique<OverLinks>(right_->split(colour_of, std::move(name)), line_, ledger_);
  }
  void report_to(Ledger* ledger) override {
    ledger_ = ledger;
    right_->report_to(ledger);
  }

 private:
  template <class Message>
  Ticket collective(const Header& header, Stream& stream, Message message) {
    if (size() == 1) return message();
    const int steps = (header.operation == Operation::all_reduce ? 2 : 1) * (size() - 1);
    slowed(header, steps, [&] { message().wait(stream); });
    return {};
  }
  // What the message took beyond what its own group has booked is added, so that the sum is the whole time.
  template <class Message>
  void slowed(const Header& header, int steps, Message message) {
    const std::string kind = kind_of(header);
    const double begin = ledger_ ? ledger_->now() : 0, booked = seconds_booked(kind);
    const double bytes = ring_traffic(header, rank(), size()).bytes;
    refuse_too_slow(kind, bytes, steps);
    const Line::Passage passage = line_->begin(bytes, steps);
    message();
    const double own_end = ledger_ ? ledger_->now() : 0;
    line_->wait(passage);
    if (!ledger_) return;
    const double end = ledger_->now(), added = end - begin - (seconds_booked(kind) - booked);
    ledger_->message(kind, name(), {0, 0, 0, added, added});
    if (ledger_->keeps_entries()) ledger_->entry({Entry::Kind::message, kind + " (link)", name(), {}, own_end, end});
  }
  // All ranks of a collective find the same; who receives from a rank that has found it hears of it.
  void refuse_too_slow(const std::string& kind, double bytes, int steps) const {
    const Links& links = line_->links();
    const double seconds = line_->seconds_alone(bytes, steps);
    if (seconds <= links.timeout_s) return;
    throw WorldFailure(
        fmt::format("the emulated links are too slow: {} over {} sends {} bytes in {} step{} and needs {:.4g} s at {} "
                    "bytes/s and {} s of latency, but ranks wait {} s at most; give --links more bytes per second or "
                    "less latency, or a --timeout above {:.4g}",
                    kind, name(), bytes, steps, steps == 1 ? "" : "s", seconds, links.bandwidth_bytes_per_s,
                    links.latency_s, links.timeout_s, seconds));
  }
  double seconds_booked(const std::string& kind) const {
    if (!ledger_) return 0;
    const auto found = ledger_->messages().find({name(), kind});
    return found == ledger_->messages().end() ? 0 : found->second.seconds;
  }

  std::shared_ptr<Line> line_;
  Ledger* ledger_;
};

}  // namespace

std::unique_ptr<Communicator> over_links(std::unique_ptr<Communicator> world, const Links& links) {
  return std::make_unique<OverLinks>(std::move(world), std::make_shared<Line>(links), nullptr);
}

}  // namespace quadrille
