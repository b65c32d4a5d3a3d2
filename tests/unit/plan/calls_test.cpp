// The list of records, and the shape rules of products, windows and layers, by example.
#include <catch2/catch.hpp>

#include "ops/core/spec.h"
#include "tests/unit/plan/call_results.h"

using namespace flow;
using namespace flow::plan;
using namespace flow::plan::sample;

namespace {

Entries windows(Integers strides, Integers padding, Entries more) {
  more.emplace_back("strides", std::move(strides));
  more.emplace_back("padding", std::move(padding));
  return more;
}
Entries convolution(Integers strides, Integers padding, Integers dilation, int64_t groups) {
  return windows(std::move(strides), std::move(padding),
                 {{"dilation", std::move(dilation)}, {"groups", groups}});
}

}  // namespace

TEST_CASE("operands that kernels may overwrite are those that records name", "[plan]") {
  CHECK_FALSE(ops::find_spec("convolution")->may_overwrite(0));
  CHECK(ops::find_spec("relu_grad")->may_overwrite(1));
}

TEST_CASE("operands that may be left out, or be many, are the last of their op", "[plan]") {
  for (const ops::OpSpec* spec : ops::all_specs()) {
    INFO(spec->name);
    bool last = false;
    for (const ops::OperandSpec& operand : spec->operands) {
      CHECK((!last || operand.optional));
      last = last || operand.optional || operand.variadic;
    }
    for (size_t i = 0; i + 1 < spec->results.size(); ++i) CHECK_FALSE(spec->results[i].variadic);
  }
}

TEST_CASE("matrix products: leading dimensions broadcast, each side may be transposed", "[plan]") {
  const auto flags = [](bool a, bool b) { return Entries{{"transpose_a", a}, {"transpose_b", b}}; };
  CHECK(results_of("matmul", {{F, {3, 4}}, {F, {4, 5}}}, flags(false, false)) ==
        Results{{F, {3, 5}}});
  CHECK(results_of("matmul", {{F, {4, 3}}, {F, {5, 4}}}, flags(true, true)) ==
        Results{{F, {3, 5}}});
  CHECK(results_of("matmul", {{F, {2, 1, 3, 4}}, {F, {7, 4, 5}}}, flags(false, false)) ==
        Results{{F, {2, 7, 3, 5}}});
  CHECK(refuses("matmul", {{F, {3, 4}}, {F, {3, 5}}}, flags(false, false)));
  CHECK(refuses("matmul", {{F, {4}}, {F, {4, 5}}}, flags(false, false)));
  CHECK(refuses("matmul", {{F, {2, 3, 4}}, {F, {3, 4, 5}}}, flags(false, false)));
}

TEST_CASE("convolutions: groups, strides, pads and dilation decide the shape", "[plan]") {
  const CallOperand x{F, {2, 4, 9, 8}}, w{F, {6, 2, 3, 3}};
  CHECK(results_of("convolution", {x, w}, convolution({2, 1}, {1, 0, 2, 2}, {1, 2}, 2)) ==
        Results{{F, {2, 6, 4, 8}}});
  CHECK(refuses("convolution", {x, w}, convolution({1, 1}, {0, 0, 0, 0}, {1, 1}, 1)));
  CHECK(
      refuses("convolution", {x, {F, {5, 2, 3, 3}}}, convolution({1, 1}, {0, 0, 0, 0}, {1, 1}, 2)));
  CHECK(refuses("convolution", {x, w}, convolution({1, 1}, {0, 0, 0, 0}, {5, 1}, 2)));
  CHECK(refuses("convolution", {x, w}, convolution({0, 1}, {0, 0, 0, 0}, {1, 1}, 2)));
  CHECK(refuses("convolution", {x, w}, convolution({1}, {0, 0, 0, 0}, {1, 1}, 2)));
  CHECK(refuses("convolution", {x, w}, convolution({1, 1}, {0, 0, 0, 0}, {INT64_MAX, 1}, 2)));
  // Products of extents that would overflow.
  CHECK(refuses("convolution", {{F, {1, 1, 9, int64_t{1} << 40}}, {F, {1, 1, 1, int64_t{1} << 40}}},
                convolution({1, 1}, {0, 0, 0, 0}, {1, INT32_MAX}, 1)));
}

