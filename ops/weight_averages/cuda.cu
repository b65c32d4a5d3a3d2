// Averages of many variables in one launch, and Lookahead around the updates of many variables:
// most steps of a cycle leave all as it is. They round as the CPU's kernels do.
#include "ops/optimizer/cuda_update.cuh"
#include "runtime/base/optimizer_math.h"
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

/// An entry's `gradient` is the variable, and what moves is where its cycle starts.
template <typename T>
__global__ void start_cycle(Table<UpdateEntry<1>> table, int64_t steps, const CallBlock* call) {
  const Piece piece = piece_of_block(table);
  const UpdateEntry<1>& entry = table.entries[piece.index];
  if (!begins_cycle(steps, call->step)) return keep_piece<T>(entry, piece);
  move_piece<T>(entry, piece, [](T w, T(&values)[1]) { values[0] = w; });
}

/// An entry's `gradient` is where the cycle started, and what moves is the variable.
template <typename T>
__global__ void end_cycle(Table<UpdateEntry<1>> table, int64_t steps, double alpha,
                          const CallBlock* call) {
  const Piece piece = piece_of_block(table);
  const UpdateEntry<1>& entry = table.entries[piece.index];
  if (!ends_cycle(steps, call->step)) return keep_piece<T>(entry, piece);
  const T part = static_cast<T>(alpha);
  move_piece<T>(entry, piece,
                [part](T slow, T(&values)[1]) { values[0] = slow + part * (values[0] - slow); });
}

Updates prepare_lookahead_start(std::span<const Request> requests) {
  const auto steps = attribute<int64_t>(requests[0], "steps");
  return visit_float(requests[0].inputs[0].dtype, [&]<typename T>(T) -> Updates {
    return {[steps, elements = elements_of(requests)](std::span<const Buffers> buffers,
                                                      const LaunchState& state) {
      for_tables<1>(elements, buffers, [&](const auto& table, const LaunchShape& shape, size_t) {
        launch(state.driver, state.stream, "lookahead_start", shape, start_cycle<T>, table, steps,
               state.call);
      });
    }};
  });
}

Updates prepare_lookahead_update(std::span<const Request> requests) {
  const auto steps = attribute<int64_t>(requests[0], "steps");
  const auto alpha = attribute<double>(requests[0], "alpha");
  return visit_float(requests[0].inputs[0].dtype, [&]<typename T>(T) -> Updates {
    return {[steps, alpha, elements = elements_of(requests)](std::span<const Buffers> buffers,
                                                             const LaunchState& state) {
      for_tables<1>(elements, buffers, [&](const auto& table, const LaunchShape& shape, size_t) {
        launch(state.driver, state.stream, "lookahead_update", shape, end_cycle<T>, table, steps,
               alpha, state.call);
      });
    }};
  });
}

}  // namespace

std::span<const KernelEntry> kernels::weight_averages() {
  static constexpr KernelEntry kKernels[] = {
      {.op = "ema_update", .prepare_updates = prepare_ema_update},
      {.op = "lookahead_start", .prepare_updates = prepare_lookahead_start},
      {.op = "lookahead_update", .prepare_updates = prepare_lookahead_update},
  };
  return kKernels;
}

}  // namespace flow::cuda
