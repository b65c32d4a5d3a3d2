// parallel_for and what it promises.
#include <catch2/catch.hpp>

#include <atomic>
#include <numeric>
#include <utility>
#include <vector>

#include "runtime/cpu/loops/parallel.h"

using namespace flow::cpu;

TEST_CASE("every chunk is run exactly once, by a worker below the number of threads", "[cpu]") {
  for (int threads : {1, 2, 3, 8}) {
    Workers workers(threads);
    const Workers::Use use(workers);
    for (int64_t chunks : {0, 1, 2, 7, 1000}) {
      std::vector<std::atomic<int>> runs(static_cast<size_t>(chunks));
      std::atomic<bool> in_range = true;
      parallel_for(threads, chunks, [&](int64_t chunk, int worker) {
        ++runs[static_cast<size_t>(chunk)];
        if (worker < 0 || worker >= threads) in_range = false;
      });
      CHECK(in_range);
      CHECK(std::accumulate(runs.begin(), runs.end(), 0) == chunks);
      for (const std::atomic<int>& count : runs) CHECK(count == 1);
    }
  }
}

TEST_CASE("what a loop wrote is seen by the next one, however short they are", "[cpu]") {
  Workers workers(4);
  const Workers::Use use(workers);
  std::vector<int64_t> values(16, 0);
  constexpr int kLoops = 3000;
  for (int loop = 0; loop < kLoops; ++loop) {
    const int64_t chunks = 2 + loop % 15;
    parallel_for(4, chunks, [&](int64_t chunk, int) {
      // Each element is carried by another chunk each time.
      ++values[static_cast<size_t>((chunk + loop) % chunks)];
    });
  }
  int64_t expected = 0;
  for (int loop = 0; loop < kLoops; ++loop) expected += 2 + loop % 15;
  CHECK(std::accumulate(values.begin(), values.end(), int64_t{0}) == expected);
}

TEST_CASE("a loop inside a body, or without workers, runs on the thread that asks", "[cpu]") {
  Workers workers(2);
  std::atomic<int64_t> inner = 0;
  {
    const Workers::Use use(workers);
    parallel_for(2, 4, [&](int64_t, int) {
      parallel_for(2, 5, [&](int64_t, int worker) { inner += worker == 0 ? 1 : 1000; });
    });
  }
  CHECK(inner == 20);
  parallel_for(2, 3, [&](int64_t, int worker) { inner += worker == 0 ? 1 : 1000; });
  CHECK(inner == 23);
}

TEST_CASE("no more threads take part than the loop asks for or has chunks for", "[cpu]") {
  Workers workers(4);
  const Workers::Use use(workers);
  std::atomic<int> highest = 0;
  const auto [threads, chunks] = GENERATE(std::pair{2, 50}, std::pair{4, 2});
  for (int loop = 0; loop < 200; ++loop)
    parallel_for(threads, chunks, [&](int64_t, int worker) {
      int seen = highest;
      while (worker > seen && !highest.compare_exchange_weak(seen, worker)) {
      }
    });
  CHECK(highest <= 1);
}

TEST_CASE("workers flush denormals", "[cpu]") {
  Workers workers(3);
  const Workers::Use use(workers);
  flush_denormals();
  std::atomic<int> kept = 0;
  parallel_for(3, 64, [&](int64_t, int) {
    volatile float tiny = 1e-38f;
    if (tiny * 0.01f != 0) ++kept;
  });
  CHECK(kept == 0);
}
