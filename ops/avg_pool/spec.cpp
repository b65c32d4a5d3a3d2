// Means over windows of images, lengths and volumes, and over whole images.
#include "ops/core/axes.h"
#include "ops/core/families.h"
#include "ops/max_pool/pool.h"

namespace flow::ops {
namespace {

void infer_avg_pool2d(Call& call) {
  if (const auto of = read_pool2d(call))
    call.result(call.dtype(0), of->y, batch_before(call.operand(0).batch_axis, 2));
}

void infer_avg_pool2d_grad(Call& call) {
  const auto of = read_pool2d_grad(call);
  if (of && call.have_shape(0, 1, of->y))
    call.result(call.dtype(0), of->x, batch_before(call.operand(0).batch_axis, 2));
}

}  // namespace

std::span<const OpSpec> avg_pool() {
  static const OpSpec kOps[] = {
      {
          .name = "avg_pool1d",
          .doc = "1D average pooling; the mean excludes the padding.",
          .formula = "y[n, c, i] = mean x[n, c, i s + u - pad]",
          .operands = {{"in", "(N, C, L)"}},
          .attributes = pool_attributes(1),
      },
      {
          .name = "avg_pool3d",
          .doc = "3D average pooling; the mean excludes the padding.",
          .formula = "y[n, c, i, j, k] = mean x[n, c, i s + u - pad, j s + v - pad, k s + w - pad]",
          .operands = {{"in", "(N, C, D, H, W)"}},
          .attributes = pool_attributes(3),
          .numpy = "pooled(x, ksize, strides, padding, np.nanmean)",
          .examples = {"avg_pool3d(f32[2,3,4,6,5]) ksize=2",
                       "avg_pool3d(f32[1,2,5,4,5]) ksize=3 strides=[2,1,2] padding=same",
                       "avg_pool3d(f32[1,2,4,4,5]) ksize=[1,2,3] strides=1 padding=[0,0,1,0,1,2]"},
      },
      {
          .name = "adaptive_avg_pool",
          .doc = "Averages over as many windows as the result has elements, nearly equal in size; "
                 "neighbours may share elements.",
          .formula = "y[n, c, i, ...] = mean x[n, c, floor(i H / h) : ceil((i + 1) H / h), ...]",
          .operands = {{"in", "(N, C, ...)"}},
          .attributes = {sizes_attribute("output_size", "",
                                         "sizes of the result after the channels, or one number "
                                         "for all")},
          .numpy = "averaged(x, output_size)",
          .examples = {"adaptive_avg_pool(f32[2,3,6,4]) output_size=[3,2]",
                       "adaptive_avg_pool(f32[2,3,7,5]) output_size=[3,2]",
                       "adaptive_avg_pool(f32[1,2,10]) output_size=4",
                       "adaptive_avg_pool(f32[1,2,3,4]) output_size=6"},
      },
      {
          .name = "avg_pool2d",
          .doc = "2D average pooling; the mean excludes the padding.",
          .formula = "y[n, c, i, j] = mean x[n, c, i s + u - pad, j s + v - pad]",
          .operands = {{.name = "in", .doc = "(N, C, H, W)", .images = Images::kActivations}},
          .attributes = pool_attributes(),
          .plan_attributes = {{"ksize", Kind::kSizes},
                              {"padding", Kind::kPads},
                              {"strides", Kind::kSizes}},
          .results = {{.name = "out", .images = Images::kActivations}},
          .normalise = normalise_pool,
          .infer = infer_avg_pool2d,
          .linear = {0},
          .flops = {.windows = true},
          .examples = {"avg_pool2d(f32[2,3,6,6]) ksize=2",
                       "avg_pool2d(f32[2,3,7,5]) ksize=2 strides=2 padding=same",
                       "avg_pool2d(f32[1,2,7,8]) ksize=[3,2] strides=1",
                       "avg_pool2d(f32[1,1,8,8]) ksize=3 strides=2 padding=[1,0,1,1]"},
      },
      {
          .name = "global_avg_pool",
          .doc = "Global average pooling: the mean of each channel.",
          .formula = "y[n, c] = mean x[n, c, ...]",
          .operands = {{"in", "(N, C, ...)"}},
          .attributes = {{"keepdims", AttributeType::kBool, "false",
                          "keep the reduced axes with size 1"}},
      },
      {
          .name = "avg_pool2d_grad",
          .doc = "Gradient of avg_pool2d: spreads each element of dy over its window.",
          .formula = "dx[i] = sum dy[j] / count[j] over the windows j that contain i",
          .operands = {{.name = "dy", .doc = "(N, C, H', W')", .images = Images::kActivations}},
          .attributes = pool_gradient_attributes(),
          .plan_attributes = {{.name = "input_shape", .kind = Kind::kShape, .of_result = true},
                              {"ksize", Kind::kSizes},
                              {"padding", Kind::kPads},
                              {"strides", Kind::kSizes}},
          .results = {{.name = "out", .images = Images::kActivations}},
          .normalise = normalise_pool_grad,
          .infer = infer_avg_pool2d_grad,
          .linear = {0},
          .flops = {.each = Flops::Each::kFirst, .windows = true},
          .internal = true,
          .examples = {"avg_pool2d_grad(f32[2,3,3,3]) ksize=2 input_shape=[2,3,6,6]"},
      },
  };
  return kOps;
}

}  // namespace flow::ops
