// Threads that replace those of OpenMP. OpenMP waits at the end of a loop for every thread of its
// team, even for one that has not run yet, which on a busy machine costs a time slice per loop.
#include "runtime/cpu/loops/parallel.h"

#include <immintrin.h>
#include <omp.h>
#include <sched.h>

#include <algorithm>
#include <limits>
#include <system_error>

#include "runtime/cpu/loops/features.h"

namespace flow::cpu {
namespace {

thread_local Workers* in_use = nullptr;  // the workers that parallel_for uses on this thread

// Greater than any number of chunks.
constexpr uint32_t kClosed = std::numeric_limits<uint32_t>::max();
constexpr int kSpins = 1000;  // pauses of about 50 ns each
constexpr int kLooksAround = 64;

/// Moves this thread to another core if it runs on `core`, because the system may leave two busy
/// threads on one core for many milliseconds while another core is idle.
void keep_off(int core) {
  if (sched_getcpu() != core) return;
  cpu_set_t usable;
  if (sched_getaffinity(0, sizeof(usable), &usable) != 0 || CPU_COUNT(&usable) < 2) return;
  cpu_set_t others = usable;
  CPU_CLR(static_cast<size_t>(core), &others);
  sched_setaffinity(0, sizeof(others), &others);
  sched_setaffinity(0, sizeof(usable), &usable);
}

}  // namespace

void parallel_for(int threads, int64_t chunks, void* context,
                  void (*body)(void* context, int64_t chunk, int worker)) {
  Workers* workers = in_use;
  threads = static_cast<int>(std::min<int64_t>(threads, chunks));
  if (threads <= 1 || !workers || workers->threads_.empty()) {
    for (int64_t chunk = 0; chunk < chunks; ++chunk) body(context, chunk, 0);
    return;
  }
  in_use = nullptr;  // loops inside bodies are plain
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  for (int64_t first = 0; first < chunks; first += kMost)
    workers->run(threads, static_cast<uint32_t>(std::min(kMost, chunks - first)), first, context,
                 body);
  in_use = workers;
}

Workers::Workers(int threads) : fits_(threads <= usable_cores()) {
  try {
    for (int worker = 1; worker < threads; ++worker)
      threads_.emplace_back([this, worker] { work(worker); });
  } catch (const std::system_error&) {
    // The threads that were created do all the work, with bit-identical results.
  }
}

Workers::~Workers() {
  stop_ = true;
  ++generation_;
  generation_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Workers::run(int threads, uint32_t chunks, int64_t offset, void* context, Body body) {
  const uint32_t generation = generation_.load(std::memory_order_relaxed) + 1;
  // Claims are closed during the setup, so that a late thread that sees the new number of chunks
  // can no longer claim a chunk of the old loop.
  claims_.store(uint64_t{generation} << 32 | kClosed, std::memory_order_relaxed);
  body_.store(body, std::memory_order_relaxed);
  context_.store(context, std::memory_order_relaxed);
  offset_.store(offset, std::memory_order_relaxed);
  limit_.store(threads, std::memory_order_relaxed);
  chunks_.store(chunks, std::memory_order_release);
  done_.store(0, std::memory_order_relaxed);
  claims_.store(uint64_t{generation} << 32, std::memory_order_release);
  generation_.store(generation, std::memory_order_release);
  generation_.notify_all();
  run_chunks(generation, 0);
  for (int spin = 0; done_.load(std::memory_order_acquire) != chunks; ++spin) {
    if (spin < kSpins)
      _mm_pause();
    else
      std::this_thread::yield();
  }
}

void Workers::work(int worker) {
  flush_denormals();
  const SingleThreadedLibraries single;
  uint32_t seen = 0;
  while (true) {
    seen = next_generation(seen);
    if (stop_) return;
    run_chunks(seen, worker);
  }
}

uint32_t Workers::next_generation(uint32_t seen) {
  for (int spin = 0; spin < kSpins || (in_use_.load(std::memory_order_relaxed) && fits_); ++spin) {
    const uint32_t now = generation_.load(std::memory_order_acquire);
    if (now != seen) return now;
    if (fits_ && spin % kLooksAround == 0) keep_off(core_.load(std::memory_order_relaxed));
    _mm_pause();
  }
  generation_.wait(seen, std::memory_order_acquire);
  return generation_.load(std::memory_order_acquire);
}

void Workers::run_chunks(uint32_t generation, int worker) {
  uint64_t claim = claims_.load(std::memory_order_acquire);
  while (true) {
    const Body body = body_.load(std::memory_order_relaxed);
    void* const context = context_.load(std::memory_order_relaxed);
    const int64_t offset = offset_.load(std::memory_order_relaxed);
    const auto chunk = static_cast<uint32_t>(claim);
    if (claim >> 32 != generation || chunk >= chunks_.load(std::memory_order_acquire) ||
        worker >= limit_.load(std::memory_order_relaxed))
      return;
    if (!claims_.compare_exchange_weak(claim, claim + 1, std::memory_order_acq_rel,
                                       std::memory_order_acquire))
      continue;
    body(context, offset + chunk, worker);
    done_.fetch_add(1, std::memory_order_release);
    claim = claims_.load(std::memory_order_acquire);
  }
}

Workers::Use::Use(Workers& workers) : workers_(workers), before_(in_use) {
  in_use = &workers;
  workers.core_.store(sched_getcpu(), std::memory_order_relaxed);
  workers.in_use_.store(true, std::memory_order_relaxed);
}

Workers::Use::~Use() {
  workers_.in_use_.store(false, std::memory_order_relaxed);
  in_use = before_;
}

void flush_denormals() {
  constexpr unsigned kFlushToZero = 0x8000, kDenormalsAreZero = 0x0040;
  _mm_setcsr(_mm_getcsr() | kFlushToZero | kDenormalsAreZero);
}

SingleThreadedLibraries::SingleThreadedLibraries() : before_(omp_get_max_threads()) {
  omp_set_num_threads(1);
}

SingleThreadedLibraries::~SingleThreadedLibraries() { omp_set_num_threads(before_); }

}  // namespace flow::cpu
