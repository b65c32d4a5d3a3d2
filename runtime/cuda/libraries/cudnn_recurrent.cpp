// The descriptors of recurrent layers and the calls that run them.
#include "runtime/cuda/libraries/cudnn_recurrent.h"

#include <cudnn_adv.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include "runtime/base/error.h"

namespace flow::cuda {
namespace {

using Cell = RecurrentSpec::Cell;

constexpr const char* kBuffers = "CUBLAS_WORKSPACE_CONFIG";

void require(cudnnStatus_t status, std::string_view what) {
  if (status != CUDNN_STATUS_SUCCESS)
    throw RunError(fmt::format("cuDNN: {} failed: {}", what, cudnnGetErrorString(status)));
}

template <typename T>
RecurrentDescriptor<T> create(cudnnStatus_t (*function)(T*),
                              std::string_view what = "creating a descriptor") {
  T made = nullptr;
  require(function(&made), what);
  return RecurrentDescriptor<T>(made);
}

cudnnDataType_t type_of(DType dtype) {
  return dtype == DType::kFloat64 ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;
}

/// By default, cuDNN rounds operands to TF32.
cudnnMathType_t math_of(const RecurrentSpec& spec) {
  const bool exact = spec.dtype == DType::kFloat32 && !spec.math_mode.tf32;
  return exact ? CUDNN_FMA_MATH : CUDNN_DEFAULT_MATH;
}

cudnnRNNMode_t mode_of(Cell cell) {
  return cell == Cell::kLstm ? CUDNN_LSTM : cell == Cell::kGru ? CUDNN_GRU : CUDNN_RNN_TANH;
}

cudnnRNNBiasMode_t biases_of(const RecurrentSpec& spec) {
  if (spec.input_bias && spec.recurrent_bias) return CUDNN_RNN_DOUBLE_BIAS;
  if (spec.input_bias) return CUDNN_RNN_SINGLE_INP_BIAS;
  return spec.recurrent_bias ? CUDNN_RNN_SINGLE_REC_BIAS : CUDNN_RNN_NO_BIAS;
}

cudnnForwardMode_t forward_mode_of(const RecurrentSpec& spec) {
  const bool trains = spec.trains || spec.pass == RecurrentSpec::Pass::kGrad;
  return trains ? CUDNN_FWD_MODE_TRAINING : CUDNN_FWD_MODE_INFERENCE;
}

/// The cuDNN descriptors of a spec.
struct Descriptors {
  RecurrentDescriptor<cudnnDropoutDescriptor_t> dropout = create(cudnnCreateDropoutDescriptor);
  RecurrentDescriptor<cudnnRNNDescriptor_t> layer = create(cudnnCreateRNNDescriptor);
  RecurrentDescriptor<cudnnRNNDataDescriptor_t> x = create(cudnnCreateRNNDataDescriptor),
                                                y = create(cudnnCreateRNNDataDescriptor);
  RecurrentDescriptor<cudnnTensorDescriptor_t> state = create(cudnnCreateTensorDescriptor);

  Descriptors(cudnnHandle_t handle, const RecurrentSpec& spec) {
    const cudnnDataType_t type = type_of(spec.dtype);
    const auto features = static_cast<int32_t>(spec.features);
    const auto units = static_cast<int32_t>(spec.units), rows = static_cast<int32_t>(spec.rows);
    require(cudnnSetDropoutDescriptor(dropout.get(), handle, 0, nullptr, 0, 0),
            "turning off dropout");
    require(cudnnSetRNNDescriptor_v8(layer.get(), CUDNN_RNN_ALGO_STANDARD, mode_of(spec.cell),
                                     biases_of(spec), CUDNN_UNIDIRECTIONAL, CUDNN_LINEAR_INPUT,
                                     type, type, math_of(spec), features, units, units, 1,
                                     dropout.get(), CUDNN_RNN_PADDED_IO_ENABLED),
            "describing a recurrent layer");
    describe_steps(x.get(), spec, features);
    describe_steps(y.get(), spec, units);
    const std::array<int, 3> extents{1, rows, units}, strides{rows * units, units, 1};
    require(cudnnSetTensorNdDescriptor(state.get(), type, 3, extents.data(), strides.data()),
            "describing a state");
  }

