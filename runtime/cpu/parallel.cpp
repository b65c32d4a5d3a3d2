// Threads behind parallel_for: OpenMP's, or plain ones under ThreadSanitizer, which cannot see the
// barriers inside OpenMP.
#include "runtime/cpu/parallel.h"

#include <immintrin.h>
#include <omp.h>

#include <algorithm>

#if defined(__SANITIZE_THREAD__)
#define FLOW_PLAIN_THREADS 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define FLOW_PLAIN_THREADS 1
#endif
#endif

#ifdef FLOW_PLAIN_THREADS
#include <atomic>
#include <thread>
#include <vector>
#endif

namespace flow::cpu {
namespace {

using Body = void (*)(void* context, int64_t chunk, int worker);

#ifdef FLOW_PLAIN_THREADS

void run_workers(int workers, int64_t chunks, void* context, Body body) {
  std::atomic<int64_t> next{0};
  const auto work = [&](int worker) {
    flush_denormals();
    const SingleThreadedLibraries single;
    for (int64_t chunk = next++; chunk < chunks; chunk = next++) body(context, chunk, worker);
  };
  std::vector<std::thread> others;
  for (int worker = 1; worker < workers; ++worker) others.emplace_back(work, worker);
  work(0);
  for (std::thread& other : others) other.join();
}

#else

void run_workers(int workers, int64_t chunks, void* context, Body body) {
#pragma omp parallel num_threads(workers)
  {
    flush_denormals();
#pragma omp for schedule(dynamic, 1) nowait
    for (int64_t chunk = 0; chunk < chunks; ++chunk) body(context, chunk, omp_get_thread_num());
  }
}

#endif

}  // namespace

void parallel_for(int threads, int64_t chunks, void* context, Body body) {
  const int workers = static_cast<int>(std::min<int64_t>(threads, chunks));
  if (workers > 1) return run_workers(workers, chunks, context, body);
  for (int64_t chunk = 0; chunk < chunks; ++chunk) body(context, chunk, 0);
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
