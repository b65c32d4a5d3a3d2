// The threads of one block after another, each until it waits or returns. Where all have stopped,
// those whose barrier or shuffle is complete go on.
#include "tests/support/cuda/block.h"

#include <cuda_runtime.h>
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <memory>
#include <vector>

#include "runtime/base/error.h"
#include "tests/support/cuda/fiber.h"
#include "tests/support/races/launch_check.h"

__thread uint3 threadIdx, blockIdx;
__thread dim3 blockDim, gridDim;

namespace flow::test {
namespace {

class Block;
thread_local Block* running = nullptr;

/// Lanes `mask` of a warp meet; each brings bits and takes those of lane `from`.
struct Meeting {
  unsigned mask = 0;
  uint64_t brought = 0;
  int from = 0;
  bool orders = false;  // memory, too
};

struct Thread {
  enum class State { kRuns, kAtBarrier, kInWarp, kDone };
  State state = State::kRuns;
  Fiber* fiber = nullptr;
  Place place{};
  Meeting meeting;
  uint64_t taken = 0;
  unsigned votes = 0;  // lanes that brought anything but 0
};

class Block {
 public:
  Block(const cuda::KernelCall& call, LaneOrder order, LaunchCheck* check)
      : call_(call),
        order_(order),
        check_(check),
        size_(static_cast<size_t>(call.block.x) * call.block.y * call.block.z),
        shared_(new std::byte[call.shared_bytes]) {}

  void run(uint3 index);
  /// Leaves the thread that runs until what it waits for is complete; then it is returned.
  const Thread& stop(Thread::State state, Place place, const Meeting& meeting = {});

  int lane() const { return static_cast<int>(current_ % warpSize); }
  void* shared() { return shared_.get(); }

 private:
  size_t in_order(size_t i) const { return order_ == LaneOrder::kForward ? i : size_ - 1 - i; }
  void enter(size_t thread);
  void run_new_threads();
  void start_threads();
  void resume(Fiber* fiber);
  bool barrier_is_complete() const;
  bool meeting_is_complete(size_t thread) const;
  bool any_at_barrier() const;
  void exchange(size_t thread);
  std::vector<size_t> released();
  [[noreturn]] void fail() const;

