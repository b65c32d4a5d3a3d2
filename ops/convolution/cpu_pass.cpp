// The selection and construction of oneDNN's convolution primitives.
#include "ops/convolution/cpu_pass.h"

#include <algorithm>
#include <string_view>

#include "ops/core/known.h"
#include "runtime/base/error.h"

namespace flow::cpu {
namespace {

using dnnl::memory;
using Tag = memory::format_tag;

constexpr auto kFloat = memory::data_type::f32;
constexpr auto kAlgorithm = dnnl::algorithm::convolution_direct;

memory::dims dims_of(const Shape& shape, int64_t images) {
  return {images, shape[1], shape[2], shape[3]};
}

memory::dims weight_dims(const ConvolutionGeometry& g) {
  const Shape& w = g.weight;
  if (g.groups == 1) return {w[0], w[1], w[2], w[3]};
  return {g.groups, w[0] / g.groups, w[1], w[2], w[3]};
}

/// oneDNN's descriptors of the tensors of a convolution. Layouts that oneDNN may choose are `any`.
struct Problem {
  memory::desc x, y, weights, bias;
  memory::dims strides, dilation, before, after;
};

Problem make_problem(const ConvolutionGeometry& g, int64_t images, bool free_activations,
                     const std::optional<memory::desc>& weights) {
  const auto activation = [&](const Shape& shape, Layout layout) {
    const Tag tag = layout == Layout::kPlain ? Tag::nchw : Tag::nhwc;
    return memory::desc(dims_of(shape, images), kFloat, free_activations ? Tag::any : tag);
  };
  Problem p;
  p.x = activation(g.x, g.x_layout);
  p.y = activation(g.y, g.y_layout);
  p.weights = weights ? *weights : memory::desc(weight_dims(g), kFloat, Tag::any);
  if (g.bias) p.bias = memory::desc({g.weight[0]}, kFloat, Tag::x);
  p.strides = {g.strides[0], g.strides[1]};
  p.dilation = {g.dilation[0] - 1, g.dilation[1] - 1};
  p.before = {g.padding[0], g.padding[2]};
  p.after = {g.padding[1], g.padding[3]};
  return p;
}

dnnl::convolution_forward::primitive_desc make_forward(const dnnl::engine& engine,
                                                       const Problem& p) {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  const auto kind = dnnl::prop_kind::forward_training;
  using Desc = dnnl::convolution_forward::desc;
  const Desc desc = p.bias.is_zero() ? Desc(kind, kAlgorithm, p.x, p.weights, p.y, p.strides,
                                            p.dilation, p.before, p.after)
                                     : Desc(kind, kAlgorithm, p.x, p.weights, p.bias, p.y,
                                            p.strides, p.dilation, p.before, p.after);
  return {desc, attributes, engine};
}

/// The selected primitive, and the properties of its descriptor that all three kinds have.
struct Chosen {
  dnnl::primitive primitive;
  memory::desc first, second, weights, scratchpad;  // `first` and `second`: activations
  std::string implementation;
};

Chosen choose(const dnnl::engine& engine, Direction direction, const Problem& p) {
  if (direction == Direction::kForward) {
    const auto d = make_forward(engine, p);
    return {dnnl::convolution_forward(d), d.src_desc(),     d.dst_desc(), d.weights_desc(),
            d.scratchpad_desc(),          d.impl_info_str()};
  }
  // Backward descriptors require a forward descriptor as a hint, whose layouts do not matter.
  Problem hint = p;
  hint.x = memory::desc(p.x.dims(), kFloat, Tag::any);
  hint.y = memory::desc(p.y.dims(), kFloat, Tag::any);
  hint.weights = memory::desc(p.weights.dims(), kFloat, Tag::any);
  const auto forward = make_forward(engine, hint);
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (direction == Direction::kGradData) {
    using Primitive = dnnl::convolution_backward_data;
    const Primitive::primitive_desc d(
        Primitive::desc(kAlgorithm, p.x, p.weights, p.y, p.strides, p.dilation, p.before, p.after),
        attributes, engine, forward);
    return {Primitive(d),     d.diff_dst_desc(),   d.diff_src_desc(),
            d.weights_desc(), d.scratchpad_desc(), d.impl_info_str()};
  }
  using Primitive = dnnl::convolution_backward_weights;
  const Primitive::primitive_desc d(
      Primitive::desc(kAlgorithm, p.x, p.weights, p.y, p.strides, p.dilation, p.before, p.after),
      attributes, engine, forward);
  return {Primitive(d),          d.src_desc(),        d.diff_dst_desc(),
          d.diff_weights_desc(), d.scratchpad_desc(), d.impl_info_str()};
}

/// How an implementation works, from fast to slow. Each step costs more than reordering the
/// activations: kPatches copies patches before multiplying them, and kLoops uses plain loops, which
/// take many times as long.
enum class Way { kDirect, kPatches, kLoops };

/// Classifies an implementation by its name. An inner product over a whole window ("ip:...") is
/// direct regardless of the rest of its name, which oneDNN reports only the first time.
Way way_of(const Chosen& chosen) {
  const std::string& name = chosen.implementation;
  if (name.starts_with("ip:")) return Way::kDirect;
  if (name.find("ref") != std::string::npos) return Way::kLoops;
  return name.find("gemm") != std::string::npos ? Way::kPatches : Way::kDirect;
}

/// Selects a primitive for the given layouts of the activations, or for layouts chosen by oneDNN if
/// these allow a faster way.
Chosen choose_layouts(const dnnl::engine& engine, const ConvolutionGeometry& g, int64_t images,
                      const std::optional<memory::desc>& weights) {
  const auto attempt = [&](bool free_activations) -> std::optional<Chosen> {
    try {
      return choose(engine, g.direction, make_problem(g, images, free_activations, weights));
    } catch (const dnnl::error&) {
      return std::nullopt;
    }
  };
  std::optional<Chosen> given = attempt(false);
  if (given && way_of(*given) == Way::kDirect) return *given;
  std::optional<Chosen> free = attempt(true);
  if (free && (!given || way_of(*free) < way_of(*given))) return *free;
  if (given) return *given;
  throw RunError("oneDNN has no convolution for this geometry on this CPU",
                 "use `precision: float64`, which supports any geometry");
}

Activation make_activation(const dnnl::engine& engine, const Shape& shape, Layout layout,
                           int64_t images, int argument, bool output, const memory::desc& wanted) {
  Activation activation;
  activation.argument = argument;
  activation.output = output;
  activation.given = memory::desc(dims_of(shape, images), kFloat,
                                  layout == Layout::kPlain ? Tag::nchw : Tag::nhwc);
  activation.wanted = wanted;
  if (!activation.reordered()) return activation;
  const memory::desc& from = output ? activation.wanted : activation.given;
  const memory::desc& to = output ? activation.given : activation.wanted;
  activation.reorder = dnnl::reorder(dnnl::reorder::primitive_desc(engine, from, engine, to));
  return activation;
}

}  // namespace

ConvolutionGeometry convolution_geometry(const Request& request) {
  ConvolutionGeometry g;
  const TensorDesc &first = request.inputs[0], &second = request.inputs[1];
  const TensorDesc& result = request.outputs[0];
  const auto set = [&g](const TensorDesc& x, const TensorDesc& y, const TensorDesc& weight) {
    g.x = x.shape, g.x_layout = x.layout;
    g.y = y.shape, g.y_layout = y.layout;
    g.weight = weight.shape;
  };
  if (request.step.op == ops::kConvolution) {
    set(first, result, second);
  } else if (request.step.op == ops::kConvolutionGradData) {
    g.direction = Direction::kGradData;
    set(result, first, second);
  } else {
    g.direction = Direction::kGradWeight;
    set(first, second, result);
  }
  const auto list = [&](std::string_view name) -> const std::vector<int64_t>& {
    return request.step.attributes.get<std::vector<int64_t>>(name);
  };
  g.strides = {list("strides")[0], list("strides")[1]};
  g.dilation = {list("dilation")[0], list("dilation")[1]};
  const std::vector<int64_t>& padding = list("padding");
  g.padding = {padding[0], padding[1], padding[2], padding[3]};
  g.groups = request.step.attributes.get<int64_t>("groups");
  return g;
}

int64_t chunk_images(const ConvolutionGeometry& g) {
  constexpr double kChunkFlops = 2e6;
  const double flops =
      2.0 * static_cast<double>(g.y.elements(1, 4)) * static_cast<double>(g.weight.elements(1, 4));
  const int64_t images = g.x[0];
  const int64_t worth = static_cast<int64_t>(kChunkFlops / std::max(1.0, flops));
  const int64_t most = std::max<int64_t>(20, (images + 31) / 32);
  const int64_t least = std::max<int64_t>(1, std::min(worth, images));
  return std::max(std::clamp<int64_t>(images / 10, 1, most), least);
}

memory::desc plain_weights(const ConvolutionGeometry& geometry) {
  return {weight_dims(geometry), kFloat, geometry.groups == 1 ? Tag::oihw : Tag::goihw};
}

ConvolutionPass make_convolution_pass(const dnnl::engine& engine, const ConvolutionGeometry& g,
                                      int64_t images, const std::optional<memory::desc>& weights) {
  const Chosen chosen = choose_layouts(engine, g, images, weights);
  ConvolutionPass pass;
  pass.primitive = chosen.primitive;
  pass.weights = chosen.weights;
  pass.scratchpad = chosen.scratchpad;
  pass.implementation = chosen.implementation;
  const auto activation = [&](const Shape& shape, Layout layout, int argument, bool output,
                              const memory::desc& wanted) {
    return make_activation(engine, shape, layout, images, argument, output, wanted);
  };
  switch (g.direction) {
    case Direction::kForward:
      pass.activations = {activation(g.x, g.x_layout, DNNL_ARG_SRC, false, chosen.first),
                          activation(g.y, g.y_layout, DNNL_ARG_DST, true, chosen.second)};
      pass.weights_argument = DNNL_ARG_WEIGHTS;
      break;
    case Direction::kGradData:
      pass.activations = {activation(g.y, g.y_layout, DNNL_ARG_DIFF_DST, false, chosen.first),
                          activation(g.x, g.x_layout, DNNL_ARG_DIFF_SRC, true, chosen.second)};
      pass.weights_argument = DNNL_ARG_WEIGHTS;
      break;
    case Direction::kGradWeight:
      pass.activations = {activation(g.x, g.x_layout, DNNL_ARG_SRC, false, chosen.first),
                          activation(g.y, g.y_layout, DNNL_ARG_DIFF_DST, false, chosen.second)};
      pass.weights_argument = DNNL_ARG_DIFF_WEIGHTS;
      break;
  }
  return pass;
}

}  // namespace flow::cpu
