// matmul: out[..., M, N] = op(a)[..., M, K] op(b)[..., K, N] by cuBLASLt; leading axes broadcast.
// Axes that no operand repeats are one batched product; those before them a product each.
#include <algorithm>
#include <utility>
#include <vector>

#include "runtime/cuda/posts.h"

namespace flow::cuda {
namespace {

/// Where one (batched) product starts, in elements.
struct Offsets {
  int64_t a, b, out;
};

/// A matmul as equal products.
struct Products {
  MatmulSpec spec;
  std::vector<Offsets> starts;
};

/// The shape with ones before it, up to `rank` axes.
Shape padded(const Shape& shape, int rank) {
  std::vector<int64_t> extents(static_cast<size_t>(rank - shape.rank()), 1);
  extents.insert(extents.end(), shape.begin(), shape.end());
  return Shape(std::move(extents));
}

Shape tail(const Shape& shape, int first) {
  return Shape(std::vector<int64_t>(shape.begin() + first, shape.end()));
}

/// Elements between neighbours along a leading axis; 0 where the operand is repeated.
int64_t stride_of(const Shape& shape, int axis) {
  return shape[axis] == 1 ? 0 : shape.elements(axis + 1, shape.rank());
}

/// One start for each index of out's axes before `outer`.
std::vector<Offsets> starts_of(const Shape& a, const Shape& b, const Shape& out, int outer) {
  std::vector<Offsets> starts = {{0, 0, 0}};
  for (int axis = 0; axis < outer; ++axis) {
    std::vector<Offsets> more;
    for (const Offsets& start : starts)
      for (int64_t i = 0; i < out[axis]; ++i)
        more.push_back({start.a + i * stride_of(a, axis), start.b + i * stride_of(b, axis),
                        start.out + i * stride_of(out, axis)});
    starts = std::move(more);
  }
  return starts;
}

/// What all the starts are multiples of, in bytes; at most a buffer's own 256.
uint32_t alignment_of(const std::vector<Offsets>& starts, const MatmulSpec& spec) {
  uint64_t bits = 256;
  for (const Offsets& start : starts)
    bits |= static_cast<uint64_t>(start.a | start.b) * size_of(spec.dtype) |
            static_cast<uint64_t>(start.out) * size_of(sum_of(spec.dtype));
  return static_cast<uint32_t>(bits & -bits);  // the lowest one
}

Products products_of(const Request& request) {
  MatmulSpec spec{request.inputs[0].dtype, request.inputs[0].shape, request.inputs[1].shape,
                  request.outputs[0].shape};
  spec.transpose_a = request.step.attributes.get<bool>("transpose_a");
  spec.transpose_b = request.step.attributes.get<bool>("transpose_b");
  spec.leeway = request.leeway;
  const int rank = spec.out.rank();
  if (spec.b.rank() == 2 && spec.a.rank() == rank && !spec.transpose_a) {  // one tall product
    spec.a = {spec.a.elements(0, rank - 1), spec.a[rank - 1]};
    spec.out = {spec.out.elements(0, rank - 1), spec.out[rank - 1]};
    return {spec, {{0, 0, 0}}};
  }
  const Shape a = padded(spec.a, rank), b = padded(spec.b, rank), out = spec.out;
  int outer = rank - 2;  // the axes from here on are batched
  while (outer > 0 && a[outer - 1] == out[outer - 1] && b[outer - 1] == out[outer - 1]) --outer;
  spec.a = tail(a, outer), spec.b = tail(b, outer), spec.out = tail(out, outer);
  std::vector<Offsets> starts = starts_of(a, b, out, outer);
  spec.alignment = alignment_of(starts, spec);
  return {spec, std::move(starts)};
}

FusedKernel prepare_products(const Products& products, const Epilogue& epilogue,
                             Libraries& libraries) {
  MatmulSpec spec = products.spec;
  spec.epilogue = epilogue;
  LibraryKernel library = libraries.prepare(spec);
  FusedKernel kernel;
  kernel.workspace = library.workspace;
  kernel.launch = [run = std::move(library.run), starts = products.starts,
                   operand = static_cast<int64_t>(size_of(spec.dtype)),
                   result = static_cast<int64_t>(size_of(sum_of(spec.dtype)))](
                      const Buffers& buffers, const std::byte* bias, const LaunchState& state) {
    for (const Offsets& start : starts)
      run({buffers.inputs[0] + start.a * operand, buffers.inputs[1] + start.b * operand, bias,
           buffers.outputs[0] + start.out * result, buffers.workspace},
          state.stream);
  };
  return kernel;
}

}  // namespace

Kernel matmul(const Request& request) {
  const Products products = products_of(request);
  return with_posts(request, request.outputs[0].shape.rank() - 1, [&](const Epilogue& epilogue) {
    return prepare_products(products, epilogue, request.libraries);
  });
}

}  // namespace flow::cuda
