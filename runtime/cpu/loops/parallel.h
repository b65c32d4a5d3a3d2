// The one entry into threads: a loop over chunks whose number depends on shapes alone, so that
// results do not depend on the number of threads.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <type_traits>
#include <vector>

namespace flow::cpu {

/// Calls body(chunk, worker) for chunk in [0, chunks), on up to `threads` threads of the Workers
/// in use here; worker is in [0, min(threads, chunks)). With one thread or one chunk, without
/// Workers or inside another body it is a plain loop. Bodies must not throw.
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

/// The threads behind parallel_for. A loop is finished by whoever is there: one that is late (the
/// machine is busy) costs nothing, since only chunks that have begun are waited for. Idle threads
/// spin while a call is under way (if there is a core for each) and some 50 us more, then sleep.
class Workers {
 public:
  /// `threads` - 1 threads beside the caller's.
  explicit Workers(int threads);
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  /// While it lives, parallel_for on this thread uses these workers. One thread at a time.
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

  // The loop that runs. A late thread may read it while the next one is set up; then its claim
  // fails, since the generation in `claims_` is another.
  std::atomic<Body> body_{nullptr};
  std::atomic<void*> context_{nullptr};
  std::atomic<int64_t> offset_{0};
  std::atomic<uint32_t> chunks_{0};
  std::atomic<int> limit_{0};                    // threads that may take part
  alignas(64) std::atomic<uint64_t> claims_{0};  // generation << 32 | next chunk
  alignas(64) std::atomic<uint32_t> done_{0};    // chunks of this generation that are complete
  alignas(64) std::atomic<uint32_t> generation_{0};
  const bool fits_;                  // each thread has a core of its own
  std::atomic<bool> in_use_{false};  // a call is under way: idle threads spin
  std::atomic<int> core_{-1};        // where the caller runs
  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

/// Sets flush-to-zero and denormals-are-zero on this thread (workers have them).
void flush_denormals();

/// While one lives, libraries called from this thread use no threads of their own. Bodies of
/// parallel_for need none.
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
