// Averages of many variables in one launch. They round as the CPU's do.
#include "ops/optimizer/cuda_update.cuh"
#include "runtime/cuda/loops/families.h"

namespace flow::cuda {
namespace {

/// An entry's `gradient` is the variable, and what moves is its average.
template <typename T>
__global__ void average(Table<UpdateEntry<1>> table, double decay, const CallBlock* call) {
  const Piece piece = piece_of_block(table);
  const T rest = static_cast<T>(1 - decay);
  const bool first = call->step == 0;
  move_piece<T>(table.entries[piece.index], piece, [=](T w, T(&values)[1]) {
    values[0] = first ? w : values[0] + rest * (w - values[0]);
  });
}

Updates prepare_ema_update(std::span<const Request> requests) {
  const auto decay = attribute<double>(requests[0], "decay");
  return visit_float(requests[0].inputs[0].dtype, [&]<typename T>(T) -> Updates {
    return {[decay, elements = elements_of(requests)](std::span<const Buffers> buffers,
                                                      const LaunchState& state) {
      for_tables<1>(elements, buffers, [&](const auto& table, const LaunchShape& shape, size_t) {
        launch(state.driver, state.stream, "ema_update", shape, average<T>, table, decay,
               state.call);
      });
    }};
  });
}

}  // namespace

std::span<const KernelEntry> kernels::ema() {
  static constexpr KernelEntry kKernels[] = {
      {.op = "ema_update", .prepare_updates = prepare_ema_update}};
  return kKernels;
}

}  // namespace flow::cuda
