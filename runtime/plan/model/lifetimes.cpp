// Determines when the memory of each tensor is in use, and places blocks in an arena. It tries
// several orders, places each block best-fit, and keeps the smallest arena.
#include "runtime/plan/model/lifetimes.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "runtime/base/error.h"
#include "runtime/base/host_device.h"

namespace flow::plan {

namespace {

void extend(Tensor& tensor, StepId step) { tensor.last = std::max(tensor.last, step); }

void extend_returned(Job& job, const ReturnValue& value, StepId end) {
  if (value.tensor.valid()) extend(job.tensors[value.tensor.index()], end);
  for (const ReturnValue& item : value.items) extend_returned(job, item, end);
}

}  // namespace

std::vector<TensorId> alias_roots(const Job& job) {
  std::vector<TensorId> roots(job.tensors.size());
  for (size_t i = 0; i < roots.size(); ++i) {
    TensorId end(i);  // the end of the chain, or the first tensor whose root is known
    while (job[end].alias.valid() && !roots[end.index()].valid()) end = job[end].alias;
    if (!roots[end.index()].valid()) roots[end.index()] = end;
    for (TensorId id(i); id != end; id = job[id].alias) roots[id.index()] = roots[end.index()];
  }
  return roots;
}

std::vector<TensorId> read_in_passes(const Job& job) {
  const size_t first = job.loop->first.index(), end = job.loop->end.index();
  std::vector<bool> outside(job.tensors.size());
  for (size_t i = 0; i < first; ++i)
    for (const TensorId id : job.steps[i].outputs)
      if (id.valid()) outside[id.index()] = true;
  std::vector<TensorId> read;
  for (size_t i = first; i < end; ++i)
    visit_operands(job.steps[i], [&](TensorId id) {
      if (outside[id.index()]) read.push_back(id);
      outside[id.index()] = false;  // so that the tensor is listed once
    });
  return read;
}

void assign_lifetimes(Job& job) {
  for (Tensor& tensor : job.tensors) tensor.first = tensor.last = StepId();
  if (job.steps.empty()) return;
  const auto tensor = [&job](TensorId id) -> Tensor& { return job.tensors[id.index()]; };

  const StepId end(job.steps.size() - 1);
  for (Tensor& outer : job.tensors) {
    if (outer.role == Role::kResult) continue;
    outer.first = StepId(size_t{0});
    outer.last = end;
  }
  for (size_t i = 0; i < job.steps.size(); ++i) {
    const Step& step = job.steps[i];
    for (const TensorId id : step.outputs)
      if (id.valid()) tensor(id).first = tensor(id).last = StepId(i);
    visit_operands(step, [&](TensorId id) { extend(tensor(id), StepId(i)); });
  }
  // Delivered tensors are read after the call is complete.
  for (const Hook& hook : job.hooks) extend(tensor(hook.tensor), end);
  if (job.returns) extend_returned(job, job.returns->value, end);
  if (job.optimizer) visit_tensors(*job.optimizer, [&](TensorId id) { extend(tensor(id), end); });

  // The parts from shards are combined after the last step of each shard.
  if (job.sharding)
    for (Tensor& part : job.tensors)
      if (part.combine) extend(part, std::min(job.sharding->steps, end));

  // Tensors that are made before a loop are also read in its last pass.
  if (job.loop)
    for (const TensorId id : read_in_passes(job))
      extend(tensor(id), StepId(job.loop->end.index() - 1));

  const std::vector<TensorId> roots = alias_roots(job);
  for (size_t i = 0; i < roots.size(); ++i) extend(tensor(roots[i]), job.tensors[i].last);
}

namespace {

constexpr size_t kAlignment = 64;

size_t aligned(size_t bytes) { return round_up(bytes, kAlignment); }

/// Returns the total bytes of all blocks at the step at which most are alive. No arena can be
/// smaller.
size_t live_peak(const std::vector<Block>& blocks) {
  std::vector<std::pair<size_t, size_t>> starts, ends;  // (step, bytes)
  for (const Block& block : blocks) {
    starts.emplace_back(block.first, block.bytes);
    ends.emplace_back(block.last, block.bytes);
  }
  std::ranges::sort(starts);
  std::ranges::sort(ends);
  size_t live = 0, peak = 0;
  auto ended = ends.begin();
  for (const auto& [step, bytes] : starts) {
    for (; ended->first < step; ++ended) live -= ended->second;
    live += bytes;
    peak = std::max(peak, live);
  }
  return peak;
}

struct Placed {
  size_t begin, end;   // bytes
  size_t first, last;  // steps
};

/// An arena that is filled block by block. The blocks placed so far are sorted by offset.
class Arena {
 public:
  /// Places the block into the smallest gap that is large enough, and returns its offset.
  size_t place(const Block& block) {
    constexpr size_t kNone = std::numeric_limits<size_t>::max();
    size_t best = kNone, best_gap = kNone, free_from = 0;
    for (const Placed& other : placed_) {
      if (other.last < block.first || block.last < other.first) continue;
      if (other.begin >= free_from + block.bytes && other.begin - free_from < best_gap) {
        best = free_from;
        best_gap = other.begin - free_from;
      }
      free_from = std::max(free_from, other.end);
    }
    const size_t begin = best == kNone ? free_from : best;
    const Placed made{begin, begin + block.bytes, block.first, block.last};
    placed_.insert(std::ranges::upper_bound(placed_, begin, {}, &Placed::begin), made);
    bytes_ = std::max(bytes_, made.end);
    return begin;
  }
  size_t bytes() const { return bytes_; }

