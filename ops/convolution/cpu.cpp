// convolution, convolution_grad_data, convolution_grad_weight: (N, C, H, W) x (O, C/g, kh, kw) ->
// (N, O, H', W') by oneDNN, in chunks of images. The images of a chunk depend only on shapes, each
// chunk runs on one thread, and the weight gradients of chunks are summed in order, so results do
// not depend on the number of threads. Each call converts the weights to oneDNN's layout. oneDNN's
// relu turns NaN into 0, so this file applies relu itself, to each chunk while it is in the cache.
#include <algorithm>
#include <utility>
#include <vector>

#include "ops/convolution/cpu_pass.h"
#include "ops/core/cpu_epilogue.h"
#include "ops/core/spec.h"
#include "runtime/base/error.h"
#include "runtime/base/host_device.h"
#include "runtime/cpu/backend/families.h"
#include "runtime/cpu/loops/onednn_status.h"
#include "runtime/cpu/loops/parallel.h"
#include "runtime/cpu/loops/vectors.h"

namespace flow::cpu::fast {
namespace {

using dnnl::memory;

size_t aligned(size_t bytes) { return round_up(bytes, 64); }

/// Returns the number of images in a chunk that relu processes afterwards, so that the chunk's
/// result stays in an L2 cache.
int64_t hot_images(const ConvolutionGeometry& geometry) {
  constexpr int64_t kHot = 128 << 10;  // in elements
  const int64_t hot = std::max<int64_t>(1, kHot / geometry.y.elements(1, 4));
  return std::min(chunk_images(geometry), hot);
}

/// The memory objects with which one thread runs one pass, and the arguments made from them.
struct PassArguments {
  memory given[2], wanted[2], weights, bias, scratchpad;
  std::vector<dnnl_exec_arg_t> list;
};

class Convolution {
 public:
  Convolution(const Request& request, const ConvolutionGeometry& geometry, bool relu)
      : engine_(dnnl::engine::kind::cpu, 0),
        stream_(engine_),
        geometry_(geometry),
        relu_(relu),
        threads_(request.threads),
        chunk_(relu ? hot_images(geometry) : chunk_images(geometry)),
        chunks_(ceil_div(geometry.x[0], chunk_)) {
    const int64_t tail = geometry.x[0] - (chunks_ - 1) * chunk_;
    passes_.push_back(make_convolution_pass(engine_, geometry_, chunk_, std::nullopt));
    if (tail != chunk_)
      passes_.push_back(make_convolution_pass(engine_, geometry_, tail, passes_[0].weights));
    const bool gradient = geometry_.direction == Direction::kGradWeight;
    const memory::desc plain = plain_weights(geometry_), native = passes_[0].weights;
    weights_reordered_ = plain != native;
    plain_weights_ = make_memory(plain);
    native_weights_ = make_memory(native);
    if (weights_reordered_)
      weights_reorder_ = gradient ? dnnl::reorder(native_weights_, plain_weights_)
                                  : dnnl::reorder(plain_weights_, native_weights_);
    plan_workspace(gradient);
    const int64_t workers = std::min<int64_t>(threads_, chunks_);
    for (int64_t worker = 0; worker < workers; ++worker)
      for (const ConvolutionPass& pass : passes_) arguments_.push_back(make_arguments(pass));
  }

  size_t workspace() const { return workspace_; }
  const std::string& implementation() const { return passes_[0].implementation; }

  void launch(const Buffers& buffers) {
    const bool gradient = geometry_.direction == Direction::kGradWeight;
    std::byte* weights = gradient ? buffers.outputs[0] : buffers.inputs[1];
    if (weights_reordered_ && !gradient) {
      reorder_weights(weights, buffers.workspace);
      weights = buffers.workspace;
    }
    Call call;
    call.activations[0] = buffers.inputs[0];
    call.activations[1] = gradient ? buffers.inputs[1] : buffers.outputs[0];
    call.weights = weights;
    call.bias = geometry_.bias ? buffers.epilogue_operands[0][0] : nullptr;
    call.workspace = buffers.workspace;
    // The weights are set before the chunks run, because oneDNN may write zeros into the padding of
    // a new handle.
    if (!gradient)
      for (PassArguments& arguments : arguments_) arguments.weights.set_data_handle(weights);
    parallel_for(threads_, chunks_,
                 [&](int64_t chunk, int worker) { run_chunk(call, chunk, worker); });
    if (!gradient) return;
    std::byte* sum = partial(call, 0);
    if (chunks_ > 1) sum_partials(call);
    if (weights_reordered_) reorder_weights(sum, buffers.outputs[0]);
  }

