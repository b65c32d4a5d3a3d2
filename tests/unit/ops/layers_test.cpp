// Layers: what they are made of, how their variables start.
#include <catch2/catch.hpp>

#include <cmath>

#include "compiler/ir/call_site.h"
#include "compiler/ir/initializers.h"
#include "ops/core/spec.h"
#include "tests/support/graph_maker.h"

namespace flow::test {
namespace {

using Integers = std::vector<int64_t>;
using ir::ValueId;

using plan::initializers::Normal, plan::initializers::TruncatedNormal, plan::initializers::Uniform;

}  // namespace

TEST_CASE("A dense layer is a product, a bias and an activation, named below it", "[ops]") {
  GraphMaker maker;
  const ValueId x = maker.input("x", {8, 4});
  const ValueId y = maker.layer("dense", "net/dense1", x,
                                {{"units", int64_t{3}}, {"activation", std::string("relu")}});
  CHECK(maker.graph[y].name == "net/dense1/relu");
  CHECK(maker.graph.find("net/dense1") == y);
  CHECK(maker.nodes() ==
        "net/dense1/matmul = matmul(x, net/dense1/weight) transpose_a=false transpose_b=true: "
        "float32[8, 3] rows=0\n"
        "net/dense1/bias_add = bias_add(net/dense1/matmul, net/dense1/bias) axis=1: "
        "float32[8, 3] rows=0\n"
        "net/dense1/relu = relu(net/dense1/bias_add): float32[8, 3] rows=0\n");
  CHECK(maker.graph[maker.graph.find("net/dense1/weight")].shape == Shape{3, 4});
  ir::verify(maker.graph);
}

TEST_CASE("Every function of one operand is an activation with its defaults", "[ops]") {
  for (const char* activation :
       {"relu",      "relu6",        "leaky_relu",  "elu",         "gelu",       "silu",
        "hardswish", "softplus",     "sigmoid",     "tanh",        "exp",        "log",
        "sqrt",      "rsqrt",        "sin",         "cos",         "negative",   "abs",
        "sign",      "square",       "softmax",     "log_softmax", "selu",       "mish",
        "celu",      "hard_sigmoid", "log_sigmoid", "softsign",    "softshrink", "threshold",
        "tan",       "atan",         "expm1",       "log1p",       "reciprocal", "trunc",
        "asinh"}) {
    INFO(activation);
    GraphMaker maker;
    const ValueId y = maker.layer("dense", "d", maker.input("x", {8, 5, 4}),
                                  {{"units", int64_t{3}}, {"activation", std::string(activation)}});
    REQUIRE(y.valid());
    CHECK(maker.graph[y].shape == Shape{8, 5, 3});
    CHECK(maker.messages().empty());
  }
}

TEST_CASE("A dense layer flattens what has more dimensions, and restores them", "[ops]") {
  GraphMaker maker;
  const ValueId x = maker.input("x", {8, 5, 4});
  const ValueId y =
      maker.layer("dense", "d", x, {{"units", int64_t{3}}, {"activation", std::string("relu")}});
  CHECK(maker.graph[y].shape == Shape{8, 5, 3});
  CHECK(maker.graph[y].batch_axis == 0);
  const ValueId z =
      maker.layer("dense", "e", x, {{"units", int64_t{3}}, {"activation", std::string("argmax")}});
  CHECK(maker.graph[z].shape == Shape{8, 5});
  CHECK_FALSE(maker.layer("dense", "f", maker.input("v", {8}), {{"units", int64_t{3}}}).valid());
  CHECK(maker.messages() ==
        "f: [8] has fewer than 2 dimensions; expected (batch, ..., features)\n"
        "  v is [8]\n");
}

TEST_CASE("A convolution layer without bias and activation is the convolution", "[ops]") {
  GraphMaker maker;
  const ValueId x = maker.input("x", {2, 4, 9, 9});
  maker.layer("conv2d", "conv1", x,
              {{"filters", int64_t{6}},
               {"kernel_size", Integers{3, 5}},
               {"padding", std::string("same")},
               {"strides", Integers{2}},
               {"groups", int64_t{2}},
               {"use_bias", false}});
  CHECK(maker.nodes() ==
        "conv1/conv = convolution(x, conv1/weight) dilation=[1, 1] groups=2 padding=[1, 1, 2, 2] "
        "strides=[2, 2]: float32[2, 6, 5, 5] rows=0\n");
  CHECK(maker.graph[maker.graph.find("conv1/weight")].shape == Shape{6, 2, 3, 5});
  CHECK_FALSE(maker.graph.find("conv1/bias").valid());
}

TEST_CASE("A convolution over lengths is one over images of height 1", "[ops]") {
  GraphMaker maker;
  const ValueId x = maker.input("x", {2, 4, 9});
  const ValueId y = maker.layer("conv1d", "c", x,
                                {{"filters", int64_t{6}},
                                 {"kernel_size", Integers{3}},
                                 {"padding", Integers{1, 2}},
                                 {"strides", Integers{2}},
                                 {"groups", int64_t{2}},
                                 {"activation", std::string("relu")}});
  CHECK(maker.graph[y].shape == Shape{2, 6, 5});
  CHECK(maker.graph[y].batch_axis == 0);
  CHECK(maker.graph[maker.graph.find("c/weight")].shape == Shape{6, 2, 3});
  CHECK(maker.nodes() ==
        "c/expand = reshape(x) shape=[2, 4, 1, 9]: float32[2, 4, 1, 9] rows=0\n"
        "c/expand_weight = reshape(c/weight) shape=[6, 2, 1, 3]: float32[6, 2, 1, 3]\n"
        "c/conv = convolution(c/expand, c/expand_weight) dilation=[1, 1] groups=2 "
        "padding=[0, 0, 1, 2] strides=[1, 2]: float32[2, 6, 1, 5] rows=0\n"
        "c/bias_add = bias_add(c/conv, c/bias) axis=1: float32[2, 6, 1, 5] rows=0\n"
        "c/relu = relu(c/bias_add): float32[2, 6, 1, 5] rows=0\n"
        "c/restore = reshape(c/relu) shape=[2, 6, 5]: float32[2, 6, 5] rows=0\n");
  ir::verify(maker.graph);
}

TEST_CASE("A convolution over volumes is one over the planes of each window", "[ops]") {
  GraphMaker maker;
  const ValueId x = maker.input("x", {2, 4, 7, 5, 6});
  const ValueId y = maker.layer("conv3d", "c", x,
                                {{"filters", int64_t{6}},
                                 {"kernel_size", Integers{3, 1, 2}},
                                 {"padding", Integers{1, 0, 0, 0, 0, 0}},
                                 {"strides", Integers{2, 1, 1}},
                                 {"groups", int64_t{2}},
                                 {"activation", std::string("relu")}});
  CHECK(maker.graph[y].shape == Shape{2, 6, 3, 5, 5});
  CHECK(maker.graph[y].batch_axis == 0);
  CHECK(maker.graph[maker.graph.find("c/weight")].shape == Shape{6, 2, 3, 1, 2});
  CHECK(maker.graph[maker.graph.find("c/images")].shape == Shape{6, 12, 5, 6});
  CHECK(maker.graph[maker.graph.find("c/conv")].batch_axis == 0);
  CHECK(maker.graph[maker.graph.find("c/relu")].shape == Shape{6, 6, 5, 5});
  ir::verify(maker.graph);
}

TEST_CASE("A transposed convolution over lengths is one over images of height 1", "[ops]") {
  GraphMaker maker;
  const ValueId x = maker.input("x", {2, 4, 5});
  const ValueId y = maker.layer("conv1d_transpose", "c", x,
                                {{"filters", int64_t{6}},
                                 {"kernel_size", Integers{3}},
                                 {"strides", Integers{2}},
                                 {"output_padding", Integers{1}}});
  CHECK(maker.graph[y].shape == Shape{2, 6, 12});
  CHECK(maker.graph[y].batch_axis == 0);
  CHECK(maker.graph[maker.graph.find("c/weight")].shape == Shape{4, 6, 3});
  ir::verify(maker.graph);
}

TEST_CASE("prelu has a slope for each channel, or one", "[ops]") {
  GraphMaker maker;
  const ValueId x = maker.input("x", {2, 4, 5});
  CHECK(maker.graph[maker.layer("prelu", "p", x, {})].shape == Shape{2, 4, 5});
  CHECK(maker.graph[maker.graph.find("p/alpha")].shape == Shape{4});
  CHECK(maker.graph[maker.layer("prelu", "q", x, {{"shared", true}})].batch_axis == 0);
  CHECK(maker.graph[maker.graph.find("q/alpha")].shape == Shape{1});
}

TEST_CASE("A transposed convolution makes what a convolution of its windows would read", "[ops]") {
  GraphMaker maker;
  const ValueId x = maker.input("x", {2, 4, 5, 6});
  const auto shape_of = [&](const std::string& name, const ir::Attributes& more) {
    ir::Attributes given = {
        {"filters", int64_t{6}}, {"kernel_size", Integers{3, 4}}, {"strides", Integers{2, 3}}};
    for (const auto& [key, value] : more) given.set(key, value);
    const AttributeSpans spans;
    const ValueId y =
        maker.builder.add_layer(*ops::find_spec("conv2d_transpose"),
                                {maker.builder, name, {x}, given, {}, spans, true, true});
    return maker.graph[y].shape;
  };
  // (in - 1) stride - pads + dilation (k - 1) + 1 + output_padding
  CHECK(shape_of("a", {}) == Shape{2, 6, 11, 19});
  CHECK(shape_of("b", {{"padding", Integers{1, 0, 2, 1}}}) == Shape{2, 6, 10, 16});
  CHECK(shape_of("c", {{"output_padding", Integers{1, 2}}}) == Shape{2, 6, 12, 21});
  CHECK(shape_of("d", {{"dilation_rate", Integers{2}}}) == Shape{2, 6, 13, 22});
  CHECK(shape_of("e", {{"padding", std::string("same")}}) == Shape{2, 6, 10, 18});
  CHECK(shape_of("f", {{"padding", std::string("same_lower")}, {"groups", int64_t{2}}}) ==
        Shape{2, 6, 10, 18});
  CHECK(maker.graph[maker.graph.find("a/weight")].shape == Shape{4, 6, 3, 4});
  CHECK(maker.graph[maker.graph.find("f/weight")].shape == Shape{4, 3, 3, 4});
  const auto pads = [&](const std::string& name) {
    const ir::Value& value = maker.graph[maker.graph.find(name)];
    return maker.graph[value.producer].attributes.get<Integers>("padding");
  };
  CHECK(pads("e/conv") == Integers{0, 1, 0, 1});
  CHECK(pads("f/conv") == Integers{1, 0, 1, 0});
  // Windows of all 4 channels of x are summed up to an element of the result.
  shape_of("g", {{"kernel_initializer", std::string("kaiming")}});
  const auto weight =
      std::ranges::find(maker.graph.variables, maker.graph.find("g/weight"), &ir::Variable::value);
  CHECK(std::get<Normal>(weight->initializer).stddev == std::sqrt(2.0) / std::sqrt(4.0 * 12));
  ir::verify(maker.graph);
}

TEST_CASE("Batch normalization updates what it keeps in train jobs, behind all else", "[ops]") {
  GraphMaker maker;
  const ValueId x = maker.input("x", {8, 4, 2, 2});
  const ValueId y = maker.layer("batch_normalization", "bn", x, {{"momentum", 0.9}});
  CHECK(maker.graph[y].batch_axis == ir::kBatchReduced);
  CHECK(maker.graph[maker.graph.find("bn/moving_variance")].shape == Shape{4});
  maker.minimize(maker.add("reduce_mean", "loss", {y}));
  CHECK(maker.context.training->variables.size() == 2);
  maker.run_passes();
  CHECK(maker.graph.nodes.back().name == "bn/moving_mean:update");
  const ir::Attributes& attributes = maker.graph.nodes.back().attributes;
  CHECK(attributes.get<double>("momentum") == 0.9);
  CHECK(attributes.get<double>("unbias") == 32.0 / 31);
  for (const ir::Variable& variable : maker.graph.variables) CHECK(variable.updated.valid());
}

TEST_CASE("Batch normalization reads its variables in predict jobs", "[ops]") {
  GraphMaker maker;
  const ValueId x = maker.input("x", {8, 4});
  maker.layer("batch_normalization", "bn", x, {{"axis", int64_t{-1}}}, false);
  CHECK(maker.nodes() ==
        "bn/normalize = batch_norm_predict(x, bn/gamma, bn/beta, bn/moving_mean, "
        "bn/moving_variance) axis=1 epsilon=0.001: float32[8, 4] rows=0\n");
  for (const ir::Variable& variable : maker.graph.variables) CHECK_FALSE(variable.updated.valid());
}

TEST_CASE("Layer normalization keeps rows that it does not sum over", "[ops]") {
  GraphMaker maker;
  const ValueId x = maker.input("x", {8, 4, 5});
  const ValueId y = maker.layer("layer_norm", "ln", x, {{"axis", int64_t{1}}, {"center", false}});
  CHECK(maker.graph[y].batch_axis == 0);
  CHECK(maker.graph[maker.graph.find("ln/gamma")].shape == Shape{4, 5});
  CHECK(maker.graph.variables.size() == 1);
  CHECK(maker.graph[maker.layer("layer_norm", "all", x, {{"axis", int64_t{0}}})].batch_axis ==
        ir::kBatchReduced);
}

TEST_CASE("Root mean square normalization is one primitive, with or without a scale", "[ops]") {
  GraphMaker maker;
  const ValueId x = maker.input("x", {8, 4, 5});
  maker.layer("rms_norm", "rn", x, {{"axis", int64_t{1}}});
  CHECK(maker.nodes() ==
        "rn/normalize, rn/normalize.inverse_rms = rms_normalize(x, rn/gamma) axis=1 "
        "epsilon=1e-06: float32[8, 4, 5] rows=0, float32[8] rows=0\n");
  CHECK(maker.graph[maker.graph.find("rn/gamma")].shape == Shape{4, 5});
  maker.layer("rms_norm", "plain", x, {{"scale", false}});
  CHECK(maker.graph.variables.size() == 1);
}

TEST_CASE("Group normalization is one primitive that keeps rows of images", "[ops]") {
  GraphMaker maker;
  const ValueId x = maker.input("x", {8, 6, 5});
  maker.layer("group_norm", "gn", x, {{"groups", int64_t{3}}});
  CHECK(maker.nodes() ==
        "gn/normalize, gn/normalize.mean, gn/normalize.variance = group_normalize(x, gn/gamma, "
        "gn/beta) epsilon=1e-05 groups=3: float32[8, 6, 5] rows=0, float32[8, 3] rows=0, "
        "float32[8, 3] rows=0\n");
  CHECK(maker.graph[maker.graph.find("gn/gamma")].shape == Shape{6});
}

TEST_CASE("Pools over lengths and whole images", "[ops]") {
  GraphMaker maker;
  const ValueId lengths = maker.input("l", {2, 4, 9}), x = maker.input("x", {2, 4, 3, 5});
  const ValueId pooled = maker.layer("max_pool1d", "m", lengths,
                                     {{"ksize", Integers{2}}, {"padding", std::string("same")}});
  CHECK(maker.graph[pooled].shape == Shape{2, 4, 5});
  const ValueId mean =
      maker.layer("avg_pool1d", "a", lengths, {{"ksize", Integers{3}}, {"strides", Integers{1}}});
  CHECK(maker.graph[mean].shape == Shape{2, 4, 7});
  CHECK(maker.graph[maker.layer("global_avg_pool", "g", x)].shape == Shape{2, 4});
  CHECK(maker.graph[maker.layer("global_avg_pool", "k", x, {{"keepdims", true}})].shape ==
        Shape{2, 4, 1, 1});
  CHECK(maker.graph[maker.layer("global_avg_pool", "h", lengths)].batch_axis == 0);
  ir::verify(maker.graph);
}

TEST_CASE("Dropout is nothing in predict jobs", "[ops]") {
  GraphMaker maker;
  const ValueId x = maker.input("x", {8, 4});
  CHECK(maker.layer("dropout", "drop", x, {{"rate", 0.5}}, false) == x);
  CHECK(maker.graph.nodes.empty());
  CHECK(maker.graph.find("drop") == x);
}

TEST_CASE("Dropout draws under its entry's path", "[ops]") {
  GraphMaker maker;
  const ValueId y = maker.layer("dropout", "net/drop", maker.input("x", {8, 4}), {{"rate", 0.5}});
  const ir::Node& node = maker.graph[maker.graph[y].producer];
  CHECK(node.attributes.get<std::string>("consumer") == "net/drop");
  CHECK(maker.graph.find("net/drop.mask").valid());
}

TEST_CASE("Flatten joins an axis and what follows", "[ops]") {
  GraphMaker maker;
  const ValueId x = maker.input("x", {8, 2, 3, 4});
  CHECK(maker.graph[maker.layer("flatten", "flat", x)].shape == Shape{8, 24});
  CHECK(maker.graph[maker.layer("flatten", "last", x, {{"start", int64_t{-2}}})].shape ==
        Shape{8, 2, 12});
  maker.layer("flatten", "far", x, {{"start", int64_t{4}}});
  CHECK(maker.messages() ==
        "far: [8, 2, 3, 4] has no axis 4 to flatten from\n  x is [8, 2, 3, 4]\n");
}

TEST_CASE("Fans of a convolution count its window", "[ops]") {
  const Fans fans = fans_of({32, 3, 5, 5});
  CHECK(fans.in == 75);
  CHECK(fans.out == 800);
  CHECK(fans_of({10, 512}).in == 512);
}

TEST_CASE("Initializers with fans become plain ones", "[ops]") {
  const Fans fans{75, 800};
  const auto glorot = std::get<Uniform>(resolve_initializer(GlorotUniform(), fans));
  CHECK(glorot.max == std::sqrt(6.0 / 875));
  CHECK(glorot.min == -glorot.max);
  CHECK(std::get<Uniform>(resolve_initializer(XavierUniform(), fans)).max == glorot.max);

  const auto normal = std::get<Normal>(resolve_initializer(GlorotNormal(), fans));
  CHECK(normal.mean == 0);
  CHECK(normal.stddev == std::sqrt(2.0 / 875));

  const VarianceScaling scaled{.scale = 2};
  CHECK(std::get<TruncatedNormal>(resolve_initializer(scaled, fans)).stddev ==
        Approx(std::sqrt(2.0 / 75) / 0.87962566103423978));
  const VarianceScaling spread{.mode = FanMode::kAverage,
                               .distribution = VarianceScaling::Distribution::kUniform};
  CHECK(std::get<Uniform>(resolve_initializer(spread, fans)).max == Approx(std::sqrt(3 / 437.5)));

  const Kaiming kaiming{.mode = FanMode::kOut};
  CHECK(std::get<Normal>(resolve_initializer(kaiming, fans)).stddev ==
        Approx(std::sqrt(2.0 / 800)));
  const Kaiming linear{.distribution = Kaiming::Distribution::kUniform,
                       .nonlinearity = Kaiming::Nonlinearity::kLinear};
  CHECK(std::get<Uniform>(resolve_initializer(linear, fans)).max == Approx(std::sqrt(3.0 / 75)));
  const Kaiming leaky{.negative_slope = 2, .nonlinearity = Kaiming::Nonlinearity::kLeakyRelu};
  CHECK(std::get<Normal>(resolve_initializer(leaky, fans)).stddev ==
        Approx(std::sqrt(2.0 / 5 / 75)));

  const TruncatedNormal plain{0, 0.1};
  CHECK(std::get<TruncatedNormal>(resolve_initializer(plain, fans)).stddev == 0.1);
}

TEST_CASE("Kernels start as glorot_uniform and biases as zeros", "[ops]") {
  GraphMaker maker;
  maker.layer("dense", "d", maker.input("x", {8, 4}), {{"units", int64_t{2}}});
  CHECK(std::get<Uniform>(maker.graph.variables[0].initializer).max == 1);
  CHECK(plan::type_name(maker.graph.variables[1].initializer) == "zeros");
}

}  // namespace flow::test