TEST_CASE("convolutions' gradients have the shapes of what they are of", "[plan]") {
  const Entries base = convolution({1, 1}, {0, 0, 0, 0}, {1, 1}, 1);
  const auto with = [&](const char* name, Integers shape) {
    Entries entries = base;
    entries.emplace_back(name, std::move(shape));
    return entries;
  };
  const CallOperand x{F, {2, 3, 5, 5}}, w{F, {4, 3, 2, 2}}, dy{F, {2, 4, 4, 4}};
  CHECK(results_of("convolution_grad_data", {dy, w}, with("input_shape", {2, 3, 5, 5})) ==
        Results{{F, {2, 3, 5, 5}}});
  CHECK(refuses("convolution_grad_data", {dy, w}, with("input_shape", {2, 3, 6, 5})));
  CHECK(refuses("convolution_grad_data", {dy, w}, with("input_shape", {2, 3, 5})));
  CHECK(results_of("convolution_grad_weight", {x, dy}, with("weight_shape", {4, 3, 2, 2})) ==
        Results{{F, {4, 3, 2, 2}}});
  CHECK(refuses("convolution_grad_weight", {x, dy}, with("weight_shape", {4, 3, 3, 2})));
}

TEST_CASE("pooling keeps a real element in each window, and places that fit their dtype",
          "[plan]") {
  const auto pool = [](Integers size, Integers strides, Integers padding) {
    return windows(std::move(strides), std::move(padding), {{"ksize", std::move(size)}});
  };
  const CallOperand x{F, {2, 3, 7, 7}};
  CHECK(results_of("max_pool2d", {x}, pool({2, 2}, {2, 2}, {0, 1, 0, 1})) ==
        Results{{F, {2, 3, 4, 4}}, {DType::kUInt8, {2, 3, 4, 4}}});
  CHECK(results_of("max_pool2d", {{F, {1, 1, 40, 40}}}, pool({17, 17}, {8, 8}, {0, 0, 0, 0}))[1]
            .first == DType::kInt32);
  const CallOperand wide{F, {1, 1, 1, 257}};
  CHECK(results_of("max_pool2d", {wide}, pool({1, 256}, {1, 1}, {0, 0, 0, 0}))[1].first ==
        DType::kUInt8);
  CHECK(results_of("max_pool2d", {wide}, pool({1, 257}, {1, 1}, {0, 0, 0, 0}))[1].first ==
        DType::kInt32);
  CHECK(refuses("max_pool2d", {x}, pool({2, 2}, {2, 2}, {2, 0, 0, 0})));
  CHECK(refuses("max_pool2d", {x}, pool({8, 2}, {2, 2}, {0, 0, 0, 0})));
  CHECK(refuses("max_pool2d", {x}, pool({INT32_MAX, INT32_MAX}, {2, 2}, {0, 0, 0, 0})));
  CHECK(refuses("max_pool2d", {{F, {2, 3, 7}}}, pool({2, 2}, {2, 2}, {0, 0, 0, 0})));
  Entries gradient = pool({2, 2}, {2, 2}, {0, 0, 0, 0});
  gradient.emplace_back("input_shape", Integers{2, 3, 7, 7});
  const Shape y{2, 3, 3, 3};
  CHECK(results_of("max_pool2d_grad", {{F, y}, {DType::kUInt8, y}}, gradient) ==
        Results{{F, {2, 3, 7, 7}}});
  CHECK(refuses("max_pool2d_grad", {{F, y}, {I, y}}, gradient));
  CHECK(refuses("max_pool2d_grad", {{F, {2, 3, 4, 3}}, {DType::kUInt8, y}}, gradient));
}

TEST_CASE("average pools have the shapes of maximum pools", "[plan]") {
  const Entries pool = windows({2, 2}, {0, 1, 0, 1}, {{"ksize", Integers{2, 2}}});
  CHECK(results_of("avg_pool2d", {{F, {2, 3, 7, 7}}}, pool) == Results{{F, {2, 3, 4, 4}}});
  Entries gradient = pool;
  gradient.emplace_back("input_shape", Integers{2, 3, 7, 7});
  CHECK(results_of("avg_pool2d_grad", {{F, {2, 3, 4, 4}}}, gradient) == Results{{F, {2, 3, 7, 7}}});
  CHECK(refuses("avg_pool2d_grad", {{F, {2, 3, 3, 4}}}, gradient));
}

