// bag_indices: marks the indices of bags that count. bag_sum and bag_max: the sum or the maximum of
// rows of a table, in the order of the indices in a bag. Threads process pieces of whole bags.
#include <algorithm>

#include "ops/core/cpu_labels.h"
#include "ops/embedding_bag/problem.h"
#include "runtime/cpu/backend/families.h"
#include "runtime/cpu/loops/operands.h"

namespace flow::cpu::fast {
namespace {

/// Computes bag_indices: replaces the indices that do not count by -1. Checks that the remaining
/// indices and the lengths are in range.
class BagMarks {
 public:
  explicit BagMarks(const Request& request)
      : indices_(request, request.inputs[0], request.step.attributes.get<int64_t>("extent")),
        count_(request.inputs[0].shape[request.inputs[0].shape.rank() - 1]) {
    if (request.inputs.size() > 1) lengths_.emplace(request, request.inputs[1], count_ + 1);
    if (const plan::Attribute* padding = request.step.attributes.find("padding"))
      padding_ = std::get<int64_t>(*padding);
  }

  void run(const Buffers& buffers, const CallState& state) const {
    if (lengths_) lengths_->run(buffers.inputs[1], state);
    auto* marked = output<int64_t>(buffers, 0);
    const std::byte* indices = buffers.inputs[0];
    for (int64_t first = 0, bag = 0; first < indices_.rows; first += count_, ++bag) {
      const int64_t length =
          lengths_ ? integer_at(lengths_->dtype, buffers.inputs[1], bag) : count_;
      for (int64_t i = 0; i < count_; ++i) {
        const int64_t index = integer_at(indices_.dtype, indices, first + i);
        const bool counts = i < length && index != padding_;
        if (counts) indices_.check(index, first + i, state);
        marked[first + i] = counts ? index : -1;
      }
    }
  }

 private:
  LabelCheck indices_;
  std::optional<LabelCheck> lengths_;
  std::optional<int64_t> padding_;
  int64_t count_;  // number of indices in a bag
};

/// Calls f(bag, first) for each bag in parallel, where `first` is the position of its first index.
template <typename F>
void for_bags(int threads, const BagSizes& sizes, F f) {
  const int64_t work = std::max<int64_t>(1, sizes.count * sizes.units);
  for_pieces(threads, sizes.bags, std::max<int64_t>(1, kPiece / work),
             [&](int64_t begin, int64_t end) {
               for (int64_t bag = begin; bag < end; ++bag) f(bag, bag * sizes.count);
             });
}

Kernel prepare_bag_indices(const Request& request) {
  return {[marks = BagMarks(request)](const Buffers& buffers, const CallState& state) {
    marks.run(buffers, state);
  }};
}

Kernel prepare_bag_sum(const Request& request) {
  return {[sizes = BagSizes(request.inputs[0].shape, request.inputs[1].shape),
           threads = request.threads, dtype = request.inputs[1].dtype,
           weighted = request.inputs.size() > 2](const Buffers& buffers, const CallState&) {
    const float* weights = weighted ? input<float>(buffers, 2) : nullptr;
    for_bags(threads, sizes, [&](int64_t bag, int64_t first) {
      float* to = output<float>(buffers, 0) + bag * sizes.units;
      std::fill_n(to, sizes.units, 0.0f);
      for (int64_t i = first; i < first + sizes.count; ++i) {
        const int64_t row = integer_at(dtype, buffers.inputs[1], i);
        if (row < 0 || row >= sizes.rows) continue;
        const float* from = input<float>(buffers, 0) + row * sizes.units;
        const float weight = weights ? weights[i] : 1.0f;
#pragma omp simd
        for (int64_t k = 0; k < sizes.units; ++k) to[k] += weight * from[k];
      }
    });
  }};
}

Kernel prepare_bag_max(const Request& request) {
  return {[sizes = BagSizes(request.inputs[0].shape, request.inputs[1].shape),
           threads = request.threads, dtype = request.inputs[1].dtype,
           wants_places = request.outputs.size() > 1 && request.outputs[1].used](
              const Buffers& buffers, const CallState&) {
    for_bags(threads, sizes, [&](int64_t bag, int64_t first) {
      float* to = output<float>(buffers, 0) + bag * sizes.units;
      int64_t* places = wants_places ? output<int64_t>(buffers, 1) + bag * sizes.units : nullptr;
      std::fill_n(to, sizes.units, 0.0f);
      if (places) std::fill_n(places, sizes.units, -1);
      bool empty = true;
      for (int64_t i = 0; i < sizes.count; ++i) {
        const int64_t row = integer_at(dtype, buffers.inputs[1], first + i);
        if (row < 0 || row >= sizes.rows) continue;
        const float* from = input<float>(buffers, 0) + row * sizes.units;
        for (int64_t k = 0; k < sizes.units; ++k) {
          if (!empty && !exceeds(from[k], to[k])) continue;
          to[k] = from[k];
          if (places) places[k] = i;
        }
        empty = false;
      }
    });
  }};
}

}  // namespace

std::span<const KernelEntry> embedding_bag() {
  static constexpr KernelEntry kKernels[] = {
      {"bag_indices", prepare_bag_indices},
      {"bag_sum", prepare_bag_sum},
      {"bag_max", prepare_bag_max},
  };
  return kKernels;
}

}  // namespace flow::cpu::fast
