// The one entry into threads: a loop over chunks whose number depends on shapes alone, so that
// results do not depend on the number of threads.
#pragma once

#include <cstdint>
#include <type_traits>

namespace flow::cpu {

/// Calls body(chunk, worker) for chunk in [0, chunks), on up to `threads` threads; worker is in
/// [0, threads). With one thread or one chunk it is a plain loop. Bodies must not throw.
void parallel_for(int threads, int64_t chunks, void* context,
                  void (*body)(void* context, int64_t chunk, int worker));

template <typename Body>
void parallel_for(int threads, int64_t chunks, Body&& body) {
  using Plain = std::remove_reference_t<Body>;
  parallel_for(threads, chunks, const_cast<void*>(static_cast<const void*>(&body)),
               [](void* context, int64_t chunk, int worker) {
                 (*static_cast<Plain*>(context))(chunk, worker);
               });
}

/// Sets flush-to-zero and denormals-are-zero on this thread (workers of parallel_for have them).
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