TEST_CASE("normalizing primitives take vectors along their axis, or features from it on",
          "[plan]") {
  const Entries along{{"axis", int64_t{1}}, {"epsilon", 1e-3}};
  const CallOperand x{F, {2, 3, 4}}, c{F, {3}}, row{F, {2}}, features{F, {3, 4}}, other{F, {4}};
  CHECK(results_of("batch_norm", {x, c, c}, along) == Results{{F, {2, 3, 4}}, {F, {3}}, {F, {3}}});
  CHECK(refuses("batch_norm", {x, c, other}, along));
  CHECK(refuses("batch_norm", {c, c, c}, along));
  CHECK(refuses("batch_norm", {x, c, c}, {{"axis", int64_t{1}}, {"epsilon", -1e-3}}));
  CHECK(results_of("batch_norm_predict", {x, c, c, c, c}, along) == Results{{F, {2, 3, 4}}});
  CHECK(refuses("batch_norm_predict", {x, c, c, c, other}, along));
  Entries gradient = along;
  gradient.emplace_back("rectified", true);
  CHECK(results_of("batch_norm_grad_affine", {x, x, c, c, c, c}, gradient) ==
        Results{{F, {3}}, {F, {3}}});
  CHECK(refuses("batch_norm_grad_affine", {x, features, c, c, c, c}, gradient));
  CHECK(results_of("batch_norm_grad", {x, x, c, c, c, c, c, c}, gradient) ==
        Results{{F, {2, 3, 4}}});
  CHECK(refuses("batch_norm_grad", {x, x, c, c, c, c, c, row}, gradient));
  for (const ops::Attribute& flag : {ops::Attribute(true), ops::Attribute(int64_t{1})}) {
    Entries forward = along, backward = gradient;
    for (Entries* entries : {&forward, &backward}) entries->emplace_back("synchronized", flag);
    const bool wrong = !std::holds_alternative<bool>(flag);
    CHECK(refuses("batch_norm", {x, c, c}, forward) == wrong);
    CHECK(refuses("batch_norm_grad", {x, x, c, c, c, c, c, c}, backward) == wrong);
    CHECK(refuses("batch_norm_predict", {x, c, c, c, c}, forward));
    CHECK(refuses("batch_norm_grad_affine", {x, x, c, c, c, c}, backward));
  }
  CHECK(results_of("layer_normalize", {x, features, features}, along) ==
        Results{{F, {2, 3, 4}}, {F, {2}}, {F, {2}}});
  CHECK(refuses("layer_normalize", {x, c, c}, along));
  CHECK(results_of("layer_normalize_grad", {x, x, features, row, row}, along) ==
        Results{{F, {2, 3, 4}}, {F, {3, 4}}, {F, {3, 4}}});
  CHECK(refuses("layer_normalize_grad", {x, x, features, row, c}, along));
  CHECK(results_of("rms_normalize", {x, features}, along) == Results{{F, {2, 3, 4}}, {F, {2}}});
  CHECK(refuses("rms_normalize", {x, c}, along));
  const Entries axis{{"axis", int64_t{1}}};
  CHECK(results_of("rms_normalize_grad", {x, x, features, row}, axis) ==
        Results{{F, {2, 3, 4}}, {F, {3, 4}}});
  CHECK(refuses("rms_normalize_grad", {x, x, features, c}, axis));
  const Entries grouped{{"epsilon", 1e-3}, {"groups", int64_t{3}}};
  const CallOperand image{F, {2, 6, 4}}, each{F, {6}}, group{F, {2, 3}};
  CHECK(results_of("group_normalize", {image, each, each}, grouped) ==
        Results{{F, {2, 6, 4}}, {F, {2, 3}}, {F, {2, 3}}});
  CHECK(refuses("group_normalize", {image, each, other}, grouped));
  CHECK(refuses("group_normalize", {each, each, each}, grouped));
  CHECK(
      refuses("group_normalize", {image, each, each}, {{"epsilon", 1e-3}, {"groups", int64_t{4}}}));
  CHECK(
      refuses("group_normalize", {image, each, each}, {{"epsilon", 1e-3}, {"groups", int64_t{0}}}));
  CHECK(results_of("group_normalize_grad", {image, image, each, group, group}, grouped) ==
        Results{{F, {2, 6, 4}}, {F, {6}}, {F, {6}}});
  CHECK(refuses("group_normalize_grad", {image, x, each, group, group}, grouped));
  CHECK(refuses("group_normalize_grad", {image, image, group, group, group}, grouped));
  CHECK(refuses("group_normalize_grad", {image, image, each, group, each}, grouped));
  const Entries moves{{"momentum", 0.9}, {"unbias", 1.5}};
  CHECK(results_of("move_statistics", {c, c, c, c}, moves) == Results{{F, {3}}, {F, {3}}});
  CHECK(refuses("move_statistics", {c, c, c, row}, moves));
}