  const cuda::KernelCall& call_;
  LaneOrder order_;
  LaunchCheck* check_;
  size_t size_;
  std::unique_ptr<std::byte[]> shared_;  // an array of its own, whose end AddressSanitizer guards
  std::vector<Thread> threads_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Fiber*> free_;
  Fiber* active_ = nullptr;
  size_t next_ = 0;  // of the threads, in their order, that have not started
  size_t current_ = 0;
};

/// Makes `thread` the one that runs.
void Block::enter(size_t thread) {
  current_ = thread;
  if (check_) check_->enter(thread);
  const auto [x, y, z] = call_.block;
  threadIdx = {static_cast<unsigned>(thread % x), static_cast<unsigned>(thread / x % y),
               static_cast<unsigned>(thread / x / y % z)};
}

/// What every fiber does: as long as threads do not wait, one fiber runs all of them.
void Block::run_new_threads() {
  while (next_ < size_) {
    enter(in_order(next_++));
    call_.run_thread(call_.function, call_.arguments.data());
    threads_[current_].state = Thread::State::kDone;
  }
}

/// A fiber whose thread waits is that thread's until it returns.
void Block::resume(Fiber* fiber) {
  active_ = fiber;
  if (check_) check_->use_stack(fiber->stack());
  const Listening listening(check_);
  fiber->resume();
  if (threads_[current_].state == Thread::State::kDone) free_.push_back(fiber);
}

void Block::start_threads() {
  while (next_ < size_) {
    if (free_.empty()) {
      fibers_.push_back(std::make_unique<Fiber>([this] { run_new_threads(); }));
      free_.push_back(fibers_.back().get());
    }
    Fiber* fiber = free_.back();
    free_.pop_back();
    resume(fiber);
  }
}

const Thread& Block::stop(Thread::State state, Place place, const Meeting& meeting) {
  Thread& self = threads_[current_];
  self = {state, active_, place, meeting};
  active_->pause();
  return self;
}

bool Block::barrier_is_complete() const {
  return std::ranges::all_of(threads_, [this](const Thread& thread) {
    return thread.state == Thread::State::kAtBarrier && thread.place.line == threads_[0].place.line;
  });
}

/// Do all lanes of the thread's mask stand where it stands?
bool Block::meeting_is_complete(size_t thread) const {
  const Thread& self = threads_[thread];
  if (self.state != Thread::State::kInWarp) return false;
  const unsigned mask = self.meeting.mask;
  const size_t first = thread - thread % warpSize;
  for (size_t lane = 0; lane < warpSize; ++lane) {
    if ((mask >> lane & 1) == 0) {
      if (first + lane == thread) return false;
      continue;
    }
    if (first + lane >= size_) return false;
    const Thread& other = threads_[first + lane];
    if (other.state != Thread::State::kInWarp || other.meeting.mask != mask ||
        other.place.line != self.place.line)
      return false;
  }
  return true;
}

bool Block::any_at_barrier() const {
  return std::ranges::any_of(threads_,
                             [](const Thread& thread) { return thread.meeting.brought != 0; });
}

size_t last_lane(unsigned mask) { return static_cast<size_t>(std::bit_width(mask)) - 1; }

/// REQUIRES: the thread's meeting is complete.
void Block::exchange(size_t thread) {
  Thread& self = threads_[thread];
  const size_t first = thread - thread % warpSize;
  const int from = self.meeting.from;
  self.taken = self.meeting.brought;
  if (0 <= from && from < warpSize) {
    if ((self.meeting.mask >> from & 1) == 0)
      throw RunError(fmt::format("kernel {}: lane {} is not in the mask of the shuffle at {}:{}",
                                 call_.name, from, self.place.file, self.place.line));
    self.taken = threads_[first + static_cast<size_t>(from)].meeting.brought;
  }
  self.votes = 0;
  for (size_t lane = 0; lane < warpSize; ++lane)
    if ((self.meeting.mask >> lane & 1) != 0 && threads_[first + lane].meeting.brought != 0)
      self.votes |= 1u << lane;
  if (check_ && self.meeting.orders && thread == first + last_lane(self.meeting.mask))
    check_->order_lanes(first, self.meeting.mask);
}

/// Threads whose barrier or meeting is complete, in the order in which they go on.
std::vector<size_t> Block::released() {
  const bool all = barrier_is_complete();
  if (all && check_) check_->pass_barrier();
  std::vector<size_t> threads;
  for (size_t i = 0; i < size_; ++i)
    if (all || meeting_is_complete(in_order(i))) threads.push_back(in_order(i));
  return threads;
}

void Block::fail() const {
  const auto waits = std::ranges::find_if(
      threads_, [](const Thread& thread) { return thread.state != Thread::State::kDone; });
  const bool barrier = waits->state == Thread::State::kAtBarrier;
  throw RunError(fmt::format(
      "kernel {}: thread {} of block [{}, {}, {}] waits {} at {}:{}, which others never reach",
      call_.name, waits - threads_.begin(), blockIdx.x, blockIdx.y, blockIdx.z,
      barrier ? "for its block" : "for lanes of its warp", waits->place.file, waits->place.line));
}

void Block::run(uint3 index) {
  blockIdx = index;
  std::memset(shared_.get(), 0xA5, call_.shared_bytes);
  if (check_) check_->begin_block({shared_.get(), call_.shared_bytes});
  threads_.assign(size_, {});
  next_ = 0;
  start_threads();
  for (auto threads = released(); !threads.empty(); threads = released()) {
    // All take what was brought before the first goes on and brings something else.
    const bool any = any_at_barrier();
    for (const size_t thread : threads)
      if (threads_[thread].state == Thread::State::kInWarp)
        exchange(thread);
      else
        threads_[thread].taken = any;
    for (const size_t thread : threads) {
      threads_[thread].state = Thread::State::kRuns;
      enter(thread);
      resume(threads_[thread].fiber);
    }
  }
  if (std::ranges::any_of(threads_,
                          [](const Thread& t) { return t.state != Thread::State::kDone; }))
    fail();
}

}  // namespace

bool wait_for_block(Place place, bool value) {
  return running->stop(Thread::State::kAtBarrier, place, {0, value}).taken != 0;
}

uint64_t exchange(unsigned mask, uint64_t bits, int from, Place place) {
  return running->stop(Thread::State::kInWarp, place, {mask, bits, from}).taken;
}

unsigned vote(unsigned mask, bool value, Place place) {
  return running->stop(Thread::State::kInWarp, place, {mask, value, -1}).votes;
}

void wait_for_warp(unsigned mask, Place place) {
  running->stop(Thread::State::kInWarp, place, {mask, 1, -1, true});
}

void* shared_memory() { return running->shared(); }

int lane() { return running->lane(); }

void run_on_cpu(const cuda::KernelCall& call, LaneOrder order, LaunchCheck* check) {
  FLOW_CHECK(call.run_thread, "kernel {} is not compiled for the CPU", call.name);
  gridDim = {call.grid.x, call.grid.y, call.grid.z};
  blockDim = {call.block.x, call.block.y, call.block.z};
  Block block(call, order, check);
  running = &block;
  for (unsigned z = 0; z < gridDim.z; ++z)
    for (unsigned y = 0; y < gridDim.y; ++y)
      for (unsigned x = 0; x < gridDim.x; ++x) block.run({x, y, z});
}

}  // namespace flow::test
