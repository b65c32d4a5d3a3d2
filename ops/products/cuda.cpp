// The kernel of matmul, which calls the library.
#include <algorithm>
#include <string_view>
#include <utility>

#include "ops/products/cuda.h"
#include "runtime/base/error.h"
#include "runtime/cuda/libraries/validate_epilogues.h"
#include "runtime/cuda/loops/epilogue.h"
#include "runtime/cuda/loops/families.h"

namespace flow::cuda {
namespace {

constexpr std::string_view kAside = "aside";

/// Returns the alignment in bytes that all the starts share, at most the 256 of a buffer.
uint32_t alignment_of(const std::vector<ProductStart>& starts, const MatmulSpec& spec) {
  uint64_t bits = 256;
  for (const ProductStart& start : starts)
    bits |= static_cast<uint64_t>(start.a | start.b) * size_of(spec.dtype) |
            static_cast<uint64_t>(start.out) * size_of(sum_of(spec.dtype));
  return static_cast<uint32_t>(bits & -bits);  // the lowest bit that is set
}

Expected<FusedKernel> find_products(const Products& products, const Epilogue& epilogue,
                                    Libraries& libraries, Driver& driver) {
  MatmulSpec spec = products.spec;
  spec.epilogue = epilogue;
  FLOW_CHECK(spec.aside == Aside::kNothing || products.starts.size() == 1);
  if (spec.aside == Aside::kStoreMask && !epilogue.relu)
    return RunError("only a ReLU has a mask to store");
  const Expected<LibraryKernel> library = libraries.find(spec);
  if (!library) return library.error();
  FusedKernel kernel;
  kernel.workspace = library->workspace;
  kernel.name = library->name;
  kernel.key = libraries.describe(spec);
  if (spec.aside == Aside::kNothing)  // a fusion has already validated products with an aside
    kernel.keeps_nan = [=, &driver] { return passes_validation(*library, spec, driver); };
  kernel.launch = [library = *library, starts = products.starts,
                   operand = static_cast<int64_t>(size_of(spec.dtype)),
                   result = static_cast<int64_t>(size_of(sum_of(spec.dtype)))](
                      const Buffers& buffers, const std::byte* bias, const LaunchState& state) {
    std::byte* const aside = buffers.inputs.size() > 2    ? buffers.inputs[2]
                             : buffers.outputs.size() > 1 ? buffers.outputs[1]
                                                          : nullptr;
    for (const ProductStart& start : starts)
      library.run({buffers.inputs[0] + start.a * operand, buffers.inputs[1] + start.b * operand,
                   bias, buffers.outputs[0] + start.out * result, buffers.workspace, aside},
                  state.stream);
  };
  return kernel;
}

Kernel prepare_matmul(const Request& request) {
  const Shape& out = request.outputs[0].shape;
  const Products products =
      products_of(request.step, request.inputs[0].dtype, request.inputs[0].shape,
                  request.inputs[1].shape, out, request.math_mode);
  return with_epilogue(request, out.rank() - 1, [&](const Epilogue& epilogue) {
    return find_products(products, epilogue, request.libraries, request.driver);
  });
}

}  // namespace

Products products_of(const plan::Step& step, DType operands, const Shape& a, const Shape& b,
                     const Shape& out, MathMode math_mode) {
  MatmulSpec spec{operands, a, b, out};
  spec.transpose_a = step.attributes.get<bool>("transpose_a");
  spec.transpose_b = step.attributes.get<bool>("transpose_b");
  spec.math_mode = math_mode;
  spec.aside = aside_of(step);
  const int rank = out.rank();
  if (b.rank() == 2 && a.rank() == rank && !spec.transpose_a) {  // one tall product
    spec.a = {a.elements(0, rank - 1), a[rank - 1]};
    spec.out = {out.elements(0, rank - 1), out[rank - 1]};
    return {spec, {{0, 0, 0}}};
  }
  const Shape left = padded(a, rank), right = padded(b, rank);
  int outer = rank - 2;  // the axes starting with this one are batched
  while (outer > 0 && left[outer - 1] == out[outer - 1] && right[outer - 1] == out[outer - 1])
    --outer;
  spec.a = left.from(outer), spec.b = right.from(outer), spec.out = out.from(outer);
  std::vector<ProductStart> starts = starts_of(left, right, out, outer);
  spec.alignment = alignment_of(starts, spec);
  return {spec, std::move(starts)};
}

Aside aside_of(const plan::Step& step) {
  const bool any = step.attributes.has(kAside);
  return any ? static_cast<Aside>(step.attributes.get<int64_t>(kAside)) : Aside::kNothing;
}

void set_aside(plan::Step& step, Aside aside) {
  step.attributes.set(kAside, static_cast<int64_t>(aside));
}

std::span<const KernelEntry> kernels::products() {
  static constexpr KernelEntry kKernels[] = {
      {"matmul", prepare_matmul, Order::kOwn, TakesEpilogue::kBiasRelu},
  };
  return kKernels;
}

}  // namespace flow::cuda