TEST_CASE("losses take integers and a last axis of classes; updates take equal shapes", "[plan]") {
  const char* const loss = "sparse_softmax_cross_entropy_with_logits";
  const char* const gradient = "sparse_softmax_cross_entropy_with_logits_grad";
  CHECK(results_of(loss, {{DType::kUInt8, {2, 3}}, {F, {2, 3, 5}}}) ==
        Results{{F, {2, 3}}, {F, {2, 3, 5}}});
  CHECK(refuses(loss, {{F, {2}}, {F, {2, 5}}}));
  CHECK(refuses(loss, {{I, {2, 3}}, {F, {3, 2, 5}}}));
  CHECK(refuses(loss, {{I, {}}, {F, {}}}));
  CHECK(results_of(gradient, {{I, {2}}, {F, {2, 5}}, {F, {2}}}) == Results{{F, {2, 5}}});
  CHECK(refuses(gradient, {{I, {2}}, {F, {2, 5}}, {F, {2, 5}}}));
  CHECK(refuses("sgd_update", {{F, {2}}, {F, {3}}}, {{"scale", 1.0}, {"rate_scale", 1.0}}));
  const Entries momentum{{"scale", 1.0},
                         {"rate_scale", 1.0},
                         {"momentum", 0.9},
                         {"nesterov", false},
                         {"weight_decay", 0.0}};
  CHECK(results_of("momentum_update", {{F, {3}}, {F, {3}}, {F, {3}}}, momentum) ==
        Results{{F, {3}}, {F, {3}}});
  CHECK(refuses("momentum_update", {{F, {3}}, {F, {3}}, {F, {1, 3}}}, momentum));
  CHECK(results_of("ema_update", {{F, {3}}, {F, {3}}}, {{"decay", 0.5}}) == Results{{F, {3}}});
  CHECK(refuses("ema_update", {{F, {3}}, {F, {1, 3}}}, {{"decay", 0.5}}));
  CHECK(refuses("ema_update", {{F, {3}}, {F, {3}}}, {{"decay", 1.0}}));
}

TEST_CASE("steps of composed updates take equal shapes, and a scalar", "[plan]") {
  const Entries mean{{"scale", 1.0}, {"beta2_decay", -0.8}};
  CHECK(results_of("adafactor_mean", {{F, {3}}, {F, {3}}, {F, {}}}, mean) == Results{{F, {3}}});
  CHECK(refuses("adafactor_mean", {{F, {3}}, {F, {1, 3}}}, mean));
  const Entries update{{"scale", 1.0},    {"rate_scale", 1.0},     {"epsilon1", 0.5},
                       {"epsilon2", 0.5}, {"clip_threshold", 1.0}, {"weight_decay", 0.0}};
  const CallOperand matrix{F, {2, 3}};
  CHECK(results_of("adafactor_update", {matrix, matrix, matrix, {F, {}}}, update) ==
        Results{{F, {2, 3}}});
  CHECK(refuses("adafactor_update", {matrix, matrix, {F, {2, 1}}}, update));
  CHECK(refuses("adafactor_update", {matrix, matrix, matrix, {F, {1}}}, update));
  const Entries direction{{"scale", 1.0}, {"momentum", 0.5}, {"nesterov", true}};
  CHECK(results_of("muon_direction", {matrix, matrix}, direction) ==
        Results{{F, {2, 3}}, {F, {2, 3}}});
  CHECK(refuses("muon_direction", {matrix, {F, {3, 2}}}, direction));
  CHECK(refuses("muon_direction", {matrix, matrix, matrix}, direction));
  const Entries polynomial{{"a", 1.0}, {"b", 1.0}, {"c", 1.0}};
  const CallOperand square{F, {3, 3}};
  CHECK(results_of("muon_polynomial", {square, square}, polynomial) == Results{{F, {3, 3}}});
  CHECK(refuses("muon_polynomial", {matrix, matrix}, polynomial));
  CHECK(refuses("muon_polynomial", {square, {F, {9}}}, polynomial));
  CHECK(refuses("muon_polynomial", {{F, {9}}, {F, {9}}}, polynomial));
  CHECK(refuses("muon_update", {matrix, {F, {6}}},
                {{"scale", 1.0}, {"rate_scale", 1.0}, {"weight_decay", 0.0}}));
  CHECK(results_of("lookahead_start", {matrix, matrix}, {{"steps", int64_t{5}}}) ==
        Results{{F, {2, 3}}});
  CHECK(refuses("lookahead_start", {matrix, {F, {3, 2}}}, {{"steps", int64_t{5}}}));
  CHECK(refuses("lookahead_update", {matrix, matrix}, {{"steps", int64_t{0}}, {"alpha", 0.5}}));
}

