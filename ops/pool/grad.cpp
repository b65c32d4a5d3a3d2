// Gradients of max_pool2d and avg_pool2d; and pools over lengths, volumes and whole images.
#include <fmt/format.h>

#include "compiler/grad/layers.h"
#include "compiler/grad/pool.h"
#include "runtime/base/host_device.h"

namespace flow::grad {
namespace {

std::vector<ir::ValueId> max_pool2d_gradient(GradientContext& context) {
  return pool_gradient(context, "max_pool2d_grad", {context.gradient(), context.result(1)});
}

ir::ValueId expand_max_pool1d(LayerContext& context) {
  return expand_pool1d(context, "max_pool2d");
}

ir::ValueId expand_max_pool3d(LayerContext& context) {
  return expand_pool3d(context, "max_pool2d");
}

ir::ValueId expand_global_max_pool(LayerContext& context) {
  return expand_global_pool(context, "reduce_max");
}

std::vector<ir::ValueId> avg_pool2d_gradient(GradientContext& context) {
  return pool_gradient(context, "avg_pool2d_grad", {context.gradient()});
}

ir::ValueId expand_avg_pool1d(LayerContext& context) {
  return expand_pool1d(context, "avg_pool2d");
}

ir::ValueId expand_avg_pool3d(LayerContext& context) {
  return expand_pool3d(context, "avg_pool2d");
}

ir::ValueId expand_global_avg_pool(LayerContext& context) {
  return expand_global_pool(context, "reduce_mean");
}

/// The attribute `output_size` for each axis after the channels; nothing after an error.
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

/// The mean of the elements [begin, end) of an axis.
ir::ValueId mean_of_part(const LayerContext& context, const std::string& part, ir::ValueId x,
                         int axis, int64_t begin, int64_t end) {
  std::string index = "[";
  for (int i = 0; i < axis; ++i) index += ":, ";
  index += fmt::format("{}:{}]", begin, end);
  const ir::ValueId taken = context.add("slice", part + "/slice", {x}, {{"index", index}});
  return context.add("reduce_mean", part, {taken},
                     {{"axis", std::vector<int64_t>{axis}}, {"keepdims", true}});
}

/// x averaged to `size` elements along an axis: equal parts at once, others one by one.
ir::ValueId averaged_along(const LayerContext& context, ir::ValueId x, int axis, int64_t size) {
  const std::string name = fmt::format("mean{}", axis);
  const Shape shape = context.graph()[x].shape;
  const int64_t extent = shape[axis];
  if (extent == size) return x;
  if (extent % size == 0) {
    std::vector<int64_t> parts = shape.extents();
    parts[static_cast<size_t>(axis)] = size;
    parts.insert(parts.begin() + axis + 1, extent / size);
    const ir::ValueId split =
        context.add("reshape", name + "/split", {x}, {{"shape", std::move(parts)}});
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
  return context.add("reshape", "", {y}, {{"shape", context.graph()[y].shape.extents()}});
}

}  // namespace

std::span<const Rules> pool() {
  static constexpr Rules kRules[] = {
      {"max_pool1d", nullptr, expand_max_pool1d},
      {"max_pool2d", max_pool2d_gradient},
      {"max_pool3d", nullptr, expand_max_pool3d},
      {"global_max_pool", nullptr, expand_global_max_pool},
      {"avg_pool1d", nullptr, expand_avg_pool1d},
      {"avg_pool2d", avg_pool2d_gradient},
      {"avg_pool3d", nullptr, expand_avg_pool3d},
      {"adaptive_avg_pool", nullptr, expand_adaptive_avg_pool},
      {"global_avg_pool", nullptr, expand_global_avg_pool},
  };
  return kRules;
}

}  // namespace flow::grad
