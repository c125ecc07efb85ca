// SPDX-License-Identifier: Apache-2.0
#include "tests/cuda/standin/block.h"

#include <fmt/core.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <boost/context/detail/fcontext.hpp>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/cuda/standin/memory.h"
#include "tests/cuda/standin/symbols.h"

constinit thread_local uint3 threadIdx{}, blockIdx{};
constinit thread_local dim3 blockDim{}, gridDim{};
const int warpSize = 32;

namespace standin {
namespace {

namespace context = boost::context::detail;

constexpr unsigned kWarp = 32, kVotes = ~0U;    // kVotes: of all lanes, instead of one lane's value
constexpr std::size_t kStackBytes = 128 << 10;  // touched only as far as used
constexpr std::size_t kPage = 4096;

enum class State : std::uint8_t { fresh, ready, at_barrier, in_warp, done };

std::string text(const Site& site) {
  const std::string_view file = site.file_name();
  return fmt::format("{}:{}", file.substr(file.rfind('/') + 1), site.line());
}

// A thread of the block.
struct Thread {
  State state = State::fresh;
  uint3 index{};
  context::fcontext_t where = nullptr;  // while it waits
  std::byte* stack = nullptr;
  Site site;  // of the barrier or shuffle at which it waits
  unsigned mask = 0, source = 0;
  std::uint64_t value = 0, result = 0;
};

// Stacks with an unreachable page below each, kept for the next block.
class Stacks {
 public:
  Stacks() = default;
  ~Stacks() {
    for (std::byte* s : all_) munmap(s - kStackBytes - kPage, kStackBytes + kPage);
  }
  Stacks(const Stacks&) = delete;
  Stacks& operator=(const Stacks&) = delete;
  std::byte* take() {
    if (free_.empty()) {
      void* p = mmap(nullptr, kStackBytes + kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                     -1, 0);
      if (p == MAP_FAILED) throw std::runtime_error("no memory for the stacks of a block's threads");
      mprotect(p, kPage, PROT_NONE);
      all_.push_back(static_cast<std::byte*>(p) + kPage + kStackBytes);
      free_.push_back(all_.back());
    }
    std::byte* top = free_.back();
    free_.pop_back();
    return top;
  }
  void give(std::byte* top) { free_.push_back(top); }
  void give_all() { free_ = all_; }

 private:
  std::vector<std::byte*> all_, free_;  // highest addresses
};

// A whole warp goes on in one of these orders, drawn once: drawing each anew would take longer than the kernels do.
std::vector<std::array<std::uint8_t, kWarp>> orders_of_lanes() {
  std::vector<std::array<std::uint8_t, kWarp>> all(64);
  std::minstd_rand random;
  for (auto& order : all) {
    for (unsigned l = 0; l < kWarp; ++l) order[l] = static_cast<std::uint8_t>(l);
    std::shuffle(order.begin(), order.end(), random);
  }
  return all;
}

class Runner {
 public:
  void run(const Launch&, std::uint64_t seed);

  // Called from fibres.
  void block_barrier(const Site&);
  std::uint64_t exchange(unsigned mask, std::uint64_t value, unsigned source, const Site&);
  unsigned ballot(unsigned mask, bool, const Site&);
  unsigned lane() const { return current_ % kWarp; }
  [[noreturn]] void fault(const std::string& what);
  bool in_fibre() const { return in_fibre_; }

 private:
  static void fibre(context::transfer_t);
  void run_block();
  void draw_order();
  int next_fresh();              // -1: none left
  context::fcontext_t choose();  // who goes on or starts, made current; null: nobody can
  void landed(context::transfer_t);
  void yield();
  void arrive(unsigned mask, const Site&);
  void release_warp(unsigned warp, unsigned mask);
  void release_block();
  std::string stuck() const;
  std::string place() const;
  bool learn();
  void find_used_variables();

