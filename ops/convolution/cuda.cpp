// convolution, convolution_grad_data, convolution_grad_weight: (N, C, H, W) with (O, C/g, kh, kw)
// to (N, O, H', W') by cuDNN, or all of these tensors with channels last.
#include <utility>

#include "runtime/cuda/loops/epilogue.h"
#include "runtime/cuda/loops/families.h"

namespace flow::cuda {
namespace {

using Pass = ConvolutionSpec::Pass;

/// Returns the shape in the order of ConvolutionSpec, which is channels-first for any layout.
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

/// Prepares a pass. The step reads two of x, w and y, and computes the third.
template <Pass pass>
Kernel prepare(const Request& request) {
  const Shape &first = request.inputs[0].shape, &second = request.inputs[1].shape,
              &made = request.outputs[0].shape;
  const ConvolutionSpec spec = spec_of(request, pass, pass == Pass::kGradData ? made : first,
                                       pass == Pass::kGradWeight ? made : second,
                                       pass == Pass::kForward    ? made
                                       : pass == Pass::kGradData ? first
                                                                 : second);
  constexpr int kChannels = 1;
  return with_epilogue(request, kChannels, [&](const Epilogue& epilogue) {
    return find_pass(spec, epilogue, request.libraries);
  });
}

}  // namespace

std::span<const KernelEntry> kernels::convolution() {
  static constexpr auto of = [](std::string_view op, Prepare prepare_pass,
                                TakesEpilogue epilogue = TakesEpilogue::kNone) {
    return KernelEntry{.op = op,
                       .prepare = prepare_pass,
                       .order = Order::kOwn,
                       .epilogue = epilogue,
                       .channels_last = ChannelsLast::kFlag};
  };
  static constexpr KernelEntry kKernels[] = {
      of("convolution", prepare<Pass::kForward>, TakesEpilogue::kBiasRelu),
      of("convolution_grad_data", prepare<Pass::kGradData>),
      of("convolution_grad_weight", prepare<Pass::kGradWeight>),
  };
  return kKernels;
}

}  // namespace flow::cuda
