// The windows of pools, over images and over lengths.
#include "ops/max_pool/pool.h"

#include <fmt/format.h>

#include <limits>

#include "ops/core/axes.h"

namespace flow::ops {
namespace {

WindowNames pool_names(int dimensions) { return {"ksize", "window", dimensions}; }

/// Every window must hold an element of the input: a maximum of padding alone is none.
bool pad_is_smaller(Call& call, int64_t pad, int64_t size) {
  if (pad < size) return true;
  call.bad_attribute(
      "padding", Reason::kBadAttribute,
      fmt::format("the padding is {} for a window of {}; expected less than the window", pad,
                  size));
  return false;
}

bool pads_are_smaller(Call& call, const std::vector<int64_t>& pads, const Windows& windows) {
  for (size_t i = 0; i < pads.size(); ++i)
    if (!pad_is_smaller(call, pads[i], windows.size[i / 2])) return false;
  return true;
}

/// REQUIRES: `x` is of rank 4.
std::optional<PooledImages> pooled_images(Call& call, const Shape& x) {
  const auto pool = read_pool(call, {x[2], x[3]}, 2);
  if (!pool) return {};
  return PooledImages{x, {x[0], x[1], pool->placed.count[0], pool->placed.count[1]}, *pool};
}

void set_pool(Attributes& attributes, const std::optional<PooledImages>& of) {
  if (!of) return;
  attributes.set("ksize", of->pool.size());
  attributes.set("strides", of->pool.strides());
  attributes.set("padding", of->pool.placed.padding);
}

}  // namespace

std::optional<Pool> read_pool(Call& call, std::array<int64_t, 2> input, int dimensions) {
  const auto sizes = [&](std::string_view name) {
    return pair_of(call, name, call.integers(name), dimensions);
  };
  const auto size = sizes("ksize");
  if (!size) return {};  // strides may have their default from it
  const auto strides = sizes("strides");
  if (!strides) return {};
  const Windows windows{*size, *strides, {1, 1}};
  const auto placed =
      place_windows(call, input, windows, call.attribute("padding"), pool_names(dimensions));
  if (!placed || !pads_are_smaller(call, placed->padding, windows)) return {};
  if ((*size)[0] > std::numeric_limits<int32_t>::max() / (*size)[1]) {
    call.bad_attribute(
        "ksize", Reason::kBadAttribute,
        fmt::format("a window of {} x {} has too many elements to count", (*size)[0], (*size)[1]));
    return {};
  }
  return Pool{windows, *placed};
}

std::optional<VolumeWindows> read_pool3d(Call& call) {
  if (!has_rank(call, 0, 5, "(N, C, D, H, W)")) return {};
  const auto windows = volume_windows(call, call.shape(0), "strides", "", pool_names(3));
  if (!windows) return {};
  for (const AxisWindows& along : *windows)
    for (const int64_t pad : along.pads)
      if (!pad_is_smaller(call, pad, along.size)) return {};
  return windows;
}

std::optional<PooledImages> read_pool2d(Call& call) {
  if (!has_rank(call, 0, 4, "(N, C, H, W)")) return {};
  return pooled_images(call, call.shape(0));
}

std::optional<PooledImages> read_pool2d_grad(Call& call) {
  const auto x = four_extents(call, "input_shape");
  if (!x) return {};
  return pooled_images(call, *x);
}

void normalise_pool(Call& call, Attributes& attributes) { set_pool(attributes, read_pool2d(call)); }

void normalise_pool_grad(Call& call, Attributes& attributes) {
  set_pool(attributes, read_pool2d_grad(call));
}

std::vector<AttributeSpec> pool_attributes(int dimensions) {
  return {sizes_attribute("ksize", "",
                          dimensions == 3 ? "window depth, height and width, or one number for all"
                          : dimensions == 1 ? "window length"
                                            : "window height and width, or one number for both"),
          sizes_attribute("strides", "ksize", "step between windows, in elements"),
          padding_attribute(dimensions)};
}

std::vector<AttributeSpec> pool_gradient_attributes() {
  std::vector<AttributeSpec> attributes = pool_attributes();
  attributes.push_back(input_shape_attribute());
  return attributes;
}

}  // namespace flow::ops