 private:
  static void describe_steps(cudnnRNNDataDescriptor_t steps, const RecurrentSpec& spec,
                             int32_t width) {
    const std::vector<int> lengths(static_cast<size_t>(spec.rows), static_cast<int>(spec.steps));
    require(cudnnSetRNNDataDescriptor(steps, type_of(spec.dtype),
                                      CUDNN_RNN_DATA_LAYOUT_BATCH_MAJOR_UNPACKED,
                                      static_cast<int>(spec.steps), static_cast<int>(spec.rows),
                                      width, lengths.data(), nullptr),
            "describing the steps of a recurrent layer");
  }
};

/// A weight matrix or bias of one gate.
struct FoundWeights {
  bool exists;
  size_t offset, bytes;
  bool in_order;  // true if the elements are in C order
};

FoundWeights weights_at(cudnnTensorDescriptor_t descriptor, const void* address,
                        const std::byte* base) {
  if (!address) return {};
  constexpr int kAxes = 3;
  cudnnDataType_t type;
  int axes = 0;
  std::array<int, kAxes> extents{}, strides{};
  require(
      cudnnGetTensorNdDescriptor(descriptor, kAxes, &type, &axes, extents.data(), strides.data()),
      "reading the layout of weights");
  FoundWeights found{true, static_cast<size_t>(static_cast<const std::byte*>(address) - base),
                     type == CUDNN_DATA_DOUBLE ? sizeof(double) : sizeof(float), true};
  int64_t expected = 1;
  for (int axis = std::min(axes, kAxes) - 1; axis >= 0; --axis) {
    const size_t i = static_cast<size_t>(axis);
    found.in_order &= extents[i] == 1 || strides[i] == expected;
    expected *= extents[i];
  }
  found.bytes *= static_cast<size_t>(expected);
  return found;
}

/// Returns where cuDNN stores the weights and biases of each gate: first those of x, then those of
/// h.
std::optional<std::vector<WeightPart>> layout_of(cudnnHandle_t handle, const RecurrentSpec& spec,
                                                 const Descriptors& descriptors, size_t bytes) {
  // cuDNN adds offsets to this address of the buffer, and returns a null address for a tensor that
  // does not exist.
  const auto* const base = reinterpret_cast<const std::byte*>(uintptr_t{1} << 20);
  const auto matrix = create(cudnnCreateTensorDescriptor),
             bias = create(cudnnCreateTensorDescriptor);
  std::vector<WeightPart> parts;
  const auto add = [&](WeightPart::Tensor tensor, int64_t gate, const FoundWeights& found,
                       int64_t width) {
    const size_t expected = static_cast<size_t>(spec.units * width) * size_of(spec.dtype);
    if (!found.in_order || found.bytes != expected || found.offset + expected > bytes) return false;
    parts.push_back({tensor, static_cast<size_t>(gate) * expected, found.offset, expected});
    return true;
  };
  for (int64_t id = 0; id < 2 * spec.gates(); ++id) {
    const bool recurrent = id >= spec.gates();
    const int64_t gate = id % spec.gates();
    void *matrix_at = nullptr, *bias_at = nullptr;
    require(cudnnGetRNNWeightParams(handle, descriptors.layer.get(), 0, bytes, base,
                                    static_cast<int32_t>(id), matrix.get(), &matrix_at, bias.get(),
                                    &bias_at),
            "reading the layout of weights");
    if (!add(recurrent ? WeightPart::kRecurrent : WeightPart::kInput, gate,
             weights_at(matrix.get(), matrix_at, base), recurrent ? spec.units : spec.features))
      return {};
    const FoundWeights own = weights_at(bias.get(), bias_at, base);
    if (own.exists != (recurrent ? spec.recurrent_bias : spec.input_bias)) return {};
    if (own.exists &&
        !add(recurrent ? WeightPart::kRecurrentBias : WeightPart::kInputBias, gate, own, 1))
      return {};
  }
  std::ranges::sort(parts, {}, &WeightPart::to);
  return parts;
}

/// All the data that the calls of a kernel use.
struct Layer {
  cudnnHandle_t handle;
  RecurrentSpec spec;
  Descriptors descriptors;
  size_t weights = 0, workspace = 0, reserve = 0;  // bytes

  Layer(cudnnHandle_t own, const RecurrentSpec& of) : handle(own), spec(of), descriptors(own, of) {
    require(cudnnGetRNNWeightSpaceSize(handle, descriptors.layer.get(), &weights),
            "measuring the weights of a recurrent layer");
    require(cudnnGetRNNTempSpaceSizes(handle, descriptors.layer.get(), forward_mode_of(spec),
                                      descriptors.x.get(), &workspace, &reserve),
            "measuring a recurrent layer");
  }

