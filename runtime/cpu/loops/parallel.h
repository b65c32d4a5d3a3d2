// The only interface to threads: a loop over chunks whose number depends only on shapes, so that
// results do not depend on the number of threads.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <type_traits>
#include <vector>

namespace flow::cpu {

/// Calls body(chunk, worker) for each chunk in [0, chunks) on up to `threads` threads of the
/// Workers that this thread uses. worker is in [0, min(threads, chunks)). It is a plain loop if
/// there is one thread or one chunk, if there are no Workers, or if the call is inside another
/// body. Bodies must not throw.
void parallel_for(int threads, int64_t chunks, void* context,
                  void (*body)(void* context, int64_t chunk, int worker));

template <typename Body>
void parallel_for(int threads, int64_t chunks, Body&& body) {
  using Plain = std::remove_reference_t<Body>;
  parallel_for(threads, chunks, const_cast<void*>(static_cast<const void*>(&body)),
               [](void* context, int64_t chunk, int worker) noexcept {
                 (*static_cast<Plain*>(context))(chunk, worker);
               });
}

/// The threads of parallel_for. A loop is completed by the threads that are available: a thread
/// that is late because the machine is busy costs nothing, because only chunks that have begun are
/// waited for. Idle threads spin during a call (if each has a core) and for about 50 us after it,
/// and then sleep.
class Workers {
 public:
  /// Starts `threads` - 1 threads in addition to the caller's.
  explicit Workers(int threads);
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  /// While an object of this class exists, parallel_for on this thread uses these workers. Only one
  /// thread at a time may use them.
  class Use {
   public:
    explicit Use(Workers& workers);
    ~Use();
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    Workers& workers_;
    Workers* before_;
  };

 private:
  friend void parallel_for(int threads, int64_t chunks, void* context,
                           void (*body)(void* context, int64_t chunk, int worker));
  using Body = void (*)(void* context, int64_t chunk, int worker);

  void run(int threads, uint32_t chunks, int64_t offset, void* context, Body body);
  void work(int worker);
  void run_chunks(uint32_t generation, int worker);
  uint32_t next_generation(uint32_t seen);

  // The current loop. A late thread may read it while the next loop is set up. Its claim then
  // fails, because the generation in `claims_` has changed.
  std::atomic<Body> body_{nullptr};
  std::atomic<void*> context_{nullptr};
  std::atomic<int64_t> offset_{0};
  std::atomic<uint32_t> chunks_{0};
  std::atomic<int> limit_{0};                    // threads that may participate
  alignas(64) std::atomic<uint64_t> claims_{0};  // generation << 32 | next chunk
  // The number of completed chunks of this generation.
  alignas(64) std::atomic<uint32_t> done_{0};
  alignas(64) std::atomic<uint32_t> generation_{0};
  const bool fits_;                  // true if each thread has a separate core
  std::atomic<bool> in_use_{false};  // true during a call, in which idle threads spin
  std::atomic<int> core_{-1};        // the core on which the caller runs
  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

/// Sets flush-to-zero and denormals-are-zero on this thread. Workers have both set.
void flush_denormals();

/// While an object of this class exists, libraries called from this thread use only this thread.
/// Bodies of parallel_for do not need one.
class SingleThreadedLibraries {
 public:
  SingleThreadedLibraries();
  ~SingleThreadedLibraries();
  SingleThreadedLibraries(const SingleThreadedLibraries&) = delete;
  SingleThreadedLibraries& operator=(const SingleThreadedLibraries&) = delete;

 private:
  int before_;
};

}  // namespace flow::cpu