TEST_CASE("a sparse gradient has a row for each index", "[plan]") {
  const DType kLong = DType::kInt64;
  const Entries extent{{"extent", int64_t{9}}}, sgd{{"scale", 1.0}, {"rate_scale", 1.0}};
  const Entries adagrad{{"scale", 1.0}, {"rate_scale", 1.0}, {"epsilon", 1e-10}};
  CHECK(results_of("sparse_gather_grad", {{I, {4}}, {F, {4, 3}}}, extent) ==
        Results{{F, {4, 3}}, {kLong, {4}}});
  CHECK(refuses("sparse_gather_grad", {{I, {4}}, {F, {3, 3}}}, extent));
  CHECK(refuses("sparse_gather_grad", {{I, {2, 2}}, {F, {2, 2, 3}}}, extent));
  CHECK(results_of("sparse_sgd_update", {{F, {4, 3}}, {F, {9, 3}}, {kLong, {4}}, {F, {}}}, sgd) ==
        Results{{F, {9, 3}}});
  CHECK(refuses("sparse_sgd_update", {{F, {4, 3}}, {F, {9, 2}}, {kLong, {4}}}, sgd));
  CHECK(refuses("sparse_sgd_update", {{F, {4, 3}}, {F, {9, 3}}, {kLong, {3}}}, sgd));
  CHECK(refuses("sparse_sgd_update", {{F, {4, 3}}, {F, {9, 3}}, {I, {4}}}, sgd));
  CHECK(refuses("sparse_sgd_update", {{F, {4, 3}}, {F, {9, 3}}, {kLong, {4}}, {F, {1}}}, sgd));
  CHECK(results_of("sparse_adagrad_update", {{F, {4, 3}}, {F, {9, 3}}, {F, {9, 3}}, {kLong, {4}}},
                   adagrad) == Results{{F, {9, 3}}, {F, {9, 3}}});
  CHECK(refuses("sparse_adagrad_update", {{F, {4, 3}}, {F, {9, 3}}, {F, {4, 3}}, {kLong, {4}}},
                adagrad));
}

TEST_CASE("clipped updates take a scalar more, norms any number of gradients", "[plan]") {
  CHECK(results_of("sgd_update", {{F, {3}}, {F, {3}}, {F, {}}},
                   {{"scale", 1.0}, {"rate_scale", 1.0}}) == Results{{F, {3}}});
  CHECK(
      refuses("sgd_update", {{F, {3}}, {F, {3}}, {F, {3}}}, {{"scale", 1.0}, {"rate_scale", 1.0}}));
  CHECK(refuses("sgd_update", {{F, {3}}, {F, {3}}, {F, {}}, {F, {}}},
                {{"scale", 1.0}, {"rate_scale", 1.0}}));
  CHECK(refuses("sgd_update", {{F, {3}}}, {{"scale", 1.0}, {"rate_scale", 1.0}}));
  const Entries adam{{"scale", 1.0},       {"rate_scale", 1.0}, {"beta1", 0.9},
                     {"beta2", 0.999},     {"epsilon", 1e-8},   {"bias_correction", true},
                     {"weight_decay", 0.0}};
  CHECK(results_of("adam_update", {{F, {3}}, {F, {3}}, {F, {3}}, {F, {3}}, {F, {}}}, adam) ==
        Results{{F, {3}}, {F, {3}}, {F, {3}}});
  Entries whole = adam;
  whole[2].second = 1.0;
  CHECK(refuses("adam_update", {{F, {3}}, {F, {3}}, {F, {3}}, {F, {3}}}, whole));
  const Entries norm{{"scale", 1.0}, {"clip_norm", 2.0}};
  CHECK(results_of("clip_factor", {{F, {3}}, {F, {}}, {F, {4, 5}}}, norm) ==
        Results{{F, {}}, {F, {}}});
  CHECK(refuses("clip_factor", {}, norm));
  CHECK(refuses("clip_factor", {{F, {3}}}, {{"scale", 1.0}, {"clip_norm", -1.0}}));
}
