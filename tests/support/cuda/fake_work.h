// What the streams and graphs of the fake device hold.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "tests/support/races/stream_order.h"

namespace flow::test {

/// In which order the work of a graph is done, as far as what was captured leaves it open.
enum class GraphOrder {
  kCaptured,
  kLatestFirst,  // what was captured last of all that may be done: copies beside kernels end last
};

struct MemoryUse {
  const void* memory;
  size_t bytes;
  bool writes;
};

struct Work {
  std::function<void(const OperationPtr&)> run;
  std::vector<MemoryUse> uses = {};  // besides what `run` finds out
};

/// Work in a stream. Pinned memory that it reads must keep what it held when the work was put.
struct PutWork {
  struct Promise {
    const std::byte* memory;
    std::vector<std::byte> held;
    int64_t uses;  // as StreamOrder::uses, then
  };
  Work work;
  OperationPtr operation;
  std::vector<Promise> promises = {};
};

struct FakeGraph {
  std::vector<Work> works;  // as they were captured
  std::vector<CapturedOperation> operations;
  std::vector<size_t> order;  // in which they are done

  void set_order(GraphOrder wanted);
};

}  // namespace flow::test
