// move_statistics: the kernel that updates the moving averages of many layers in one launch.
#include "ops/batch_norm/cuda_statistics.h"

#include "ops/core/cuda_launch.cuh"
#include "runtime/cuda/loops/kernel.h"
#include "runtime/cuda/loops/threads.cuh"

namespace flow::cuda {
namespace {

constexpr int kMostLayers = 48;  // layers per launch; kernel parameters have at most 4096 bytes

/// The statistics of a layer, as vectors of `channels` elements.
struct Layer {
  const std::byte *mean, *variance, *moving_mean, *moving_variance;
  std::byte *updated_mean, *updated_variance;
  int64_t channels;
};

struct Layers {
  Layer entries[kMostLayers];
};

/// Updates the moving averages with one block per layer.
template <typename T>
__global__ void move(Layers layers, double momentum, double unbias) {
  const Layer& layer = layers.entries[blockIdx.x];
  const auto moved = [=](T moving, double batch) {
    return static_cast<T>(momentum * static_cast<double>(moving) + (1 - momentum) * batch);
  };
  const auto at = [](const std::byte* vector, int64_t c) {
    return reinterpret_cast<const T*>(vector)[c];
  };
  for (int64_t c = threadIdx.x; c < layer.channels; c += blockDim.x) {
    const T mean = moved(at(layer.moving_mean, c), static_cast<double>(at(layer.mean, c)));
    const T variance =
        moved(at(layer.moving_variance, c), unbias * static_cast<double>(at(layer.variance, c)));
    reinterpret_cast<T*>(layer.updated_mean)[c] = mean;
    reinterpret_cast<T*>(layer.updated_variance)[c] = variance;
  }
}

Layer layer_of(const Buffers& b, int64_t channels) {
  return {b.inputs[0], b.inputs[1], b.inputs[2], b.inputs[3], b.outputs[0], b.outputs[1], channels};
}

}  // namespace

Updates prepare_move_statistics(std::span<const Request> requests) {
  std::vector<int64_t> channels;
  for (const Request& request : requests) channels.push_back(result_elements(request));
  const double momentum = attribute<double>(requests[0], "momentum");
  const double unbias = attribute<double>(requests[0], "unbias");
  return visit_float(requests[0].inputs[0].dtype, [&]<typename T>(T) -> Updates {
    return {[=](std::span<const Buffers> buffers, const LaunchState& state) {
      for (size_t first = 0; first < channels.size(); first += kMostLayers) {
        const size_t count = std::min<size_t>(kMostLayers, channels.size() - first);
        Layers layers{};
        for (size_t i = 0; i < count; ++i)
          layers.entries[i] = layer_of(buffers[first + i], channels[first + i]);
        launch(state, "move_statistics", {{static_cast<unsigned>(count)}, {kThreads}}, move<T>,
               layers, momentum, unbias);
      }
    }};
  });
}

}  // namespace flow::cuda
