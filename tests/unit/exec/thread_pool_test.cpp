// Threads that are kept.
#include "runtime/exec/core/thread_pool.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <thread>

namespace flow::exec {
namespace {

TEST_CASE("a pool runs what it is given at the same time, each on a thread of its own", "[exec]") {
  ThreadPool pool(3);
  std::atomic<int> begun = 0;
  const auto meet = [&] {
    ++begun;
    while (begun < 3) std::this_thread::yield();
  };
  pool.run({meet, meet, meet});
  CHECK(begun == 3);
}

TEST_CASE("a pool's threads are the same every time, and see what was done before", "[exec]") {
  ThreadPool pool(2);
  std::thread::id first[2];
  pool.run({[&] { first[0] = std::this_thread::get_id(); },
            [&] { first[1] = std::this_thread::get_id(); }});
  CHECK(first[0] != first[1]);
  int64_t sum = 0;
  for (int i = 0; i < 100; ++i)
    pool.run({[&] { sum += std::this_thread::get_id() == first[0] ? i : -100000; }});
  CHECK(sum == 4950);
}

TEST_CASE("a pool that is given nothing ends", "[exec]") { const ThreadPool pool(3); }

}  // namespace
}  // namespace flow::exec
