// convolution, convolution_grad_data, convolution_grad_weight: [N, C, H, W] with [O, C/g, kh, kw]
// to [N, O, H', W'] by cuDNN, or all of them with the channels last.
#include <utility>

#include "runtime/cuda/loops/epilogue.h"
#include "runtime/cuda/loops/families.h"

namespace flow::cuda {
namespace {

using Pass = ConvolutionSpec::Pass;

/// As ConvolutionSpec has it, whatever the layout.
Shape channels_first(const Shape& shape, bool channels_last) {
  return channels_last ? Shape{shape[0], shape[3], shape[1], shape[2]} : shape;
}

ConvolutionSpec spec_of(const Request& request, Pass pass, const Shape& x, const Shape& w,
                        const Shape& y) {
  const bool last = has_channels_last(request.step);
  const auto list = [&](std::string_view name) {
    return request.step.attributes.get<std::vector<int64_t>>(name);
  };
  const std::vector<int64_t> pads = list("padding");  // top, bottom, left, right
  ConvolutionSpec spec{pass,
                       request.inputs[0].dtype,
                       channels_first(x, last),
                       channels_first(w, last),
                       channels_first(y, last),
                       {},
                       {},
                       {}};
  spec.strides = list("strides");
  spec.dilation = list("dilation");
  spec.pads = {pads[0], pads[2], pads[1], pads[3]};
  spec.groups = request.step.attributes.get<int64_t>("groups");
  spec.math_mode = request.math_mode;
  spec.most_workspace = request.most_workspace;
  spec.channels_last = last;
  return spec;
}

Expected<FusedKernel> find_pass(ConvolutionSpec spec, const Epilogue& epilogue,
                                Libraries& libraries) {
  spec.epilogue = epilogue;
  const Expected<LibraryKernel> library = libraries.find(spec);
  if (!library) return library.error();
  FusedKernel kernel;
  kernel.workspace = library->workspace;
  kernel.name = library->name + (spec.channels_last ? ", NHWC" : ", NCHW");
  kernel.key = libraries.describe(spec);
  kernel.launch = [library = *library](const Buffers& b, const std::byte* bias,
                                       const LaunchState& state) {
    library.run({b.inputs[0], b.inputs[1], bias, b.outputs[0], b.workspace}, state.stream);
  };
  return kernel;
}

Kernel prepare(const Request& request, const ConvolutionSpec& spec) {
  constexpr int kChannels = 1;
  return with_epilogue(request, kChannels, [&](const Epilogue& epilogue) {
    return find_pass(spec, epilogue, request.libraries);
  });
}

Kernel prepare_convolution(const Request& request) {
  return prepare(request, spec_of(request, Pass::kForward, request.inputs[0].shape,
                                  request.inputs[1].shape, request.outputs[0].shape));
}

Kernel prepare_convolution_grad_data(const Request& request) {
  return prepare(request, spec_of(request, Pass::kGradData, request.outputs[0].shape,
                                  request.inputs[1].shape, request.inputs[0].shape));
}

Kernel prepare_convolution_grad_weight(const Request& request) {
  return prepare(request, spec_of(request, Pass::kGradWeight, request.inputs[0].shape,
                                  request.outputs[0].shape, request.inputs[1].shape));
}

}  // namespace

std::span<const KernelEntry> kernels::convolution() {
  static constexpr KernelEntry kKernels[] = {
      {.op = "convolution",
       .prepare = prepare_convolution,
       .order = Order::kOwn,
       .epilogue = TakesEpilogue::kBiasRelu,
       .channels_last = ChannelsLast::kFlag},
      {.op = "convolution_grad_data",
       .prepare = prepare_convolution_grad_data,
       .order = Order::kOwn,
       .channels_last = ChannelsLast::kFlag},
      {.op = "convolution_grad_weight",
       .prepare = prepare_convolution_grad_weight,
       .order = Order::kOwn,
       .channels_last = ChannelsLast::kFlag},
  };
  return kKernels;
}

}  // namespace flow::cuda