 private:
  struct Call {
    std::byte* activations[2];
    std::byte *weights, *bias, *workspace;
  };

  memory make_memory(const memory::desc& desc) const { return {desc, engine_, DNNL_MEMORY_NONE}; }

  /// Lays out the workspace as [the weights in oneDNN's layout, or their gradient for each
  /// chunk][for each worker: a scratchpad, and the activations that are reordered].
  void plan_workspace(bool gradient) {
    partial_bytes_ = aligned(passes_[0].weights.get_size());
    const size_t partials = gradient ? static_cast<size_t>(chunks_) : weights_reordered_ ? 1 : 0;
    workers_at_ = partials * partial_bytes_;
    for (const ConvolutionPass& pass : passes_) {
      scratchpad_bytes_ = std::max(scratchpad_bytes_, aligned(pass.scratchpad.get_size()));
      for (size_t i = 0; i < 2; ++i)
        if (pass.activations[i].reordered())
          activation_bytes_[i] =
              std::max(activation_bytes_[i], aligned(pass.activations[i].wanted.get_size()));
    }
    worker_bytes_ = scratchpad_bytes_ + activation_bytes_[0] + activation_bytes_[1];
    const size_t workers = static_cast<size_t>(std::min<int64_t>(threads_, chunks_));
    workspace_ = workers_at_ + workers * worker_bytes_;
  }

  PassArguments make_arguments(const ConvolutionPass& pass) const {
    PassArguments arguments;
    const auto add = [&](int argument, const memory& value) {
      arguments.list.push_back({argument, value.get()});
    };
    for (size_t i = 0; i < 2; ++i) {
      arguments.given[i] = make_memory(pass.activations[i].given);
      arguments.wanted[i] = make_memory(pass.activations[i].wanted);
      add(pass.activations[i].argument, arguments.wanted[i]);
    }
    arguments.weights = make_memory(pass.weights);
    add(pass.weights_argument, arguments.weights);
    arguments.scratchpad = make_memory(pass.scratchpad);
    add(DNNL_ARG_SCRATCHPAD, arguments.scratchpad);
    if (geometry_.bias) {
      arguments.bias = make_memory({{geometry_.weight[0]}, memory::data_type::f32, {1}});
      add(DNNL_ARG_BIAS, arguments.bias);
    }
    return arguments;
  }

  std::byte* partial(const Call& call, int64_t chunk) const {
    if (!weights_reordered_ && chunk == 0) return call.weights;
    return call.workspace + static_cast<size_t>(chunk) * partial_bytes_;
  }

  void run_chunk(const Call& call, int64_t chunk, int worker) {
    const size_t which = chunk + 1 == chunks_ ? passes_.size() - 1 : 0;
    const ConvolutionPass& pass = passes_[which];
    PassArguments& arguments = arguments_[static_cast<size_t>(worker) * passes_.size() + which];
    std::byte* scratchpad =
        call.workspace + workers_at_ + static_cast<size_t>(worker) * worker_bytes_;
    std::byte* spare = scratchpad + scratchpad_bytes_;
    for (size_t i = 0; i < 2; ++i) {
      const Activation& activation = pass.activations[i];
      const size_t image = passes_[0].activations[i].given.get_size() / static_cast<size_t>(chunk_);
      std::byte* given = call.activations[i] + static_cast<size_t>(chunk * chunk_) * image;
      std::byte* wanted = activation.reordered() ? spare : given;
      spare += activation_bytes_[i];
      arguments.given[i].set_data_handle(given);
      arguments.wanted[i].set_data_handle(wanted);
      if (activation.reordered() && !activation.output)
        execute(activation.reorder, arguments.given[i], arguments.wanted[i]);
    }
    const bool gradient = geometry_.direction == Direction::kGradWeight;
    if (gradient) arguments.weights.set_data_handle(partial(call, chunk));
    arguments.scratchpad.set_data_handle(scratchpad);
    if (geometry_.bias) arguments.bias.set_data_handle(call.bias);
    must_succeed([&] {
      return dnnl_primitive_execute(pass.primitive.get(), stream_.get(),
                                    static_cast<int>(arguments.list.size()), arguments.list.data());
    });
    for (size_t i = 0; i < 2; ++i)
      if (pass.activations[i].reordered() && pass.activations[i].output)
        execute(pass.activations[i].reorder, arguments.wanted[i], arguments.given[i]);
    if (relu_) rectify(arguments.given[1]);
  }

