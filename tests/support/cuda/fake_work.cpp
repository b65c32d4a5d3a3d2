// The orders of a graph.
#include "tests/support/cuda/fake_work.h"

#include <numeric>
#include <queue>

namespace flow::test {

void FakeGraph::set_order(GraphOrder wanted) {
  order.resize(works.size());
  std::iota(order.begin(), order.end(), size_t{0});
  if (wanted == GraphOrder::kCaptured) return;
  std::vector<std::vector<size_t>> before(works.size());
  std::vector<size_t> open(works.size());  // how many pieces it waits for
  std::priority_queue<size_t> ready;       // the last of all first
  for (const size_t i : order) {
    for (const size_t earlier : operations[i].after) before[earlier].push_back(i);
    if ((open[i] = operations[i].after.size()) == 0) ready.push(i);
  }
  order.clear();
  while (!ready.empty()) {
    const size_t next = ready.top();
    ready.pop();
    order.push_back(next);
    for (const size_t later : before[next])
      if (--open[later] == 0) ready.push(later);
  }
}

}  // namespace flow::test
