// When each tensor's memory is in use, and where in an arena it may lie.
#include "runtime/plan/lifetimes.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "runtime/base/check.h"

namespace flow::plan {

namespace {

void extend(Tensor& tensor, size_t step) {
  const StepId at{step};
  if (!tensor.first.valid()) tensor.first = at;
  tensor.first = std::min(tensor.first, at);
  tensor.last = std::max(tensor.last, at);
}

}  // namespace

TensorId alias_root(const Job& job, TensorId id) {
  while (job[id].alias.valid()) id = job[id].alias;
  return id;
}

void assign_lifetimes(Job& job) {
  for (Tensor& tensor : job.tensors) tensor.first = tensor.last = StepId{};
  const auto touch = [&job](TensorId id, size_t step) {
    if (id.valid()) extend(job.tensors[id.index()], step);
  };
  for (size_t i = 0; i < job.steps.size(); ++i) {
    const Step& step = job.steps[i];
    for (const TensorId id : step.inputs) touch(id, i);
    for (const TensorId id : step.outputs) touch(id, i);
    for (const Post& post : step.posts)
      for (const TensorId id : post.operands) touch(id, i);
  }
  for (size_t i = 0; i < job.tensors.size(); ++i) {
    Tensor& tensor = job.tensors[i];
    if (tensor.role == Role::kResult) {
      if (!tensor.alias.valid() || !tensor.first.valid()) continue;
      Tensor& root = job.tensors[alias_root(job, TensorId{i}).index()];
      if (root.role == Role::kResult) extend(root, tensor.last.index());
    } else if (!job.steps.empty()) {  // variables and inputs: the whole call
      tensor.first = StepId{size_t{0}};
      tensor.last = StepId{job.steps.size() - 1};
    }
  }
}

namespace {

constexpr size_t kAlignment = 64;

size_t aligned(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

bool overlap(const Block& a, const Block& b) { return a.first <= b.last && b.first <= a.last; }

/// Places blocks in the given order, each into the smallest gap among those that live with it.
Assignment place(const std::vector<Block>& blocks, const std::vector<size_t>& order) {
  Assignment result;
  result.offsets.assign(blocks.size(), 0);
  std::vector<size_t> placed;  // sorted by offset
  for (const size_t block : order) {
    const size_t bytes = aligned(blocks[block].bytes);
    if (bytes == 0) continue;
    size_t free_from = 0, best = SIZE_MAX, best_gap = SIZE_MAX;
    for (const size_t other : placed) {
      if (!overlap(blocks[block], blocks[other])) continue;
      const size_t begin = result.offsets[other];
      if (begin >= free_from + bytes && begin - free_from < best_gap) {
        best = free_from;
        best_gap = begin - free_from;
      }
      free_from = std::max(free_from, begin + aligned(blocks[other].bytes));
    }
    const size_t offset = best != SIZE_MAX ? best : free_from;
    result.offsets[block] = offset;
    result.bytes = std::max(result.bytes, offset + bytes);
    const auto at = std::ranges::upper_bound(placed, offset, {},
                                             [&](size_t other) { return result.offsets[other]; });
    placed.insert(at, block);
  }
  return result;
}

}  // namespace

Assignment assign_memory(const std::vector<Block>& blocks) {
  using Before = std::function<bool(const Block&, const Block&)>;
  const auto length = [](const Block& block) { return block.last - block.first; };
  const Before orders[] = {
      [](const Block& a, const Block& b) { return a.bytes > b.bytes; },
      [&](const Block& a, const Block& b) {
        return a.bytes * (length(a) + 1) > b.bytes * (length(b) + 1);
      },
      [&](const Block& a, const Block& b) { return length(a) > length(b); },
      [](const Block& a, const Block& b) { return a.first < b.first; },
  };
  // Placing is quadratic in the number of blocks that live together; beyond this one order is
  // enough.
  constexpr size_t kMany = 4000;
  Assignment best;
  bool first = true;
  for (const Before& before : orders) {
    std::vector<size_t> order(blocks.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::stable_sort(order,
                             [&](size_t a, size_t b) { return before(blocks[a], blocks[b]); });
    Assignment assignment = place(blocks, order);
    if (first || assignment.bytes < best.bytes) best = std::move(assignment);
    first = false;
    if (blocks.size() > kMany) break;
  }
  return best;
}

}  // namespace flow::plan