  static void rectify(const memory& activation) {
    const auto elements = activation.get_desc().get_size() / sizeof(float);
    auto* data = static_cast<float*>(activation.get_data_handle());
    Epilogue{.relu = true}.finish(data, nullptr, reinterpret_cast<std::byte*>(data),
                                  static_cast<int64_t>(elements));
  }

  void execute(const dnnl::reorder& reorder, const memory& from, const memory& to) const {
    const dnnl_exec_arg_t list[] = {{DNNL_ARG_FROM, from.get()}, {DNNL_ARG_TO, to.get()}};
    must_succeed([&] { return dnnl_primitive_execute(reorder.get(), stream_.get(), 2, list); });
  }

  /// Adds partial sums 1, 2, ... to partial sum 0, in order.
  void sum_partials(const Call& call) const {
    constexpr int64_t kBlock = 4096;
    const int64_t elements = static_cast<int64_t>(passes_[0].weights.get_size() / sizeof(float));
    parallel_for(threads_, ceil_div(elements, kBlock), [&](int64_t block, int) {
      const int64_t first = block * kBlock, count = std::min(kBlock, elements - first);
      float* sum = reinterpret_cast<float*>(partial(call, 0)) + first;
      for (int64_t chunk = 1; chunk < chunks_; ++chunk)
        add_to(reinterpret_cast<const float*>(partial(call, chunk)) + first, sum, count);
    });
  }

  void reorder_weights(std::byte* from, std::byte* to) {
    const bool gradient = geometry_.direction == Direction::kGradWeight;
    plain_weights_.set_data_handle(gradient ? to : from);
    native_weights_.set_data_handle(gradient ? from : to);
    if (gradient)
      execute(weights_reorder_, native_weights_, plain_weights_);
    else
      execute(weights_reorder_, plain_weights_, native_weights_);
  }

  dnnl::engine engine_;
  dnnl::stream stream_;
  ConvolutionGeometry geometry_;
  bool relu_;
  int threads_;
  int64_t chunk_, chunks_;
  std::vector<ConvolutionPass> passes_;  // for a whole chunk, and for a shorter last one
  bool weights_reordered_ = false;
  memory plain_weights_, native_weights_;
  dnnl::reorder weights_reorder_;
  size_t partial_bytes_ = 0, workers_at_ = 0, worker_bytes_ = 0, scratchpad_bytes_ = 0;
  size_t activation_bytes_[2] = {0, 0};
  size_t workspace_ = 0;
  std::vector<PassArguments> arguments_;  // indexed by worker, then by pass
};

/// Returns a kernel that writes zeros, the sum over no images or no channels.
Kernel empty_convolution(const Request& request) {
  const size_t bytes = static_cast<size_t>(request.outputs[0].shape.elements()) * sizeof(float);
  return {[bytes](const Buffers& b, const CallState&) {
    std::fill_n(b.outputs[0], bytes, std::byte{0});
  }};
}

Kernel make_convolution(const Request& request) {
  if (is_low_precision(request.inputs[0].dtype)) return low_precision_convolution(request);
  ConvolutionGeometry geometry = convolution_geometry(request);
  if (geometry.x.elements() == 0 || geometry.y.elements() == 0 || geometry.weight.elements() == 0)
    return empty_convolution(request);
  Kernel kernel;
  bool relu = false;
  for (const plan::EpilogueOp& fused : request.step.epilogue) {
    if (fused.op->epilogue == ops::Epilogue::kBias && kernel.fused == 0 &&
        fused.attributes.get<int64_t>("axis") == 1)
      geometry.bias = true;
    else if (fused.op->epilogue == ops::Epilogue::kRelu && !relu)
      relu = true;
    else
      break;
    ++kernel.fused;
  }
  try {
    Convolution convolution(request, geometry, relu);
    kernel.workspace = convolution.workspace();
    kernel.library = "oneDNN " + convolution.implementation();
    kernel.launch = [convolution = std::move(convolution)](
                        const Buffers& b, const CallState&) mutable { convolution.launch(b); };
  } catch (const dnnl::error& error) {
    throw RunError(fmt::format("oneDNN rejects the convolution: {}", error.what()));
  }
  return kernel;
}

}  // namespace

std::span<const KernelEntry> convolution() {
  static constexpr auto of = [](std::string_view op) {
    return KernelEntry{.op = op,
                       .prepare = make_convolution,
                       .layouts = Layouts::kEach,
                       .low_precision = true,
                       .generates_code = true,
                       .float64 = double_convolution};
  };
  static constexpr KernelEntry kKernels[] = {of("convolution"), of("convolution_grad_data"),
                                             of("convolution_grad_weight")};
  return kKernels;
}

}  // namespace flow::cpu::fast