  Launch const* launch_ = nullptr;
  std::minstd_rand random_;
  std::vector<Thread> threads_;
  std::vector<unsigned> order_, ready_;  // fresh threads in the order they start; those that may go on, last first
  std::size_t started_ = 0;
  unsigned current_ = 0, done_ = 0, at_barrier_ = 0;
  bool in_fibre_ = false;
  std::byte* stack_ = nullptr;  // of the running fibre
  context::fcontext_t scheduler_ = nullptr;
  std::vector<unsigned> lanes_in_warp_;  // of each warp, those that wait at a shuffle
  std::vector<std::array<std::uint8_t, kWarp>> lane_orders_ = orders_of_lanes();
  std::string fault_;
  Stacks stacks_;
  std::vector<std::span<std::byte>> variables_ = shared_variables(), used_;
};

// One for each thread that runs kernels; pointer first, so that device code reaches it without a check.
constinit thread_local Runner* runner = nullptr;

// --- the scheduler's side
// ---------------------------------------------------------------------------------------------

std::string Runner::place() const {
  const uint3& t = threads_[current_].index;
  return fmt::format("{} block ({}, {}, {}) thread ({}, {}, {})", name_of(launch_->kernel), blockIdx.x, blockIdx.y,
                     blockIdx.z, t.x, t.y, t.z);
}

void Runner::run(const Launch& launch, std::uint64_t seed) {
  launch_ = &launch;
  random_.seed(static_cast<std::minstd_rand::result_type>(seed ^ (seed >> 32)));
  blockDim = launch.threads;
  gridDim = launch.blocks;
  const std::size_t count = std::size_t{launch.threads.x} * launch.threads.y * launch.threads.z;
  threads_.assign(count, {});
  for (std::size_t i = 0; i < count; ++i)
    threads_[i].index = {static_cast<unsigned>(i % blockDim.x), static_cast<unsigned>(i / blockDim.x % blockDim.y),
                         static_cast<unsigned>(i / blockDim.x / blockDim.y)};
  const std::span<std::byte> dynamic = dynamic_shared();
  const std::size_t beyond = std::min<std::size_t>(dynamic.size(), launch.shared_bytes + 256);
  const bool look = learn();
  bool first = true;
  for (blockIdx.z = 0; blockIdx.z < gridDim.z; ++blockIdx.z)
    for (blockIdx.y = 0; blockIdx.y < gridDim.y; ++blockIdx.y)
      for (blockIdx.x = 0; blockIdx.x < gridDim.x; ++blockIdx.x) {
        for (const auto& v : used_) poison(v);
        poison(dynamic.first(beyond));
        run_block();
        if (!is_poison(dynamic.first(beyond).subspan(launch.shared_bytes)))
          throw std::runtime_error(
              fmt::format("{} block ({}, {}, {}) wrote behind its {} bytes of dynamic shared memory",
                          name_of(launch.kernel), blockIdx.x, blockIdx.y, blockIdx.z, launch.shared_bytes));
        if (look && (first || blockIdx.x + 1 == gridDim.x)) find_used_variables();
        first = false;
      }
}

// All kernels' variables together are large, one kernel's are few: which, its first launches show, and now and then
// another one.
struct Habit {
  int launches = 0;
  std::vector<bool> uses;
};
std::mutex habits_mutex;
std::map<const void*, Habit>& habits() {
  static std::map<const void*, Habit> all;
  return all;
}

// Sets used_; true: this launch is one to learn from, for which all variables are filled.
bool Runner::learn() {
  const std::scoped_lock lock(habits_mutex);
  Habit& habit = habits()[launch_->kernel];
  habit.uses.resize(variables_.size());
  const bool look = habit.launches < 2 || habit.launches % 64 == 0;
  ++habit.launches;
  used_.clear();
  for (std::size_t i = 0; i < variables_.size(); ++i) {
    if (look) poison(variables_[i]);
    if (habit.uses[i]) used_.push_back(variables_[i]);
  }
  return look;
}

void Runner::find_used_variables() {
  const std::scoped_lock lock(habits_mutex);
  std::vector<bool>& uses = habits()[launch_->kernel].uses;
  for (std::size_t i = 0; i < variables_.size(); ++i)
    if (!uses[i] && !is_poison(variables_[i])) {
      uses[i] = true;
      used_.push_back(variables_[i]);
    }
}

// Warps in any order, lanes of a warp in any order.
void Runner::draw_order() {
  const auto count = static_cast<unsigned>(threads_.size());
  std::vector<unsigned> warps((count + kWarp - 1) / kWarp);
  for (unsigned w = 0; w < warps.size(); ++w) warps[w] = w;
  std::shuffle(warps.begin(), warps.end(), random_);
  order_.clear();
  for (const unsigned w : warps) {
    const auto begin = static_cast<std::ptrdiff_t>(order_.size());
    for (unsigned i = w * kWarp; i < std::min(count, (w + 1) * kWarp); ++i) order_.push_back(i);
    std::shuffle(order_.begin() + begin, order_.end(), random_);
  }
}

void Runner::run_block() {
  for (Thread& t : threads_) t.state = State::fresh;
  lanes_in_warp_.assign((threads_.size() + kWarp - 1) / kWarp, 0);
  ready_.clear();
  started_ = done_ = at_barrier_ = 0;
  fault_.clear();
  draw_order();
  while (fault_.empty() && done_ < threads_.size()) {
    if (const context::fcontext_t next = choose(); next != nullptr) {
      in_fibre_ = true;
      landed(context::jump_fcontext(next, &scheduler_));
      in_fibre_ = false;
      continue;
    }
    if (at_barrier_ == threads_.size())
      release_block();
    else
      fault_ = stuck();
  }
  if (!fault_.empty()) {
    stacks_.give_all();  // what the threads left on them needs no destructors: it is device code
    throw std::runtime_error(fault_);
  }
}

int Runner::next_fresh() { return started_ < order_.size() ? static_cast<int>(order_[started_++]) : -1; }

context::fcontext_t Runner::choose() {
  if (!ready_.empty()) {
    current_ = ready_.back();
    ready_.pop_back();
    Thread& t = threads_[current_];
    t.state = State::ready;
    stack_ = t.stack;
    threadIdx = t.index;
    return t.where;
  }
  if (started_ == order_.size()) return nullptr;
  stack_ = stacks_.take();
  return context::make_fcontext(stack_, kStackBytes, &Runner::fibre);
}

// On the fibre, or the scheduler, that goes on: notes where the one before it stopped; null: it is at its end.
void Runner::landed(context::transfer_t from) {
  if (from.data == nullptr)
    stacks_.give(stack_);
  else
    *static_cast<context::fcontext_t*>(from.data) = from.fctx;
}

void Runner::release_block() {
  for (const Thread& t : threads_)
    if (t.site.line() != threads_[0].site.line() || t.site.column() != threads_[0].site.column()) {
      fault_ =
          fmt::format("{} block ({}, {}, {}): __syncthreads at {} and at {} at the same time", name_of(launch_->kernel),
                      blockIdx.x, blockIdx.y, blockIdx.z, text(threads_[0].site), text(t.site));
      return;
    }
  at_barrier_ = 0;
  draw_order();
  ready_ = order_;
}

void Runner::release_warp(unsigned warp, unsigned mask) {
  for (const unsigned l : lane_orders_[random_() % lane_orders_.size()])
    if ((mask >> l) & 1U) ready_.push_back(warp * kWarp + l);
}

// Nobody can go on: who waits for whom.
std::string Runner::stuck() const {
  std::string out =
      fmt::format("{} block ({}, {}, {}): ", name_of(launch_->kernel), blockIdx.x, blockIdx.y, blockIdx.z);
  for (std::size_t i = 0; i < threads_.size(); ++i)
    if (threads_[i].state == State::in_warp) {
      const unsigned warp = static_cast<unsigned>(i) / kWarp;
      for (unsigned l = 0; l < kWarp; ++l) {
        const std::size_t other = warp * kWarp + l;
        if (((threads_[i].mask >> l) & 1U) == 0) continue;
        const bool absent = other >= threads_.size();
        if (!absent && threads_[other].state == State::in_warp && threads_[other].mask == threads_[i].mask) continue;
        return out + fmt::format("thread {} waits at {} for lane {} of its warp, which {}", i, text(threads_[i].site),
                                 l,
                                 absent                                       ? "does not exist"
                                 : threads_[other].state == State::done       ? "has ended"
                                 : threads_[other].state == State::at_barrier ? "waits at " + text(threads_[other].site)
                                                                              : "names other lanes");
      }
    }
  return out + fmt::format("{} threads wait at __syncthreads, {} have ended without it", at_barrier_, done_);
}

// --- the fibres' side
// -------------------------------------------------------------------------------------------------

// Fibres hand over to each other without the scheduler, which is asked only when nobody can go on.
// Runs fresh threads one after another. When one of them waits, the fibre is that thread's from then on, until the
// thread has ended.
void Runner::fibre(context::transfer_t from) {
  Runner& r = *runner;
  r.landed(from);
  for (int next = r.next_fresh(); next >= 0; next = r.ready_.empty() ? r.next_fresh() : -1) {
    r.current_ = static_cast<unsigned>(next);
    Thread& t = r.threads_[r.current_];
    t.stack = nullptr;
    threadIdx = t.index;
    try {
      r.launch_->thread();
    } catch (const std::exception& error) {
      r.fault_ = r.place() + " threw: " + error.what();
      break;
    }
    r.threads_[r.current_].state = State::done;
    ++r.done_;
  }
  context::jump_fcontext(r.scheduler_, nullptr);
  std::abort();  // nobody enters a fibre at its end
}

void Runner::yield() {
  Thread& t = threads_[current_];
  t.stack = stack_;
  if (!ready_.empty() && ready_.back() == current_) {  // itself
    ready_.pop_back();
    return;
  }
  const context::fcontext_t next = choose();
  landed(context::jump_fcontext(next != nullptr ? next : scheduler_, &t.where));
}

void Runner::fault(const std::string& what) {
  fault_ = place() + " " + what;
  context::jump_fcontext(scheduler_, nullptr);
  std::abort();
}

void Runner::block_barrier(const Site& site) {
  Thread& t = threads_[current_];
  t.state = State::at_barrier;
  t.site = site;
  ++at_barrier_;
  yield();
}

// Notes the lane; the last of the mask sends all of them on.
void Runner::arrive(unsigned mask, const Site& site) {
  Thread& me = threads_[current_];
  if (((mask >> lane()) & 1U) == 0) fault(fmt::format("at {} names the lanes {:#x}, without itself", text(site), mask));
  me.state = State::in_warp;
  me.mask = mask;
  me.site = site;
  const unsigned warp = current_ / kWarp;
  Thread* const lanes = &threads_[warp * kWarp];
  unsigned& waiting = lanes_in_warp_[warp];
  waiting |= 1U << lane();
  if ((waiting & mask) != mask) return yield();
  for (unsigned l = 0; l < kWarp; ++l)
    if (((mask >> l) & 1U) != 0 && lanes[l].mask != mask) return yield();  // waits for others
  for (unsigned l = 0; l < kWarp; ++l)
    if (((mask >> l) & 1U) != 0 && (lanes[l].site.line() != site.line() || lanes[l].site.column() != site.column()))
      fault(fmt::format("is at {} while lane {} is at {}", text(site), l, text(lanes[l].site)));
  waiting &= ~mask;
  std::uint64_t votes = 0;
  for (unsigned l = 0; l < kWarp; ++l)
    if ((mask >> l) & 1U) votes |= (lanes[l].value & 1U) << l;
  for (unsigned l = 0; l < kWarp; ++l)
    if ((mask >> l) & 1U) {
      Thread& t = lanes[l];
      t.state = State::ready;
      t.result = t.source == kVotes                              ? votes
                 : t.source < kWarp && ((mask >> t.source) & 1U) ? lanes[t.source].value
                                                                 : ~std::uint64_t{0};
    }
  release_warp(warp, mask);
  yield();
}

std::uint64_t Runner::exchange(unsigned mask, std::uint64_t value, unsigned source, const Site& site) {
  Thread& me = threads_[current_];
  me.value = value;
  me.source = source;
  if (((mask >> lane()) & 1U) != 0 && (source >= kWarp || ((mask >> source) & 1U) == 0))
    fault(fmt::format("reads lane {} at {}, which is not among the lanes {:#x}", source, text(site), mask));
  arrive(mask, site);
  return me.result;
}

unsigned Runner::ballot(unsigned mask, bool vote, const Site& site) {
  Thread& me = threads_[current_];
  me.value = vote ? 1U : 0U;
  me.source = kVotes;
  arrive(mask, site);
  return static_cast<unsigned>(me.result);
}

// --- bad addresses
// ----------------------------------------------------------------------------------------------------

struct sigaction earlier_segv, earlier_bus;

// Where touched_by goes on, and with what.
constinit thread_local sigjmp_buf* way_out = nullptr;
thread_local std::string touched;

// The fault is the kernel's own and happens at its instruction: the fibre is left where it is and the scheduler goes on
// with a message. In the same way the work of a library is left. Everything else is none of our business.
void on_bad_address(int signal, siginfo_t* info, void*) {
  if (runner != nullptr && runner->in_fibre()) runner->fault(describe_address(info->si_addr));
  if (way_out != nullptr) {
    touched = describe_address(info->si_addr);
    siglongjmp(*way_out, 1);
  }
  sigaction(signal, signal == SIGSEGV ? &earlier_segv : &earlier_bus, nullptr);  // happens again, without us
}

void install_handler() {
  static const bool once = [] {
    struct sigaction action {};
    action.sa_sigaction = on_bad_address;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    sigaction(SIGSEGV, &action, &earlier_segv);
    sigaction(SIGBUS, &action, &earlier_bus);
    return true;
  }();
  static_cast<void>(once);
}

// A thread's runner, and a stack of its own for the handler, since a fibre's may be what overflowed.
struct ThreadRunner {
  ThreadRunner() {
    install_handler();
    signal_stack.resize(64 << 10);
    stack_t stack{};
    stack.ss_sp = signal_stack.data();
    stack.ss_size = signal_stack.size();
    sigaltstack(&stack, nullptr);
    runner = &own;
  }
  ~ThreadRunner() {
    runner = nullptr;
    stack_t off{};
    off.ss_flags = SS_DISABLE;
    sigaltstack(&off, nullptr);
  }
  ThreadRunner(const ThreadRunner&) = delete;
  ThreadRunner& operator=(const ThreadRunner&) = delete;
  std::vector<std::byte> signal_stack;
  Runner own;
};

}  // namespace

// By the address, so that any part of what was filled is still recognised.
std::byte poison_at(const std::byte* p) {
  return (reinterpret_cast<std::uintptr_t>(p) & 1U) != 0 ? std::byte{kPoison >> 8} : std::byte{kPoison & 0xff};
}

void poison(std::span<std::byte> bytes) {
  const std::size_t odd = bytes.size() % 2;
  const std::byte first = bytes.empty() ? std::byte{} : poison_at(bytes.data()), second = first ^ std::byte{0x80};
  for (std::size_t i = 0; i + odd < bytes.size(); i += 2) {
    bytes[i] = first;
    bytes[i + 1] = second;
  }
  if (odd != 0) bytes.back() = first;
}

// All alike two by two, and the first two right.
bool is_poison(std::span<const std::byte> bytes) {
  const std::size_t n = bytes.size();
  if (n == 0) return true;
  if (bytes[0] != poison_at(&bytes[0]) || (n > 1 && bytes[1] != poison_at(&bytes[1]))) return false;
  return n <= 2 || std::memcmp(bytes.data(), bytes.data() + 2, n - 2) == 0;
}

namespace {
ThreadRunner& runner_of_thread() {
  thread_local ThreadRunner mine;
  return mine;
}
}  // namespace

void run_blocks(const Launch& launch, std::uint64_t seed) { runner_of_thread().own.run(launch, seed); }

std::string touched_by(const std::function<void()>& work) {
  runner_of_thread();  // brings the handler and its stack
  struct Restore {
    ~Restore() { way_out = nullptr; }
  } const restore;
  sigjmp_buf here;
  if (sigsetjmp(here, 0) != 0) return touched;
  way_out = &here;
  work();
  return {};
}

void block_barrier(const Site& site) { runner->block_barrier(site); }
std::uint64_t exchange(unsigned mask, std::uint64_t value, unsigned source, const Site& site) {
  return runner->exchange(mask, value, source, site);
}
unsigned ballot(unsigned mask, bool vote, const Site& site) { return runner->ballot(mask, vote, site); }
unsigned lane() { return runner->lane(); }
void fault(const char* what, const Site& site) { runner->fault(fmt::format("{} at {}", what, text(site))); }

}  // namespace standin