  void forward(const RecurrentBuffers& b) const {
    const Descriptors& d = descriptors;
    require(cudnnRNNForward(handle, d.layer.get(), forward_mode_of(spec), nullptr, d.x.get(), b.x,
                            d.y.get(), b.y, d.state.get(), b.h0, b.h, d.state.get(), b.c0, b.c,
                            weights, b.weights, workspace, b.workspace, reserve, b.reserve),
            "a recurrent layer");
  }

  void backward(const RecurrentBuffers& b) const {
    const Descriptors& d = descriptors;
    require(cudnnRNNBackwardData_v8(handle, d.layer.get(), nullptr, d.y.get(), b.y, b.dy, d.x.get(),
                                    b.dx, d.state.get(), b.h0, b.dh, b.dh0, d.state.get(), b.c0,
                                    b.dc, b.dc0, weights, b.weights, workspace, b.workspace,
                                    reserve, b.reserve),
            "gradients of a recurrent layer");
    if (!b.dweights) return;
    require(cudnnRNNBackwardWeights_v8(handle, d.layer.get(), CUDNN_WGRAD_MODE_ADD, nullptr,
                                       d.x.get(), b.x, d.state.get(), b.h0, d.y.get(), b.y, weights,
                                       b.dweights, workspace, b.workspace, reserve, b.reserve),
            "weight gradients of a recurrent layer");
  }

  void run(const RecurrentBuffers& buffers, Stream stream) const {
    require(cudnnSetStream(handle, static_cast<cudaStream_t>(stream.handle)), "choosing a stream");
    spec.pass == RecurrentSpec::Pass::kForward ? forward(buffers) : backward(buffers);
  }
};

/// cuDNN's descriptors have 32-bit extents and strides.
bool fits(const RecurrentSpec& spec) {
  constexpr double kMost = std::numeric_limits<int32_t>::max();
  const auto gates = static_cast<double>(spec.gates() * spec.units),
             inputs = static_cast<double>(spec.features), states = static_cast<double>(spec.units),
             rows = static_cast<double>(spec.rows) * static_cast<double>(spec.steps);
  return rows * std::max(inputs, gates) <= kMost && gates * (inputs + states) <= kMost;
}

/// Returns true if the environment requests buffers of one size, as in ":4096:2".
bool has_one_size_of_buffers() {
  const char* text = std::getenv(kBuffers);
  return text && std::ranges::count(std::string_view(text), ':') == 2;
}

RunError refused(std::string_view reason) {
  const size_t version = cudnnGetVersion();
  return RunError(fmt::format("cuDNN {}.{}.{}: {}", version / 10000, version % 10000 / 100,
                              version % 100, reason));
}

}  // namespace

void CudnnRecurrent::make_reproducible() { setenv(kBuffers, ":4096:2", 0); }

Expected<RecurrentKernel> CudnnRecurrent::find(const RecurrentSpec& spec) {
  if (!fits(spec)) return refused("the layer is too large for 32-bit indices");
  if (!spec.math_mode.any_order && !has_one_size_of_buffers())
    return refused(fmt::format("{} asks for buffers of several sizes", kBuffers));
  std::shared_ptr<const Layer> layer;
  std::optional<std::vector<WeightPart>> layout;
  try {
    if (!handle_) handle_ = create(cudnnCreate, "initializing");
    layer = std::make_shared<const Layer>(handle_.get(), spec);
    layout = layout_of(handle_.get(), spec, layer->descriptors, layer->weights);
  } catch (const RunError& error) {
    return error;
  }
  if (!layout) return refused("its weights have an unknown layout");
  if (layer->workspace > spec.most_workspace) return refused("its workspace is too large");
  RecurrentKernel kernel;
  kernel.workspace = layer->workspace;
  kernel.name = "cuDNN recurrent layer";
  kernel.reserve = layer->reserve;
  kernel.weights = layer->weights;
  kernel.layout = *std::move(layout);
  kernel.try_run = [layer](const RecurrentBuffers& buffers,
                           Stream stream) -> std::optional<RunError> {
    layer->run(buffers, stream);
    return {};
  };
  return kernel;
}

}  // namespace flow::cuda
