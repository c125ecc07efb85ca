// SPDX-License-Identifier: Apache-2.0
#include "parallelism/courier.h"

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "core/error.h"
#include "parallelism/message.h"
#include "parallelism/world.h"

namespace quadrille {

namespace {

// What went wrong, to be thrown on another thread: a new exception each time, so that no two threads share one.
struct Failure {
  enum class Kind : std::uint8_t { error, world, poisoned } kind = Kind::error;
  std::string text;
  [[noreturn]] void raise() const {
    if (kind == Kind::world) throw WorldFailure(text);
    if (kind == Kind::poisoned) throw Poisoned(text);
    throw Error(text);
  }
};

struct Job {
  std::shared_ptr<Communicator> group;
  std::function<Ticket(Communicator&, Stream&)> message;  // keeps the tensors
  std::shared_ptr<Event> ready;                           // when the numbers that go out are there
  Device* device = nullptr;
  bool over = false;  // this and the next: guarded by the office
  std::optional<Failure> failure;
};

// Between two looks after a message that was sent: its receiver can wait as long without noticing.
constexpr auto kBetweenLooks = std::chrono::microseconds(200);

// The failure, if there was one; the world has been failed then.
std::optional<Failure> carry(const Job& job) {
  Failure failure;
  try {
    const auto stream = job.device->make_stream();
    job.ready->block_host();
    job.message(*job.group, *stream).wait(*stream);
    return {};
  } catch (const Poisoned& error) {
    failure = {Failure::Kind::poisoned, error.what()};
  } catch (const WorldFailure& error) {
    failure = {Failure::Kind::world, error.what()};
  } catch (const std::exception& error) {
    failure = {Failure::Kind::error, error.what()};
  } catch (...) {
    failure = {Failure::Kind::error, "an exception of unknown type"};
  }
  job.group->poison(failure.text);  // unless it has failed already
  return failure;
}

}  // namespace

class Courier::Office {
 public:
  explicit Office(bool keep_entries) : of_the_thread_(keep_entries, 1), account_(keep_entries, 1) {}

  // The thread's work, until `close`: then the rest of the queue, and out.
  void serve() {
    std::unique_lock lock(mutex_);
    for (;;) {
      await_work(lock);
      if (queue_.empty()) return;
      std::shared_ptr<Job> job = std::move(queue_.front());
      queue_.pop_front();
      under_way_ = job->group;
      lock.unlock();
      const std::optional<Failure> failure = carry(*job);
      const bool leaving = !failure && job->group->help_sends();
      lock.lock();
      if (leaving) sent_in_ = job->group;
      account_.take_over(of_the_thread_);
      job->over = true, job->failure = failure;
      if (failure) drop_queue(*failure);
      over_.notify_all();
      lock.unlock();
      job.reset();  // and with it the tensors of a dropped ticket, before anyone is told that the office is idle
      lock.lock();
      under_way_.reset();
      over_.notify_all();
    }
  }

  // Something was sent in this group: its way is helped along while nothing is carried.
  void look_after(const std::shared_ptr<Communicator>& group) {
    {
      const std::lock_guard lock(mutex_);
      sent_in_ = group;
      ++sends_;
    }
    posted_.notify_one();
  }

  void post(std::shared_ptr<Job> job) {
    {
      const std::lock_guard lock(mutex_);
      if (failure_) failure_->raise();
      queue_.push_back(std::move(job));
    }
    posted_.notify_one();
  }

  // `before_sleep` is called if the calling thread has to sleep.
  std::optional<Failure> wait(const Job& job, const std::function<void()>& before_sleep) {
    std::unique_lock lock(mutex_);
    if (!job.over) {
      before_sleep();
      over_.wait(lock, [&] { return job.over; });
    }
    return job.failure;
  }

  void drain() {
    std::unique_lock lock(mutex_);
    over_.wait(lock, [this] { return idle(); });
    if (failure_) failure_->raise();
  }

  void give_up(const std::string& message) noexcept {
    std::shared_ptr<Communicator> group;
    {
      const std::lock_guard lock(mutex_);
      drop_queue({Failure::Kind::poisoned, message});
      group = under_way_;
    }
    over_.notify_all();
    if (group) group->poison(message);
    std::unique_lock lock(mutex_);
    over_.wait(lock, [this] { return idle(); });
  }

  void close() {
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
    }
    posted_.notify_one();
  }

