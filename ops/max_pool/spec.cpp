// Maxima over windows of images, of lengths, which are images of height 1, and of volumes.
#include <fmt/format.h>

#include "ops/core/axes.h"
#include "ops/core/families.h"
#include "ops/max_pool/pool.h"

namespace flow::ops {
namespace {

/// Offsets within a window are bytes where they fit.
DType offset_dtype(const Pool& pool) {
  const auto& size = pool.windows.size;
  return size[0] * size[1] <= 256 ? DType::kUInt8 : DType::kInt32;
}

void infer_max_pool2d(Call& call) {
  const auto of = read_pool2d(call);
  if (!of) return;
  const int batch_axis = batch_before(call.operand(0).batch_axis, 2);
  call.result(call.dtype(0), of->y, batch_axis);
  call.result(offset_dtype(of->pool), of->y, batch_axis);
}

void infer_max_pool2d_grad(Call& call) {
  const auto of = read_pool2d_grad(call);
  if (!of || !call.have_shape(0, 2, of->y)) return;
  const DType offsets = offset_dtype(of->pool);
  const int batch_axis = common_batch(call.operand(0).batch_axis, call.operand(1).batch_axis);
  if (call.dtype(1) != offsets)
    call.bad_operand(1, Reason::kDTypeMismatch,
                     fmt::format("offsets in such windows are {}, not {}", name_of(offsets),
                                 name_of(call.dtype(1))));
  else
    call.result(call.dtype(0), of->x, batch_before(batch_axis, 2));
}

int64_t places_of_window(std::span<const Shape>, const Attributes& attributes) {
  const auto& size = attributes.get<std::vector<int64_t>>("ksize");
  return size[0] * size[1];
}

/// Where windows overlap, gradients that meet in an element are added.
bool windows_are_disjoint(const Attributes& attributes) {
  const auto& size = attributes.get<std::vector<int64_t>>("ksize");
  const auto& strides = attributes.get<std::vector<int64_t>>("strides");
  return size[0] <= strides[0] && size[1] <= strides[1];
}

bool is_pool_of(const Attributes& gradient, const Attributes& pool, const Shape& x) {
  const auto same = [&](std::string_view name) { return *pool.find(name) == *gradient.find(name); };
  return same("ksize") && same("padding") && same("strides") &&
         x.extents() == gradient.get<std::vector<int64_t>>("input_shape");
}

}  // namespace

std::span<const OpSpec> max_pool() {
  static const OpSpec kOps[] = {
      {
          .name = "max_pool1d",
          .doc = "1D max pooling; on ties, the first element receives the gradient.",
          .formula = "y[n, c, i] = max x[n, c, i s + u - pad]",
          .operands = {{"in", "(N, C, L)"}},
          .attributes = pool_attributes(1),
      },
      {
          .name = "max_pool3d",
          .doc = "3D max pooling; on ties, the first element receives the gradient.",
          .formula = "y[n, c, i, j, k] = max x[n, c, i s + u - pad, j s + v - pad, k s + w - pad]",
          .operands = {{"in", "(N, C, D, H, W)"}},
          .attributes = pool_attributes(3),
          .numpy = "pooled(x, ksize, strides, padding, np.nanmax)",
          .examples = {"max_pool3d(f32[2,3,4,6,5]) ksize=2",
                       "max_pool3d(f32[1,2,5,4,5]) ksize=3 strides=[2,1,2] padding=same",
                       "max_pool3d(f32[1,2,4,4,5]) ksize=[1,2,3] strides=1 padding=[0,0,1,0,1,2]",
                       "max_pool3d(f32[1,2,5,3,3]) ksize=[2,1,1] strides=[3,1,1]"},
      },
      {
          .name = "global_max_pool",
          .doc = "Global max pooling: the maximum of each channel.",
          .formula = "y[n, c] = max x[n, c, ...]",
          .operands = {{"in", "(N, C, ...)"}},
          .attributes = {{"keepdims", AttributeType::kBool, "false",
                          "keep the reduced axes with size 1"}},
          .numpy = "np.max(x, tuple(range(2, x.ndim)), keepdims=keepdims)",
          .examples = {"global_max_pool(f32[2,3,4,5])",
                       "global_max_pool(f32[2,3,4]) keepdims=true"},
      },
      {
          .name = "max_pool2d",
          .doc = "2D max pooling; on ties, the first element receives the gradient.",
          .formula = "y[n, c, i, j] = max x[n, c, i s + u - pad, j s + v - pad]",
          .operands = {{.name = "in",
                        .doc = "(N, C, H, W)",
                        .low_precision = true,
                        .images = Images::kActivations}},
          .attributes = pool_attributes(),
          .plan_attributes = {{"ksize", Kind::kSizes},
                              {"padding", Kind::kPads},
                              {"strides", Kind::kSizes}},
          .results = {{.name = "out", .images = Images::kActivations},
                      {.name = "argmax", .optional = true, .images = Images::kActivations}},
          .normalise = normalise_pool,
          .infer = infer_max_pool2d,
          .rounds_operands = rounds_always,
          .flops = {.windows = true},
          .examples = {"max_pool2d(f32[2,3,6,6]) ksize=2",
                       "max_pool2d(f32[2,3,7,5]) ksize=2 strides=2 padding=same",
                       "max_pool2d(f32[1,2,7,8]) ksize=[3,2] strides=1",
                       "max_pool2d(f32[1,1,8,8]) ksize=3 strides=2 padding=[1,0,1,1]",
                       "max_pool2d(f32[1,1,40,40]) ksize=17 strides=8"},
      },
      {
          .name = "max_pool2d_grad",
          .doc = "Gradient of max_pool2d: adds each element of dy to the maximum of its window.",
          .formula = "dx[argmax[i]] += dy[i]",
          .operands = {{.name = "dy",
                        .doc = "(N, C, H', W')",
                        .low_precision = true,
                        .images = Images::kActivations},
                       {.name = "argmax",
                        .doc = "offsets within windows, from max_pool2d",
                        .accepts = Accepts::kInteger,
                        .images = Images::kActivations,
                        .limit = places_of_window}},
          .attributes = pool_gradient_attributes(),
          .plan_attributes = {{.name = "input_shape", .kind = Kind::kShape, .of_result = true},
                              {"ksize", Kind::kSizes},
                              {"padding", Kind::kPads},
                              {"strides", Kind::kSizes}},
          .results = {{.name = "out", .images = Images::kActivations}},
          .normalise = normalise_pool_grad,
          .infer = infer_max_pool2d_grad,
          .linear = {0},
          .rounds_operands = windows_are_disjoint,
          .origin = Origin{.operand = 1,
                           .op = "max_pool2d",
                           .matches = is_pool_of,
                           .expected = "the matching max_pool2d"},
          .flops = {1, Flops::Each::kFirst},
          .internal = true,
      },
  };
  return kOps;
}

}  // namespace flow::ops
