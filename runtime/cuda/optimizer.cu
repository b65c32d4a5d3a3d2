// The optimizers' updates: one pass over the gradients of many variables and what they move. The
// learning rate is read on the device, so that a captured call can be launched at any step.
#include "runtime/cuda/map.cuh"
#include "runtime/cuda/operands.h"

namespace flow::cuda {
namespace {

constexpr int kMostTensors = 48;  // of one launch: tables are kernel parameters, 4096 bytes at most
constexpr int64_t kChunk = 16 * kThreads;  // elements of a block

/// A variable; `end` is the first block that is another's.
struct Sgd {
  const std::byte *gradient, *variable;
  std::byte* updated;
  double scale;
  int64_t elements, end;
};

struct Momentum {
  const std::byte *gradient, *variable, *momentum;
  std::byte *updated, *updated_momentum;
  double scale, decay;
  int64_t elements, end;
};

template <typename Entry>
struct Table {
  Entry entries[kMostTensors];
};

/// Elements [first, end) of a variable.
struct Piece {
  int index;
  int64_t first, end;
};

/// What this block does.
template <typename Entry>
__device__ Piece piece_of_block(const Table<Entry>& table) {
  const int64_t block = blockIdx.x;
  int index = 0;
  while (block >= table.entries[index].end) ++index;
  const int64_t first = (block - (index ? table.entries[index - 1].end : 0)) * kChunk;
  const int64_t rest = table.entries[index].elements - first;
  return {index, first, first + (rest < kChunk ? rest : kChunk)};
}

/// w += a * g with a = -lr * scale, the product rounded before the sum.
template <typename T>
__global__ void update_sgd(Table<Sgd> table, const CallBlock* call) {
  const Piece piece = piece_of_block(table);
  const Sgd& entry = table.entries[piece.index];
  const auto a = static_cast<T>(-call->learning_rate * entry.scale);
  const T* g = reinterpret_cast<const T*>(entry.gradient) + piece.first;
  const T* w = reinterpret_cast<const T*>(entry.variable) + piece.first;
  T* updated = reinterpret_cast<T*>(entry.updated) + piece.first;
  const int64_t n = piece.end - piece.first, vectors = n / Vector<T>::kCount;
  for (int64_t i = threadIdx.x; i < vectors; i += blockDim.x) {
    const Vector<T> gs = reinterpret_cast<const Vector<T>*>(g)[i];
    Vector<T> ws = reinterpret_cast<const Vector<T>*>(w)[i];
    for (int k = 0; k < Vector<T>::kCount; ++k) ws.values[k] = ws.values[k] + a * gs.values[k];
    reinterpret_cast<Vector<T>*>(updated)[i] = ws;
  }
  for (int64_t i = vectors * Vector<T>::kCount + threadIdx.x; i < n; i += blockDim.x)
    updated[i] = w[i] + a * g[i];
}

/// m = b*m + scale*g; w -= lr*m, with Nesterov w -= lr*(scale*g + b*m).
template <typename T>
__global__ void update_momentum(Table<Momentum> table, bool nesterov, const CallBlock* call) {
  const Piece piece = piece_of_block(table);
  const Momentum& entry = table.entries[piece.index];
  const auto scale = static_cast<T>(entry.scale), decay = static_cast<T>(entry.decay);
  const auto negative_rate = static_cast<T>(-call->learning_rate);
  const T* g = reinterpret_cast<const T*>(entry.gradient);
  const T* w = reinterpret_cast<const T*>(entry.variable);
  const T* m = reinterpret_cast<const T*>(entry.momentum);
  for (int64_t i = piece.first + threadIdx.x; i < piece.end; i += blockDim.x) {
    const T scaled = scale * g[i];
    const T moved = decay * m[i] + scaled;
    const T direction = nesterov ? scaled + decay * moved : moved;
    reinterpret_cast<T*>(entry.updated)[i] = w[i] + negative_rate * direction;
    reinterpret_cast<T*>(entry.updated_momentum)[i] = moved;
  }
}

Sgd entry_of(const Buffers& b, const Sgd& known) {
  Sgd entry = known;
  entry.gradient = b.inputs[0];
  entry.variable = b.inputs[1];
  entry.updated = b.outputs[0];
  return entry;
}

Momentum entry_of(const Buffers& b, const Momentum& known) {
  Momentum entry = known;
  entry.gradient = b.inputs[0];
  entry.variable = b.inputs[1];
  entry.momentum = b.inputs[2];
  entry.updated = b.outputs[0];
  entry.updated_momentum = b.outputs[1];
  return entry;
}

/// Calls run(table, blocks) with kMostTensors variables at a time, or the rest.
template <typename Entry, typename Run>
void for_tables(const std::vector<Entry>& known, std::span<const Buffers> buffers, Run run) {
  for (size_t first = 0; first < known.size(); first += kMostTensors) {
    const size_t end = std::min(known.size(), first + kMostTensors);
    Table<Entry> table{};
    int64_t blocks = 0;
    for (size_t i = first; i < end; ++i) {
      blocks += (known[i].elements + kChunk - 1) / kChunk;
      Entry& entry = table.entries[i - first];
      entry = entry_of(buffers[i], known[i]);
      entry.end = blocks;
    }
    run(table, LaunchShape{{static_cast<unsigned>(blocks)}, {kThreads}});
  }
}

}  // namespace

LaunchUpdates sgd_update(std::span<const Request> requests) {
  std::vector<Sgd> known(requests.size());
  for (size_t i = 0; i < requests.size(); ++i) {
    known[i].scale = attribute<double>(requests[i], "scale");
    known[i].elements = result_elements(requests[i]);
  }
  return visit_float(requests[0].inputs[0].dtype, [&]<typename T>(T) -> LaunchUpdates {
    return [known](std::span<const Buffers> buffers, const LaunchState& state) {
      for_tables(known, buffers, [&](const Table<Sgd>& table, const LaunchShape& shape) {
        launch(state.driver, state.stream, "sgd_update", shape, update_sgd<T>, table, state.call);
      });
    };
  });
}

LaunchUpdates momentum_update(std::span<const Request> requests) {
  std::vector<Momentum> known(requests.size());
  for (size_t i = 0; i < requests.size(); ++i) {
    known[i].scale = attribute<double>(requests[i], "scale");
    known[i].decay = attribute<double>(requests[i], "momentum");
    known[i].elements = result_elements(requests[i]);
  }
  return visit_float(requests[0].inputs[0].dtype, [&]<typename T>(T) -> LaunchUpdates {
    return [known, nesterov = attribute<bool>(requests[0], "nesterov")](
               std::span<const Buffers> buffers, const LaunchState& state) {
      for_tables(known, buffers, [&](const Table<Momentum>& table, const LaunchShape& shape) {
        launch(state.driver, state.stream, "momentum_update", shape, update_momentum<T>, table,
               nesterov, state.call);
      });
    };
  });
}

}  // namespace flow::cuda