  void settle(Ledger& of_the_rank) {
    const std::lock_guard lock(mutex_);
    of_the_rank.take_over(account_);
  }

  Ledger& of_the_thread() { return of_the_thread_; }
  std::thread thread;

 private:
  bool idle() const { return queue_.empty() && !under_way_; }
  void await_work(std::unique_lock<std::mutex>& lock) {
    const auto called = [this] { return closed_ || !queue_.empty(); };
    while (!called()) {
      const std::shared_ptr<Communicator> sent_in = sent_in_;
      const std::uint64_t seen = sends_;
      if (!sent_in) {
        posted_.wait(lock, [&] { return called() || sent_in_; });
      } else if (!posted_.wait_for(lock, kBetweenLooks, called)) {
        lock.unlock();
        const bool more = sent_in->help_sends();
        lock.lock();
        if (!more && sends_ == seen) sent_in_.reset();
      }
    }
  }
  void drop_queue(const Failure& failure) {
    for (const auto& job : queue_) job->over = true, job->failure = failure;
    queue_.clear();
    if (!failure_) failure_ = failure;
  }

  std::mutex mutex_;  // of all below but the thread's ledger
  std::condition_variable posted_, over_;
  std::deque<std::shared_ptr<Job>> queue_;
  std::shared_ptr<Communicator> under_way_;  // whose message
  std::shared_ptr<Communicator> sent_in_;    // where messages may still be on their way out
  std::uint64_t sends_ = 0;
  bool closed_ = false;
  std::optional<Failure> failure_;  // the first
  Ledger of_the_thread_;            // written while a message is carried
  Ledger account_;                  // completed, and not settled yet
};

Courier::Courier(bool keep_entries)
    : office_(std::make_shared<Office>(keep_entries)), exceptions_(std::uncaught_exceptions()) {
  try {
    office_->thread = std::thread([office = office_.get()] { office->serve(); });
  } catch (const std::system_error& error) {
    fail(
        "the communication thread of a rank could not be started ({}): fewer ranks, a higher limit (ulimit -u), or no "
        "overlap",
        error.what());
  }
}

Courier::~Courier() {
  if (std::uncaught_exceptions() > exceptions_)
    give_up("the rank was left by an exception while its messages were under way");
  office_->close();
  office_->thread.join();
}

void Courier::drain() { office_->drain(); }
void Courier::settle_accounts(Ledger& of_the_rank) { office_->settle(of_the_rank); }
void Courier::give_up(const std::string& message) noexcept { office_->give_up(message); }

// Groups of the same ranks: one that only the courier's thread uses, one for the calling thread; carried letters have
// theirs, see carried_by.
class Courier::Carried : public Communicator {
 public:
  Carried(std::shared_ptr<Office> office, std::unique_ptr<Communicator> inner, Sends sends)
      : office_(std::move(office)),
        direct_(inner->split([](int) { return 0; }, inner->name())),
        carried_(std::move(inner)) {
    for (int rank = 0; sends == Sends::carried && rank < size(); ++rank)
      letters_.push_back(carried_->split([](int) { return 0; }, name()));
    if (!letters_.empty()) own_letters()->sleep_in_waits();
    carried_->sleep_in_waits();
    report_to(nullptr);
  }

  int rank() const override { return direct_->rank(); }
  int size() const override { return direct_->size(); }
  const std::string& name() const override { return direct_->name(); }