 private:
  std::vector<Placed> placed_;
  size_t bytes_ = 0;
};

Assignment place_in_order(const std::vector<Block>& blocks, const std::vector<size_t>& order) {
  Assignment made{std::vector<size_t>(blocks.size(), 0), 0};
  Arena arena;
  for (const size_t i : order)
    if (blocks[i].bytes > 0) made.offsets[i] = arena.place(blocks[i]);
  made.bytes = arena.bytes();
  return made;
}

/// A comparison that is true if the first block is placed before the second. Blocks that compare
/// equal keep their order.
using Before = bool (*)(const Block&, const Block&);

size_t duration(const Block& block) { return block.last - block.first + 1; }

constexpr Before kOrders[] = {
    [](const Block& a, const Block& b) { return a.bytes > b.bytes; },
    [](const Block& a, const Block& b) {
      return duration(a) != duration(b) ? duration(a) > duration(b) : a.bytes > b.bytes;
    },
    [](const Block& a, const Block& b) {
      return a.first != b.first ? a.first < b.first : a.bytes > b.bytes;
    },
    [](const Block& a, const Block& b) {
      const auto area = [](const Block& block) {
        return static_cast<double>(block.bytes) * static_cast<double>(duration(block));
      };
      return area(a) > area(b);
    },
};

}  // namespace

Assignment assign_memory(const std::vector<Block>& given) {
  std::vector<Block> blocks = given;
  size_t sum = 0;
  for (Block& block : blocks) {
    FLOW_CHECK(block.first <= block.last);
    FLOW_CHECK(block.bytes <= std::numeric_limits<size_t>::max() / 2 - sum, "sizes overflow");
    block.bytes = aligned(block.bytes);
    sum += block.bytes;
  }
  const size_t least = live_peak(blocks);
  Assignment best;
  best.bytes = std::numeric_limits<size_t>::max();
  for (const Before before : kOrders) {
    std::vector<size_t> order(blocks.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::stable_sort(order,
                             [&](size_t a, size_t b) { return before(blocks[a], blocks[b]); });
    Assignment made = place_in_order(blocks, order);
    if (made.bytes < best.bytes) best = std::move(made);
    if (best.bytes == least) break;
  }
  return best;
}

}  // namespace flow::plan
