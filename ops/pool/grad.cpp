// Gradients of max_pool2d and avg_pool2d, and the expansion of pools over sequences, volumes and
// whole images.
#include <algorithm>
#include <numeric>

#include "compiler/grad/shared_parts.h"
#include "ops/core/index_text.h"
#include "ops/pool/pool.h"
#include "runtime/base/host_device.h"

namespace flow::grad {
namespace {

constexpr char kMaxPool[] = "max_pool2d", kAvgPool[] = "avg_pool2d";
constexpr char kMaximum[] = "reduce_max", kMean[] = "reduce_mean";

/// Returns the windows of a layer over (N, C, ...), or nothing after an error. `axes` names the
/// axes for error messages.
std::optional<ops::Windows> read_pool_layer(const LayerContext& context, int rank,
                                            std::string_view axes) {
  ops::Call call = context.call();
  std::optional<ops::Windows> windows;
  if (ops::has_rank(call, 0, rank, axes)) windows = ops::read_pool(call, call.shape(0));
  context.report(call);
  return windows;
}

ir::ValueId add_pool(const LayerContext& context, std::string_view op, std::string_view part,
                     ir::ValueId images, const ops::Windows& windows) {
  ir::Attributes attributes;
  ops::set_pool(attributes, windows);
  return context.add(op, part, {images}, std::move(attributes));
}

/// Treats sequences as images of height 1.
template <const char* kPool>
ir::ValueId expand_pool1d(LayerContext& context) {
  const auto windows = read_pool_layer(context, 3, "(N, C, L)");
  if (!windows) return {};
  const ir::ValueId x = with_height(context, "expand", context.operands[0]);
  const ir::ValueId y = add_pool(context, kPool, "pool", x, ops::with_height(*windows));
  return without_height(context, "restore", y);
}

/// Returns images pooled along two axes, or the images unchanged if every window is one element.
ir::ValueId pooled(const LayerContext& context, std::string_view op, std::string_view part,
                   ir::ValueId images, const ops::Windows& windows) {
  const auto keeps = [](const ops::AxisWindows& along) {
    return along.size == 1 && along.stride == 1;
  };
  return std::ranges::all_of(windows, keeps) ? images
                                             : add_pool(context, op, part, images, windows);
}

/// Pools volumes over height and width, then over depth, which gives the same result as one pool
/// over all three.
template <const char* kPool>
ir::ValueId expand_pool3d(LayerContext& context) {
  const auto windows = read_pool_layer(context, 5, "(N, C, D, H, W)");
  if (!windows) return {};
  const ops::AxisWindows &deep = (*windows)[0], &high = (*windows)[1], &wide = (*windows)[2];
  const Shape x = context.operand(0).shape;
  const ir::ValueId planes =
      context.reshape("planes", context.operands[0], {x[0], x[1] * x[2], x[3], x[4]});
  const ir::ValueId images = pooled(context, kPool, "pool", planes, {high, wide});
  const ir::ValueId columns =
      context.reshape("columns", images, {x[0], x[1], x[2], high.count * wide.count});
  const ir::ValueId y = pooled(context, kPool, "pool_depth", columns, {deep, {}});
  return context.reshape("", y, {x[0], x[1], deep.count, high.count, wide.count});
}

/// Reduces (N, C, ...) to (N, C), or to axes of size 1.
template <const char* kReduction>
ir::ValueId expand_global_pool(LayerContext& context) {
  const Shape& x = context.operand(0).shape;
  if (!has_channels(context, 3)) return {};
  std::vector<int64_t> axes(static_cast<size_t>(x.rank() - 2));
  std::iota(axes.begin(), axes.end(), 2);
  return context.add(
      kReduction, "", {context.operands[0]},
      {{"axis", std::move(axes)}, {"keepdims", *context.attributes.find("keepdims")}});
}

/// Adds the op `op`, the gradient of a pool, with these operands.
std::vector<ir::ValueId> pool_gradient(GradientContext& context, std::string_view op,
                                       std::vector<ir::ValueId> operands) {
  ir::Attributes attributes = context.attributes({"ksize", "strides", "padding"});
  attributes.set("input_shape", context.value_of(context.operand(0)).shape.extents());
  return {context.add(op, 0, std::move(operands), std::move(attributes))};
}

std::vector<ir::ValueId> max_pool2d_gradient(GradientContext& context) {
  return pool_gradient(context, "max_pool2d_grad", {context.gradient(), context.result(1)});
}

std::vector<ir::ValueId> avg_pool2d_gradient(GradientContext& context) {
  return pool_gradient(context, "avg_pool2d_grad", {context.gradient()});
}

/// Returns the attribute `output_size` for each axis after the channels, or nothing after an error.
std::optional<std::vector<int64_t>> adaptive_sizes(const LayerContext& context) {
  const Shape& x = context.operand(0).shape;
  if (!has_channels(context, 3)) return {};
  auto sizes = context.attributes.get<std::vector<int64_t>>("output_size");
  const auto wanted = static_cast<size_t>(x.rank() - 2);
  if (sizes.size() == 1) sizes.resize(wanted, sizes[0]);
  if (sizes.size() == wanted) return sizes;
  context.site().bad_attribute("output_size", Diagnosis::kBadAttribute,
                               fmt::format("`output_size` has {} numbers for {}; expected one, or "
                                           "one for each axis after the channels",
                                           sizes.size(), x.str()));
  return {};
}

/// Returns the mean of elements [begin, end) of an axis.
ir::ValueId mean_of_part(const LayerContext& context, const std::string& part, ir::ValueId x,
                         int axis, int64_t begin, int64_t end) {
  const int rank = context.graph()[x].shape.rank();
  const ir::ValueId taken = context.add("slice", part + "/slice", {x},
                                        {{"index", ops::index_of_range(rank, axis, begin, end)}});
  return context.add("reduce_mean", part, {taken},
                     {{"axis", std::vector<int64_t>{axis}}, {"keepdims", true}});
}

/// Returns x averaged to `size` elements along an axis. Parts of equal size take one op; other
/// parts are averaged one by one.
ir::ValueId averaged_along(const LayerContext& context, ir::ValueId x, int axis, int64_t size) {
  const std::string name = fmt::format("mean{}", axis);
  const Shape shape = context.graph()[x].shape;
  const int64_t extent = shape[axis];
  if (extent == size) return x;
  if (extent % size == 0) {
    std::vector<int64_t> parts = shape.extents();
    parts[static_cast<size_t>(axis)] = size;
    parts.insert(parts.begin() + axis + 1, extent / size);
    const ir::ValueId split = context.reshape(name + "/split", x, std::move(parts));
    return context.add("reduce_mean", name, {split},
                       {{"axis", std::vector<int64_t>{axis + 1}}, {"keepdims", false}});
  }
  constexpr int64_t kMostParts = 256;
  if (size > kMostParts) {
    context.site().bad_attribute(
        "output_size", Diagnosis::kBadAttribute,
        fmt::format("{} does not divide into {} equal windows; at most {} unequal ones are "
                    "supported",
                    extent, size, kMostParts));
    return {};
  }
  std::vector<ir::ValueId> means;
  for (int64_t i = 0; i < size; ++i)
    means.push_back(mean_of_part(context, fmt::format("{}/{}", name, i), x, axis, i * extent / size,
                                 ceil_div((i + 1) * extent, size)));
  if (means.size() == 1) return means[0];
  return context.add("concat", name, std::move(means), {{"axis", int64_t{axis}}});
}

ir::ValueId expand_adaptive_avg_pool(LayerContext& context) {
  const auto sizes = adaptive_sizes(context);
  if (!sizes) return {};
  ir::ValueId y = context.operands[0];
  for (size_t i = 0; i < sizes->size() && y.valid(); ++i)
    y = averaged_along(context, y, static_cast<int>(i) + 2, (*sizes)[i]);
  if (!y.valid()) return {};
  return context.reshape("", y, context.graph()[y].shape.extents());
}

}  // namespace

std::vector<Rules> pool() {
  return {{"max_pool1d", nullptr, expand_pool1d<kMaxPool>},
          {"max_pool2d", max_pool2d_gradient},
          {"max_pool3d", nullptr, expand_pool3d<kMaxPool>},
          {"global_max_pool", nullptr, expand_global_pool<kMaximum>},
          {"avg_pool1d", nullptr, expand_pool1d<kAvgPool>},
          {"avg_pool2d", avg_pool2d_gradient},
          {"avg_pool3d", nullptr, expand_pool3d<kAvgPool>},
          {"adaptive_avg_pool", nullptr, expand_adaptive_avg_pool},
          {"global_avg_pool", nullptr, expand_global_pool<kMean>}};
}

}  // namespace flow::grad