  Ticket all_reduce(const Tensor& inout, Reduce reduce, Stream& producer) override {
    return post({Operation::all_reduce, inout.dtype(), reduce}, producer,
                [=](Communicator& group, Stream& stream) { return group.all_reduce(inout, reduce, stream); });
  }
  Ticket all_gather(const Tensor& full, const Tensor& mine, Stream& producer) override {
    return post({Operation::all_gather}, producer,
                [=](Communicator& group, Stream& stream) { return group.all_gather(full, mine, stream); });
  }
  Ticket reduce_scatter(const Tensor& mine, const Tensor& full, Reduce reduce, Stream& producer) override {
    return post({Operation::reduce_scatter, full.dtype(), reduce}, producer,
                [=](Communicator& group, Stream& stream) { return group.reduce_scatter(mine, full, reduce, stream); });
  }
  Ticket all_to_all(const Tensor& out, const Tensor& in, Stream& producer) override {
    return post({Operation::all_to_all}, producer,
                [=](Communicator& group, Stream& stream) { return group.all_to_all(out, in, stream); });
  }
  Ticket broadcast(const Tensor& inout, int root, Stream& producer) override {
    return post({Operation::broadcast}, producer,
                [=](Communicator& group, Stream& stream) { return group.broadcast(inout, root, stream); });
  }
  Ticket send(const Tensor& tensor, int to, Stream& producer) override {
    if (!letters_.empty())
      return post({Operation::send}, own_letters(), producer,
                  [=](Communicator& group, Stream& stream) { return group.send(tensor, to, stream); });
    Ticket sent = direct_->send(tensor, to, producer);
    if (direct_->help_sends()) office_->look_after(carried_);
    return sent;
  }
  Ticket receive(const Tensor& tensor, int from, Stream& producer) override {
    const bool known = from >= 0 && from < static_cast<int>(letters_.size());  // else the group itself refuses it
    return (known ? letters_[static_cast<std::size_t>(from)] : direct_)->receive(tensor, from, producer);
  }
  void barrier() override {
    office_->drain();
    direct_->barrier();
  }
  std::vector<Json> exchange(const Json& mine) override {
    office_->drain();
    return direct_->exchange(mine);
  }
  std::unique_ptr<Communicator> split(const std::function<int(int rank)>& colour_of, std::string name) override {
    auto part = std::make_unique<Carried>(office_, direct_->split(colour_of, std::move(name)),
                                          letters_.empty() ? Sends::at_once : Sends::carried);
    part->report_to(ledger_);
    return part;
  }
  void poison(const std::string& message) noexcept override { direct_->poison(message); }
  void sleep_in_waits() override { direct_->sleep_in_waits(); }
  void report_to(Ledger* ledger) override {
    office_->drain();
    ledger_ = ledger;
    Ledger* beside = ledger ? &office_->of_the_thread() : nullptr;
    direct_->report_to(ledger);
    carried_->report_to(beside);
    for (const auto& group : letters_) group->report_to(ledger);
    if (!letters_.empty()) own_letters()->report_to(beside);
  }

 private:
  class UnderWay;
  using Message = std::function<Ticket(Communicator&, Stream&)>;
  Ticket post(const Header& header, const std::shared_ptr<Communicator>& group, Stream& producer, Message);
  Ticket post(const Header& header, Stream& producer, Message message) {
    return post(header, carried_, producer, std::move(message));
  }
  const std::shared_ptr<Communicator>& own_letters() const { return letters_[static_cast<std::size_t>(rank())]; }

  std::shared_ptr<Office> office_;
  std::shared_ptr<Communicator> direct_, carried_;
  std::vector<std::shared_ptr<Communicator>> letters_;  // by sender; none where sends go at once
  Ledger* ledger_ = nullptr;
};

class Courier::Carried::UnderWay : public Ticket::Pending {
 public:
  UnderWay(std::shared_ptr<Office> office, std::shared_ptr<Job> job, Ledger* ledger, std::string kind,
           std::string group)
      : office_(std::move(office)),
        job_(std::move(job)),
        ledger_(ledger),
        kind_(std::move(kind)),
        group_(std::move(group)) {}

  void wait(Stream&) override {
    std::optional<double> begin;
    const std::optional<Failure> failure = office_->wait(*job_, [&] {
      if (ledger_) begin = ledger_->now();
    });
    if (begin) {
      const double end = ledger_->now();
      ledger_->message(kind_, group_, {0, 0, 0, 0, end - *begin});
      ledger_->entry({Entry::Kind::wait, kind_, group_, {}, *begin, end});
    }
    job_->message = nullptr;  // lets go of the tensors
    if (failure) failure->raise();
  }

 private:
  std::shared_ptr<Office> office_;
  std::shared_ptr<Job> job_;
  Ledger* ledger_;
  std::string kind_, group_;
};

Ticket Courier::Carried::post(const Header& header, const std::shared_ptr<Communicator>& group, Stream& producer,
                              Message message) {
  auto job = std::make_shared<Job>();
  job->group = group, job->message = std::move(message);
  job->ready = producer.record(), job->device = &producer.device();
  auto under_way = std::make_shared<UnderWay>(office_, job, ledger_, kind_of(header), name());
  office_->post(std::move(job));
  return Ticket(std::move(under_way));
}

std::unique_ptr<Communicator> carried_by(Courier& courier, std::unique_ptr<Communicator> inner, Sends sends) {
  return std::make_unique<Courier::Carried>(courier.office_, std::move(inner), sends);
}

}  // namespace quadrille
