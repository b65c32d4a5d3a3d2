// Updates, dead nodes and fusion: the graph before and after.
#include <catch2/catch.hpp>

#include <algorithm>

#include "tests/support/graph_maker.h"

namespace flow::test {
namespace {

using Integers = std::vector<int64_t>;
using ir::ValueId;

ValueId dense(GraphMaker& maker, const std::string& name, ValueId in, bool relu = false) {
  return maker.layer("dense", name, in,
                     {{"units", int64_t{4}},
                      {"use_bias", false},
                      {"activation", std::string(relu ? "relu" : "none")}});
}

/// images -> conv1 (relu) -> pool1, trained.
ValueId convolved(GraphMaker& maker) {
  const ValueId x = maker.input("x", {2, 1, 8, 8});
  const ValueId conv1 = maker.layer(
      "conv2d", "conv1", x,
      {{"filters", int64_t{3}}, {"kernel_size", Integers{3}}, {"activation", std::string("relu")}});
  return maker.add("max_pool2d", "pool1", {conv1}, {{"ksize", Integers{2}}});
}

void run_pass(GraphMaker& maker, std::string_view name) {
  std::ranges::find(passes::pipeline(), name, &passes::Pass::name)
      ->run(maker.graph, maker.context, maker.diags);
}

}  // namespace

TEST_CASE("Updates follow their gradient and the last read of the variable", "[passes]") {
  GraphMaker maker;
  const ValueId x = maker.input("x", {8, 4});
  maker.minimize(dense(maker, "b", dense(maker, "a", x)));
  maker.run_passes("add_updates");
  CHECK(maker.nodes() ==
        "a/matmul = matmul(x, a/weight) transpose_a=false transpose_b=true: float32[8, 4] rows=0\n"
        "b/matmul = matmul(a/matmul, b/weight) transpose_a=false transpose_b=true: "
        "float32[8, 4] rows=0\n"
        "minimize/mean_loss = reduce_mean(b/matmul) axes=[0, 1] keepdims=false: float32[] mixed\n"
        "b/matmul:diff = fill() dtype=float32 shape=[8, 4] value=1: float32[8, 4]\n"
        "a/matmul:diff = matmul(b/matmul:diff, b/weight) transpose_a=false transpose_b=false: "
        "float32[8, 4]\n"
        "b/weight:diff = matmul(b/matmul:diff, a/matmul) transpose_a=true transpose_b=false: "
        "float32[4, 4] mixed\n"
        "b/weight:update = sgd_update(b/weight:diff, b/weight) rate_scale=1 scale=0.03125: "
        "float32[4, 4]\n"
        "a/weight:diff = matmul(a/matmul:diff, x) transpose_a=true transpose_b=false: "
        "float32[4, 4] mixed\n"
        "a/weight:update = sgd_update(a/weight:diff, a/weight) rate_scale=1 scale=0.03125: "
        "float32[4, 4]\n");
  CHECK(maker.graph.results.back() == maker.context.mean_loss);
}

TEST_CASE("A scalar loss is its own mean", "[passes]") {
  GraphMaker maker;
  const ValueId y = dense(maker, "a", maker.input("x", {8, 4}));
  const ValueId loss = maker.add("reduce_sum", "loss", {y});
  maker.minimize(loss);
  maker.run_passes();
  CHECK(maker.context.mean_loss == loss);
  CHECK_FALSE(maker.graph.find("minimize/mean_loss").valid());
}

TEST_CASE("Momentum has a slot beside the variable, and both are updated", "[passes]") {
  GraphMaker maker;
  maker.minimize(dense(maker, "a", maker.input("x", {8, 4})));
  maker.context.training->update = "momentum_update";
  maker.context.training->attributes.set("momentum", 0.9);
  maker.context.training->attributes.set("nesterov", true);
  maker.run_passes();
  REQUIRE(maker.graph.variables.size() == 2);
  const ir::Variable& slot = maker.graph.variables[1];
  CHECK(maker.graph[slot.value].name == "a/weight/momentum");
  CHECK(slot.slot);
  CHECK(plan::type_name(slot.initializer) == "zeros");
  CHECK(maker.graph[slot.updated].name == "a/weight:update.momentum");
  CHECK_THAT(maker.nodes(), Catch::Contains("momentum_update(a/weight:diff, a/weight, "
                                            "a/weight/momentum) momentum=0.9 nesterov=true "
                                            "rate_scale=1 scale=0.03125 weight_decay=0"));
}

TEST_CASE("A frozen variable keeps its value, and nothing is computed for it", "[passes]") {
  GraphMaker maker;
  const ValueId x = maker.input("x", {8, 4});
  const ValueId w = maker.variable("w", {4, 4}, false);
  const ValueId y = maker.add("matmul", "y", {x, w});
  maker.minimize(dense(maker, "a", y));
  maker.run_passes();
  CHECK_FALSE(maker.graph.variable_of(w)->updated.valid());
  CHECK(maker.nodes().find("y:diff") == std::string::npos);
}

TEST_CASE("Nodes that nothing reads go, those that hooks read are taps", "[passes]") {
  GraphMaker maker;
  const ValueId x = maker.input("x", {4});
  const ValueId kept = maker.add("relu", "kept", {x});
  const ValueId seen = maker.add("relu", "seen", {maker.add("add", "on_the_way", {x, kept})});
  maker.add("relu", "dead", {kept});
  maker.graph.results = {kept};
  maker.graph.watched = {seen, kept};
  maker.run_passes("remove_dead");
  CHECK(maker.nodes() ==
        "kept = relu(x): float32[4] rows=0\n"
        "tap on_the_way = add(x, kept): float32[4] rows=0\n"
        "tap seen = relu(on_the_way): float32[4] rows=0\n");
}

TEST_CASE("The rectifier's gradient moves below max-pooling's", "[passes]") {
  GraphMaker maker;
  maker.minimize(convolved(maker));
  maker.run_passes("remove_dead");
  CHECK_THAT(maker.nodes(), Catch::Contains("conv1/relu:diff = max_pool2d_grad(pool1:diff, "
                                            "pool1.argmax)"));
  CHECK_THAT(maker.nodes(),
             Catch::Contains("conv1/bias_add:diff = relu_grad(conv1/relu:diff, conv1/relu)"));
  run_pass(maker, "move_relu_grad");
  ir::verify(maker.graph);
  CHECK_THAT(maker.nodes(),
             Catch::Contains("pool1:diff/relu_grad = relu_grad(pool1:diff, pool1): "
                             "float32[2, 3, 3, 3] rows=0\n"
                             "conv1/bias_add:diff = max_pool2d_grad(pool1:diff/relu_grad, "
                             "pool1.argmax)"));
  CHECK(maker.nodes().find("conv1/relu:diff") == std::string::npos);
}

TEST_CASE("The gradient that moving leaves aside becomes a tap where it is watched", "[passes]") {
  GraphMaker maker;
  maker.minimize(convolved(maker));
  maker.context.training->gradients_of = {maker.graph.find("conv1")};
  maker.run_passes("move_relu_grad");
  CHECK_THAT(maker.nodes(), Catch::Contains("tap conv1/relu:diff = max_pool2d_grad(pool1:diff, "
                                            "pool1.argmax)"));
  CHECK_THAT(maker.nodes(), Catch::Contains("pool1:diff/relu_grad = relu_grad"));
}

TEST_CASE("The rectifier's gradient stays where pooling reads something else", "[passes]") {
  GraphMaker maker;
  const ValueId x = maker.input("x", {2, 4});
  const ValueId y = dense(maker, "a", x, true);
  const ValueId image = maker.add("reshape", "image", {y}, {{"shape", Integers{2, 1, 2, 2}}});
  maker.minimize(maker.add("max_pool2d", "pool", {image}, {{"ksize", Integers{2}}}));
  maker.run_passes("move_relu_grad");
  CHECK(maker.nodes().find("pool:diff/relu_grad") == std::string::npos);
}

TEST_CASE("A rectifier's gradient stays where another value was pooled", "[passes]") {
  for (const bool same : {false, true}) {
    GraphMaker maker;
    const ValueId a = maker.add("relu", "a", {maker.input("x", {2, 1, 4, 4})});
    const ValueId b = maker.add("relu", "b", {maker.input("z", {2, 1, 4, 4})});
    const Integers two{2, 2};
    maker.add("max_pool2d", "pool", {a}, {{"ksize", two}});
    const ValueId unpooled =
        maker.add("max_pool2d_grad", "unpooled",
                  {maker.input("d", {2, 1, 2, 2}), maker.graph.find("pool.argmax")},
                  {{"ksize", two},
                   {"strides", two},
                   {"padding", std::string("valid")},
                   {"input_shape", Integers{2, 1, 4, 4}}});
    maker.graph.results = {maker.add("relu_grad", "masked", {unpooled, same ? a : b})};
    run_pass(maker, "move_relu_grad");
    ir::verify(maker.graph);
    CAPTURE(maker.nodes());
    CHECK((maker.nodes().find("masked = relu_grad(unpooled, b)") == std::string::npos) == same);
  }
}

TEST_CASE("The rectifier's gradient stays where pooling's is read elsewhere too", "[passes]") {
  GraphMaker maker;
  maker.minimize(convolved(maker));
  maker.run_passes("remove_dead");
  maker.graph.results.push_back(maker.add("relu", "second", {maker.graph.find("conv1/relu:diff")}));
  run_pass(maker, "move_relu_grad");
  ir::verify(maker.graph);
  CHECK(maker.nodes().find("pool1:diff/relu_grad") == std::string::npos);
}

TEST_CASE("A masked gradient that has a second reader is not fused away", "[passes]") {
  GraphMaker maker;
  const ValueId x = maker.input("x", {8, 4});
  const ValueId norm = maker.layer("batch_normalization", "norm", dense(maker, "a", x));
  maker.minimize(maker.add("relu", "y", {norm}));
  maker.run_passes("move_relu_grad");
  const ValueId masked = maker.graph.find(maker.graph[norm].name + ":diff");
  REQUIRE(masked.valid());
  const std::string operand = GENERATE("none", "first", "second");
  if (operand == "first") maker.graph.results.push_back(maker.add("sigmoid", "reader", {masked}));
  if (operand == "second")
    maker.graph.results.push_back(
        maker.add("add", "reader", {maker.variable("other", {8, 4}), masked}));
  CAPTURE(operand, maker.nodes());
  run_pass(maker, "fuse_relu_grad");
  ir::verify(maker.graph);
  const bool fused = operand == "none";
  CHECK((maker.nodes().find("relu_grad(") == std::string::npos) == fused);
  CHECK((maker.nodes().find("rectified=true") != std::string::npos) == fused);
}

TEST_CASE("A masked gradient is fused onto the gradient of its own normalization only",
          "[passes]") {
  const std::string reads = GENERATE("its own", "another", "another device");
  GraphMaker maker;
  const ValueId gamma = maker.variable("gamma", {4}), beta = maker.variable("beta", {4});
  const ValueId x = maker.input("x", {8, 4}), z = maker.input("z", {8, 4});
  const ValueId a = maker.add("batch_norm", "a", {x, gamma, beta});
  maker.add("batch_norm", "b", {z, gamma, beta});
  if (reads == "another device") maker.builder.place_on(plan::DeviceKind::kGpu);
  const ValueId y = maker.add("relu", "y", {a});
  const ValueId masked = maker.add("relu_grad", "masked", {maker.input("d", {8, 4}), y});
  const bool own = reads != "another";
  const std::string norm = own ? "a" : "b";
  maker.graph.results = {
      maker.add("batch_norm_grad_affine", "affine",
                {masked, own ? x : z, gamma, beta, maker.graph.find(norm + ".mean"),
                 maker.graph.find(norm + ".variance")})};
  run_pass(maker, "fuse_relu_grad");
  ir::verify(maker.graph);
  CAPTURE(reads, maker.nodes());
  CHECK((maker.nodes().find("rectified=true") != std::string::npos) == (reads == "its own"));
}

TEST_CASE("A second relu is not fused onto the first", "[passes]") {
  GraphMaker maker;
  const ValueId x = maker.input("x", {8, 4});
  const ValueId y = dense(maker, "a", x, true);
  maker.graph.results = {maker.add("relu", "again", {y})};
  maker.run_passes();
  CHECK_THAT(maker.nodes(), Catch::Contains("again = relu(a/relu)"));
}

TEST_CASE("bias_add and relu are fused onto the convolution", "[passes]") {
  GraphMaker maker;
  maker.graph.results = {convolved(maker)};
  maker.run_passes();
  CHECK(maker.nodes() ==
        "conv1/relu = convolution(x, conv1/weight) dilation=[1, 1] groups=1 padding=[0, 0, 0, 0] "
        "strides=[1, 1]: float32[2, 3, 6, 6] rows=0\n"
        "  + bias_add(conv1/bias) axis=1\n"
        "  + relu()\n"
        "pool1, pool1.argmax = max_pool2d(conv1/relu) ksize=[2, 2] padding=[0, 0, 0, 0] "
        "strides=[2, 2]: float32[2, 3, 3, 3] rows=0, uint8[2, 3, 3, 3] rows=0\n");
}

TEST_CASE("A value that is returned or read elsewhere is not fused away", "[passes]") {
  GraphMaker maker;
  const ValueId x = maker.input("x", {8, 4});
  const ValueId y = dense(maker, "a", x, true);
  SECTION("returned") { maker.graph.results = {y, maker.graph.find("a/matmul")}; }
  SECTION("read") {
    maker.graph.results = {maker.add("add", "sum", {y, maker.graph.find("a/matmul")})};
  }
  maker.run_passes();
  CHECK(maker.nodes().find("  +") == std::string::npos);
}

TEST_CASE("What hooks alone read of a product is not fused onto it", "[passes]") {
  GraphMaker maker;
  const ValueId y =
      maker.add("matmul", "y", {maker.input("x", {8, 4}), maker.variable("w", {4, 4})});
  const ValueId seen = maker.add("relu", "seen", {y});
  maker.graph.results = {maker.add("sigmoid", "z", {y})};
  maker.graph.watched = {seen};
  maker.run_passes();
  CHECK(maker.nodes().find("  +") == std::string::npos);
  CHECK_THAT(maker.nodes(), Catch::Contains("tap seen = relu(y)"));
}

TEST_CASE("A static loss scale is undone by the update", "[passes]") {
  GraphMaker maker;
  maker.minimize(dense(maker, "a", maker.input("x", {8, 4})));
  maker.context.training->loss_scale = passes::LossScale{.initial = 8};
  maker.run_passes();
  CHECK_THAT(maker.nodes(), Catch::Contains("a/matmul:diff = fill() dtype=float32 shape=[8, 4] "
                                            "value=8"));
  CHECK_THAT(maker.nodes(), Catch::Contains("sgd_update(a/weight) rate_scale=1 scale=0.00390625"));
}

TEST_CASE("In mixed precision what is returned is not rounded", "[passes]") {
  GraphMaker maker;
  maker.context.low_precision = DType::kBFloat16;
  const ValueId conv = convolved(maker);
  const ValueId flat = maker.add("reshape", "flat", {conv}, {{"shape", Integers{2, 27}}});
  const ValueId y = maker.add("matmul", "y", {flat, maker.variable("v", {27, 5})});
  maker.graph.results = {y, conv};
  maker.run_passes("low_precision_products");
  CHECK_THAT(maker.nodes(), Catch::Contains("pool1:bfloat16 = cast(pool1)"));
}

TEST_CASE("A cast is raised over a pool's gradient, but not where windows overlap", "[passes]") {
  GraphMaker maker;
  maker.context.low_precision = DType::kBFloat16;
  const Integers size = GENERATE(Integers{2, 2}, Integers{3, 3}, Integers{2, 3}, Integers{3, 2});
  const auto convolution = [&](const char* name, ValueId in) {
    return maker.layer("conv2d", name, in, {{"filters", int64_t{3}}, {"kernel_size", Integers{2}}});
  };
  const ValueId x = maker.input("x", {2, 1, 9, 9});
  const ValueId pool = maker.add("max_pool2d", "pool", {convolution("a", x)},
                                 {{"ksize", size}, {"strides", Integers{2}}});
  maker.minimize(convolution("b", pool));
  maker.run_passes("low_precision_products");
  CAPTURE(maker.nodes());
  const std::string nodes = maker.nodes();
  const size_t at = nodes.find(" = max_pool2d_grad(");
  REQUIRE(at != std::string::npos);
  const std::string made = nodes.substr(at, nodes.find('\n', at) - at);
  CHECK_THAT(made, Catch::Contains(size == Integers{2, 2} ? ": bfloat16[2, 3, 8, 8]"
                                                          : ": float32[2, 3, 8, 8]"));
}

TEST_CASE("A cast stands before a product that hooks alone read, too", "[passes]") {
  GraphMaker maker;
  maker.context.low_precision = DType::kBFloat16;
  const ValueId x = maker.input("x", {8, 4});
  const ValueId seen = maker.add("matmul", "seen", {x, maker.variable("v", {4, 4})});
  maker.graph.results = {maker.add("matmul", "y", {x, maker.variable("w", {4, 4})})};
  maker.graph.watched = {seen};
  maker.run_passes("low_precision_products");
  ir::verify(maker.graph);
  CHECK(maker.nodes().find("x:bfloat16") < maker.nodes().find("tap seen"));
}

TEST_CASE("What is kept in 16 bits is widened for each reader, right before it", "[passes]") {
  GraphMaker maker;
  const ValueId w = maker.variable("w", {4, 4}, false);
  maker.graph.variables.back().stored = DType::kBFloat16;
  const ValueId x = maker.input("x", {8, 4});
  const ValueId a = maker.add("matmul", "a", {x, w});
  maker.graph.results = {maker.add("matmul", "b", {a, w})};
  SECTION("float32") {
    maker.run_passes("widen_variables");
    CHECK(maker.nodes() ==
          "w:float32 = cast(w) dtype=float32: float32[4, 4]\n"
          "a = matmul(x, w:float32) transpose_a=false transpose_b=false: float32[8, 4] rows=0\n"
          "w:float32.2 = cast(w) dtype=float32: float32[4, 4]\n"
          "b = matmul(a, w:float32.2) transpose_a=false transpose_b=false: float32[8, 4] rows=0\n");
  }
  SECTION("mixed precision reads it as it is") {
    maker.context.low_precision = DType::kBFloat16;
    maker.run_passes("widen_variables");
    CHECK_THAT(maker.nodes(), Catch::Contains(" = matmul(x:bfloat16, w)"));
    CHECK_THAT(maker.nodes(), Catch::Contains(", w) transpose_a=false transpose_b=false: float32"));
    CHECK(maker.nodes().find("cast(w)") == std::string::npos);
  }
  SECTION("mixed precision of another dtype rounds it once for all readers") {
    maker.context.low_precision = DType::kFloat16;
    maker.run_passes("widen_variables");
    CHECK_THAT(maker.nodes(), Catch::Contains("w:float16 = cast(w) dtype=float16"));
    CHECK(maker.nodes().find("dtype=float32") == std::string::npos);
  }
}

TEST_CASE("Slices of what is kept in 16 bits are gathered first and widened then", "[passes]") {
  GraphMaker maker;
  const ValueId w = maker.variable("w", {9, 4}, false);
  maker.graph.variables.back().stored = DType::kFloat16;
  const ValueId rows = maker.add("gather", "rows", {w, maker.input("i", {5}, DType::kInt32)});
  maker.graph.results = {maker.add("relu", "y", {rows})};
  maker.run_passes("widen_variables");
  CHECK(maker.nodes() ==
        "rows:float16 = gather(w, i) axis=0: float16[5, 4] rows=0\n"
        "rows = cast(rows:float16) dtype=float32: float32[5, 4] rows=0\n"
        "y = relu(rows): float32[5, 4] rows=0\n");
}

TEST_CASE("A bias along another axis, or made later, is not fused", "[passes]") {
  GraphMaker maker;
  const ValueId x = maker.input("x", {4, 4});
  const ValueId product = maker.add("matmul", "product", {x, maker.variable("w", {4, 4})});
  SECTION("axis") {
    maker.graph.results = {
        maker.add("bias_add", "y", {product, maker.variable("b", {4})}, {{"axis", int64_t{0}}})};
  }
  SECTION("later") {
    const ValueId b = maker.add("relu", "b", {maker.variable("v", {4})});
    maker.graph.results = {maker.add("bias_add", "y", {product, b})};
  }
  maker.run_passes();
  CHECK(maker.nodes().find("  +") == std::string::npos);
}

TEST_CASE("The update is fused onto the product that makes the gradient", "[passes]") {
  GraphMaker maker;
  maker.minimize(dense(maker, "b", dense(maker, "a", maker.input("x", {8, 4}))));
  maker.run_passes();
  CHECK_THAT(maker.nodes(),
             Catch::Contains("b/weight:update = matmul(b/matmul:diff, a/matmul) transpose_a=true "
                             "transpose_b=false: float32[4, 4]\n"
                             "  + sgd_update(b/weight) rate_scale=1 scale=0.03125\n"
                             "a/weight:update = matmul(a/matmul:diff, x) transpose_a=true "
                             "transpose_b=false: float32[4, 4]\n"
                             "  + sgd_update(a/weight) rate_scale=1 scale=0.03125\n"));
}

TEST_CASE("Clipping and regularizers stand between a gradient and its update", "[passes]") {
  GraphMaker maker;
  maker.minimize(dense(maker, "b", dense(maker, "a", maker.input("x", {8, 4}))));
  SECTION("clipping") {
    maker.context.training->clip_norm = 2;
    maker.run_passes();
    CHECK_THAT(
        maker.nodes(),
        Catch::EndsWith("minimize/clip_factor, minimize/clip_factor.norm = "
                        "clip_factor(a/weight:diff, b/weight:diff) "
                        "clip_norm=2 scale=0.03125: float32[] mixed, float32[] mixed\n"
                        "a/weight:update = sgd_update(a/weight:diff, a/weight, "
                        "minimize/clip_factor) rate_scale=1 scale=0.03125: float32[4, 4]\n"
                        "b/weight:update = sgd_update(b/weight:diff, b/weight, "
                        "minimize/clip_factor) rate_scale=1 scale=0.03125: float32[4, 4]\n"));
    CHECK(maker.nodes().find("  + sgd_update") == std::string::npos);
  }
  SECTION("clipping of each element") {
    maker.context.training->clip_value = 2;
    maker.run_passes();
    CHECK_THAT(maker.nodes(),
               Catch::Contains("a/weight:clipped = clip_by_value(a/weight:diff) max=64 min=-64: "
                               "float32[4, 4] mixed\n"
                               "a/weight:update = sgd_update(a/weight:clipped, a/weight) "
                               "rate_scale=1 scale=0.03125: float32[4, 4]\n"));
    CHECK(maker.nodes().find("  + sgd_update") == std::string::npos);
  }
  SECTION("clipping of each element under a dynamic scale") {
    maker.context.training->clip_value = 2;
    maker.context.training->loss_scale = passes::LossScale{.initial = 1024, .dynamic = true};
    maker.run_passes();
    // What is not finite is found before it is clipped.
    CHECK_THAT(maker.nodes(),
               Catch::Contains("unscale_factor(/loss_scale, a/weight:diff, b/weight:diff)"));
    CHECK_THAT(maker.nodes(), Catch::Contains("clip_by_value(a/weight:clipped.unscaled) max=64"));
    CHECK_THAT(
        maker.nodes(),
        Catch::Contains("a/weight:clipped = multiply(a/weight:clipped.changed, /loss_scale"));
  }
  SECTION("a regularizer, of one variable") {
    maker.graph.variables[0].l2 = 0.5;
    maker.run_passes();
    CHECK_THAT(maker.nodes(),
               Catch::EndsWith("a/weight:regularized = regularize(a/weight:diff, a/weight) l1=0 "
                               "l2=16: float32[4, 4] mixed\n"
                               "a/weight:update = sgd_update(a/weight:regularized, a/weight) "
                               "rate_scale=1 scale=0.03125: float32[4, 4]\n"));
    CHECK_THAT(maker.nodes(), Catch::Contains("  + sgd_update(b/weight)"));
    const ValueId weight = maker.graph.find("a/weight");
    CHECK(maker.graph.gradient_of(weight) == maker.graph.find("a/weight:diff"));
  }
}

TEST_CASE("Several losses have gradients of their sum, and their means add", "[passes]") {
  GraphMaker maker;
  const ValueId a = dense(maker, "a", maker.input("x", {8, 4}));
  const ValueId b = maker.add("relu", "b", {a});
  maker.minimize(a);
  maker.context.training->losses.push_back({b, "b", Span()});
  CHECK(maker.context.training->loss_name() == "a/matmul + b");
  maker.run_passes("add_updates");
  CHECK_THAT(maker.nodes(),
             Catch::Contains("a/matmul:diff = add(a/matmul:diff.1, a/matmul:diff.2)"));
  CHECK_THAT(maker.nodes(), Catch::Contains("minimize/mean_loss = add(minimize/mean_loss.part1, "
                                            "minimize/mean_loss.part2): float32[]"));
  CHECK(maker.graph[maker.context.mean_loss].name == "minimize/mean_loss");
}

TEST_CASE("Weight decay is for the variables that decay", "[passes]") {
  GraphMaker maker;
  maker.minimize(dense(maker, "b", dense(maker, "a", maker.input("x", {8, 4}))));
  passes::Training& training = *maker.context.training;
  training.update = "adam_update";
  for (const char* name : {"beta1", "beta2", "epsilon"}) training.attributes.set(name, 0.5);
  REQUIRE(training.variables[0] == maker.graph.find("a/weight"));
  training.weight_decays[0] = 0.25;
  maker.run_passes();
  CHECK_THAT(maker.nodes(),
             Catch::Contains("adam_update(a/weight:diff, a/weight, a/weight/m, "
                             "a/weight/v) beta1=0.5 beta2=0.5 bias_correction=true "
                             "epsilon=0.5 rate_scale=1 scale=0.03125 weight_decay=0.25"));
  CHECK_THAT(maker.nodes(),
             Catch::Contains("adam_update(b/weight:diff, b/weight, b/weight/m, "
                             "b/weight/v) beta1=0.5 beta2=0.5 bias_correction=true "
                             "epsilon=0.5 rate_scale=1 scale=0.03125 weight_decay=0:"));
}

TEST_CASE("An update of a shared variable, or one read after its gradient, stands apart",
          "[passes]") {
  GraphMaker maker;
  const ValueId x = maker.input("x", {8, 4});
  const ValueId w = maker.variable("w", {4, 4});
  SECTION("shared") {
    maker.minimize(maker.add("matmul", "y", {maker.add("matmul", "h", {x, w}), w}));
  }
  SECTION("read later") {
    // b's gradient is made from a, which is made from w: a's gradient reads w after w's own.
    const ValueId y = maker.add("matmul", "y", {x, w});
    maker.minimize(y);
    const ValueId returned = maker.add("multiply", "returned", {w, w});
    maker.graph.results = {returned};
    maker.run_passes("add_updates");
    // Behind the gradient, as a pass might leave it.
    std::vector<ir::Node> nodes = maker.graph.nodes;
    const auto read = std::find_if(nodes.begin(), nodes.end(),
                                   [](const ir::Node& node) { return node.name == "returned"; });
    std::rotate(read, read + 1, nodes.end() - 1);
    maker.graph.set_nodes(nodes);
    ir::verify(maker.graph);
    run_pass(maker, "fuse_updates");
    ir::verify(maker.graph);
  }
  if (!maker.graph.find("w:update").valid()) maker.run_passes();
  CHECK(maker.nodes().find("  + sgd_update") == std::string::npos);
  CHECK_THAT(maker.nodes(), Catch::Contains("w:update = sgd_update(w:diff, w)"));
}

TEST_CASE("A product that updates a variable comes before updates of what it reads", "[passes]") {
  GraphMaker maker;
  const ValueId v = maker.variable("v", {8, 4}), w = maker.variable("w", {4, 4});
  maker.minimize(maker.add("matmul", "y", {v, w}));
  SECTION("alone") { maker.run_passes(); }
  SECTION("moved behind a tap") {
    maker.graph.watched = {maker.add("multiply", "seen", {w, w})};
    maker.run_passes("add_updates");
    std::vector<ir::Node> nodes = maker.graph.nodes;
    const auto seen = std::ranges::find(nodes, "seen", &ir::Node::name);
    REQUIRE(seen != nodes.end());
    seen->probe = true;
    std::rotate(seen, seen + 1, nodes.end() - 1);  // before the last update
    maker.graph.set_nodes(nodes);
    run_pass(maker, "fuse_updates");
    ir::verify(maker.graph);
  }
  const std::string nodes = maker.nodes();
  INFO(nodes);
  const size_t product = nodes.find("w:update = matmul(v, y:diff)");
  const size_t update = nodes.find("v:update = sgd_update(v:diff, v)");
  REQUIRE(product != nodes.npos);
  REQUIRE(update != nodes.npos);
  CHECK(product < update);
}

TEST_CASE("Watching changes neither order nor fusion of the main path", "[passes]") {
  const auto main_path = [](bool watch) {
    GraphMaker maker;
    const ValueId pool1 = convolved(maker);
    const ValueId flat = maker.layer("flatten", "flat", pool1);
    const ValueId y = dense(maker, "b", dense(maker, "a", flat, true));
    maker.minimize(y);
    if (watch) {
      for (const ir::Value& value : maker.graph.values)
        maker.graph.watched.push_back(maker.graph.find(value.name));
      maker.context.training->gradients_of = maker.graph.watched;
      std::erase_if(maker.context.training->gradients_of,
                    [&](ValueId id) { return maker.graph[id].dtype != DType::kFloat32; });
    }
    maker.run_passes();
    std::string text;
    for (ir::Node& node : maker.graph.nodes)
      if (!node.probe) text += node.name + " " + std::to_string(node.epilogue.size()) + "\n";
    return text;
  };
  CHECK(main_path(true) == main_path(false));
}

TEST_CASE("A pass's graph is appended to the dump", "[passes]") {
  GraphMaker maker;
  maker.minimize(dense(maker, "a", maker.input("x", {8, 4})));
  std::string dump;
  passes::run_pipeline(maker.graph, maker.context, maker.diags, true, "autodiff", &dump);
  CHECK_THAT(dump, Catch::StartsWith("input x: float32[8, 4] rows=0\nvariable a/weight"));
  CHECK(dump.find("sgd_update") == std::string::npos);
}

}  // namespace flow::test
