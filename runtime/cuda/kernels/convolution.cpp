// convolution, convolution_grad_data, convolution_grad_weight: [N, C, H, W] with [O, C/g, kh, kw]
// to [N, O, H', W'] by cuDNN.
#include <utility>

#include "runtime/cuda/kernels/epilogue.h"
#include "runtime/cuda/kernels/families.h"

namespace flow::cuda {
namespace {

using Pass = ConvolutionSpec::Pass;

ConvolutionSpec spec_of(const Request& request, Pass pass, const Shape& x, const Shape& w,
                        const Shape& y) {
  const auto list = [&](std::string_view name) {
    return request.step.attributes.get<std::vector<int64_t>>(name);
  };
  const std::vector<int64_t> pads = list("padding");  // top, bottom, left, right
  ConvolutionSpec spec{pass, request.inputs[0].dtype, x, w, y, {}, {}, {}};
  spec.strides = list("strides");
  spec.dilation = list("dilation");
  spec.pads = {pads[0], pads[2], pads[1], pads[3]};
  spec.groups = request.step.attributes.get<int64_t>("groups");
  spec.math_mode = request.math_mode;
  spec.most_workspace = request.most_workspace;
  return spec;
}

Expected<FusedKernel> find_pass(ConvolutionSpec spec, const Epilogue& epilogue,
                                Libraries& libraries) {
  spec.epilogue = epilogue;
  const Expected<LibraryKernel> library = libraries.find(spec);
  if (!library) return library.error();
  FusedKernel kernel;
  kernel.workspace = library->workspace;
  kernel.name = library->name;
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
      {"convolution", prepare_convolution, Order::kOwn, TakesEpilogue::kBiasRelu},
      {"convolution_grad_data", prepare_convolution_grad_data, Order::kOwn},
      {"convolution_grad_weight", prepare_convolution_grad_weight, Order::kOwn},
  };
  return kKernels;
}

}  // namespace flow::cuda
