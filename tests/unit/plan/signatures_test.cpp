// The shape rules of the plan check, by example, and the list itself.
#include <catch2/catch.hpp>
#include <set>

#include "runtime/base/error.h"
#include "runtime/plan/signature.h"
#include "tests/unit/plan/sample.h"

using namespace flow;
using namespace flow::plan;

namespace {

using Integers = std::vector<int64_t>;
using Entries = std::vector<Attributes::Entry>;
using Results = std::vector<std::pair<DType, Shape>>;

constexpr DType F = DType::kFloat32, I = DType::kInt32, B = DType::kBool;

struct Operand {
  DType dtype;
  Shape shape;
};

Results results_of(std::string_view op, const std::vector<Operand>& operands,
                   const Entries& entries = {}, DType number = F) {
  std::vector<Tensor> tensors(operands.size());
  std::vector<const Tensor*> pointers;
  for (size_t i = 0; i < operands.size(); ++i) {
    tensors[i].dtype = operands[i].dtype;
    tensors[i].shape = operands[i].shape;
    pointers.push_back(&tensors[i]);
  }
  const std::string path = "a.plan";
  const Site site(path);
  const Attributes attributes = sample::attributes_of(entries);
  return check_call(*find_signature(op), Call(site, pointers, attributes, number));
}

bool refuses(std::string_view op, const std::vector<Operand>& operands,
             const Entries& entries = {}) {
  try {
    results_of(op, operands, entries);
    return false;
  } catch (const RequestError&) {
    return true;
  }
}

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

TEST_CASE("each kernel has a signature and each signature a kernel") {
  std::set<std::string_view> kernels = {
#define FLOW_CPU_KERNEL(op, layouts) #op,
#include "runtime/cpu/kernels.def"
#undef FLOW_CPU_KERNEL
  };
  std::set<std::string_view> signatures;
  for (const Signature& signature : all_signatures()) signatures.insert(signature.op);
  CHECK(signatures == kernels);
  CHECK(find_signature("convolution")->may_overwrite(0) == false);
  CHECK(find_signature("relu_grad")->may_overwrite(1));
}

TEST_CASE("operands that may be left out, or be many, are the last of their op") {
  for (const Signature& signature : all_signatures()) {
    INFO(signature.op);
    bool last = false;
    for (const Signature::Part& operand : signature.operands) {
      CHECK((!last || operand.optional));
      last = last || operand.optional || operand.variadic;
    }
    for (size_t i = 0; i + 1 < signature.results.size(); ++i)
      CHECK_FALSE(signature.results[i].ends_with('*'));
  }
}

TEST_CASE("matrix products: leading dimensions broadcast, each side may be transposed") {
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

TEST_CASE("convolutions: groups, strides, pads and dilation decide the shape") {
  const Operand x{F, {2, 4, 9, 8}}, w{F, {6, 2, 3, 3}};
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

TEST_CASE("convolutions' gradients have the shapes of what they are of") {
  const Entries base = convolution({1, 1}, {0, 0, 0, 0}, {1, 1}, 1);
  const auto with = [&](const char* name, Integers shape) {
    Entries entries = base;
    entries.emplace_back(name, std::move(shape));
    return entries;
  };
  const Operand x{F, {2, 3, 5, 5}}, w{F, {4, 3, 2, 2}}, dy{F, {2, 4, 4, 4}};
  CHECK(results_of("convolution_grad_data", {dy, w}, with("input_shape", {2, 3, 5, 5})) ==
        Results{{F, {2, 3, 5, 5}}});
  CHECK(refuses("convolution_grad_data", {dy, w}, with("input_shape", {2, 3, 6, 5})));
  CHECK(refuses("convolution_grad_data", {dy, w}, with("input_shape", {2, 3, 5})));
  CHECK(results_of("convolution_grad_weight", {x, dy}, with("weight_shape", {4, 3, 2, 2})) ==
        Results{{F, {4, 3, 2, 2}}});
  CHECK(refuses("convolution_grad_weight", {x, dy}, with("weight_shape", {4, 3, 3, 2})));
}

TEST_CASE("pooling keeps a real element in each window, and places that fit their dtype") {
  const auto pool = [](Integers size, Integers strides, Integers padding) {
    return windows(std::move(strides), std::move(padding), {{"ksize", std::move(size)}});
  };
  const Operand x{F, {2, 3, 7, 7}};
  CHECK(results_of("max_pool2d", {x}, pool({2, 2}, {2, 2}, {0, 1, 0, 1})) ==
        Results{{F, {2, 3, 4, 4}}, {DType::kUInt8, {2, 3, 4, 4}}});
  CHECK(results_of("max_pool2d", {{F, {1, 1, 40, 40}}}, pool({17, 17}, {8, 8}, {0, 0, 0, 0}))[1]
            .first == DType::kInt32);
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

TEST_CASE("elementwise primitives broadcast where the list says so") {
  CHECK(results_of("add", {{F, {2, 1, 4}}, {F, {3, 1}}}) == Results{{F, {2, 3, 4}}});
  CHECK(results_of("multiply", {{I, {3}}, {I, {}}}) == Results{{I, {3}}});
  CHECK(refuses("add", {{F, {2}}, {F, {3}}}));
  CHECK(refuses("add", {{F, {2}}, {I, {2}}}));
  CHECK(refuses("add", {{B, {2}}, {B, {2}}}));
  CHECK(results_of("equal", {{I, {2}}, {DType::kInt64, {2}}}) == Results{{B, {2}}});
  CHECK(results_of("equal", {{B, {2}}, {B, {2}}}) == Results{{B, {2}}});
  CHECK(refuses("equal", {{F, {2}}, {I, {2}}}));
  CHECK(refuses("equal", {{DType::kFloat16, {2}}, {DType::kFloat16, {2}}}));
  CHECK(refuses("relu_grad", {{F, {2, 1}}, {F, {2}}}));
  CHECK(refuses("relu", {{I, {2}}}));
  CHECK(results_of("relu", {{DType::kFloat64, {2}}}, {}, DType::kFloat64) ==
        Results{{DType::kFloat64, {2}}});
  CHECK(refuses("relu", {{DType::kFloat64, {2}}}));
  CHECK(refuses("scale", {{F, {2}}}, {{"factor", std::numeric_limits<double>::infinity()}}));
  CHECK(results_of("dropout", {{F, {2, 3}}}, {{"rate", 0.0}, {"consumer", std::string("a/b")}}) ==
        Results{{F, {2, 3}}, {B, {2, 3}}});
  CHECK(refuses("dropout", {{F, {2}}}, {{"rate", 0.5}, {"consumer", std::string()}}));
  CHECK(refuses("dropout_grad", {{F, {2}}, {I, {2}}}, {{"rate", 0.5}}));
}

TEST_CASE("shapes, axes and constants are in range") {
  CHECK(results_of("reshape", {{B, {2, 6}}}, {{"shape", Integers{3, 4}}}) == Results{{B, {3, 4}}});
  CHECK(refuses("reshape", {{B, {2, 6}}}, {{"shape", Integers{3, 5}}}));
  CHECK(refuses("reshape", {{B, {2, 6}}}, {{"shape", Integers{-3, -4}}}));
  CHECK(refuses("reshape", {{B, {1}}}, {{"shape", Integers(9, 1)}}));
  CHECK(results_of("broadcast_to", {{F, {1, 3}}}, {{"shape", Integers{2, 4, 3}}}) ==
        Results{{F, {2, 4, 3}}});
  CHECK(refuses("broadcast_to", {{F, {2, 3}}}, {{"shape", Integers{3}}}));
  CHECK(results_of("argmax", {{I, {2, 5}}}, {{"axis", int64_t{0}}}) ==
        Results{{DType::kInt64, {5}}});
  CHECK(refuses("argmax", {{F, {}}}, {{"axis", int64_t{0}}}));
  CHECK(refuses("argmax", {{F, {2}}}, {{"axis", int64_t{-1}}}));
  const auto reduce = [](Integers axes, bool keep) {
    return Entries{{"axes", std::move(axes)}, {"keepdims", keep}};
  };
  CHECK(results_of("reduce_mean", {{F, {2, 3, 4}}}, reduce({0, 2}, false)) == Results{{F, {3}}});
  CHECK(results_of("reduce_sum", {{F, {2, 3, 4}}}, reduce({0, 2}, true)) ==
        Results{{F, {1, 3, 1}}});
  CHECK(results_of("reduce_sum", {{F, {}}}, reduce({}, false)) == Results{{F, {}}});
  CHECK(refuses("reduce_sum", {{F, {2, 3}}}, reduce({1, 0}, false)));
  CHECK(refuses("reduce_sum", {{F, {2, 3}}}, reduce({1, 1}, false)));
  CHECK(refuses("reduce_sum", {{F, {2, 3}}}, reduce({2}, false)));
  CHECK(results_of("bias_add", {{F, {2, 3}}, {F, {2}}}, {{"axis", int64_t{0}}}) ==
        Results{{F, {2, 3}}});
  CHECK(refuses("bias_add", {{F, {2, 3}}, {F, {3, 1}}}, {{"axis", int64_t{1}}}));
  CHECK(results_of("bias_add_grad", {{F, {2, 3}}}, {{"axis", int64_t{1}}}) == Results{{F, {3}}});
  CHECK(results_of("cast", {{B, {2}}}, {{"dtype", F}}) == Results{{F, {2}}});
  const auto fill = [](double value, DType dtype) {
    return Entries{{"value", value}, {"dtype", dtype}, {"shape", Integers{2}}};
  };
  CHECK(results_of("fill", {}, fill(-128, DType::kInt8)) == Results{{DType::kInt8, {2}}});
  CHECK(refuses("fill", {}, fill(128, DType::kInt8)));
  CHECK(refuses("fill", {}, fill(0.5, I)));
  CHECK(refuses("fill", {}, fill(0x1p63, DType::kInt64)));
  CHECK(refuses("fill", {}, fill(std::numeric_limits<double>::quiet_NaN(), DType::kInt64)));
}

TEST_CASE("losses take integers and a last axis of classes; updates take equal shapes") {
  const char* const loss = "sparse_softmax_cross_entropy_with_logits";
  const char* const gradient = "sparse_softmax_cross_entropy_with_logits_grad";
  CHECK(results_of(loss, {{DType::kUInt8, {2, 3}}, {F, {2, 3, 5}}}) ==
        Results{{F, {2, 3}}, {F, {2, 3, 5}}});
  CHECK(refuses(loss, {{F, {2}}, {F, {2, 5}}}));
  CHECK(refuses(loss, {{I, {2, 3}}, {F, {3, 2, 5}}}));
  CHECK(refuses(loss, {{I, {}}, {F, {}}}));
  CHECK(results_of(gradient, {{I, {2}}, {F, {2, 5}}, {F, {2}}}) == Results{{F, {2, 5}}});
  CHECK(refuses(gradient, {{I, {2}}, {F, {2, 5}}, {F, {2, 5}}}));
  CHECK(refuses("sgd_update", {{F, {2}}, {F, {3}}}, {{"scale", 1.0}}));
  const Entries momentum{
      {"scale", 1.0}, {"momentum", 0.9}, {"nesterov", false}, {"weight_decay", 0.0}};
  CHECK(results_of("momentum_update", {{F, {3}}, {F, {3}}, {F, {3}}}, momentum) ==
        Results{{F, {3}}, {F, {3}}});
  CHECK(refuses("momentum_update", {{F, {3}}, {F, {3}}, {F, {1, 3}}}, momentum));
}

TEST_CASE("what is joined, cut or taken fits what it is joined to, cut or taken from") {
  const auto axis = [](int64_t i) { return Entries{{"axis", i}}; };
  CHECK(results_of("concat", {{I, {2, 3}}, {I, {2, 4}}, {I, {2, 1}}}, axis(1)) ==
        Results{{I, {2, 8}}});
  CHECK(refuses("concat", {}, axis(0)));
  CHECK(refuses("concat", {{F, {2, 3}}, {I, {2, 3}}}, axis(1)));
  CHECK(refuses("concat", {{F, {2, 3}}, {F, {3, 3}}}, axis(1)));
  CHECK(refuses("concat", {{F, {2}}, {F, {2, 1}}}, axis(0)));
  CHECK(refuses("concat", {{F, {}}}, axis(0)));
  CHECK(results_of("stack", {{F, {2}}, {F, {2}}, {F, {2}}}, axis(1)) == Results{{F, {2, 3}}});
  CHECK(refuses("stack", {{F, {2}}}, axis(2)));
  CHECK(refuses("stack", {{F, {2}}, {F, {3}}}, axis(0)));
  const auto sizes = [](Integers list) { return Entries{{"axis", int64_t{1}}, {"sizes", list}}; };
  CHECK(results_of("split", {{B, {2, 5}}}, sizes({1, 4})) == Results{{B, {2, 1}}, {B, {2, 4}}});
  CHECK(refuses("split", {{B, {2, 5}}}, sizes({1, 5})));
  CHECK(refuses("split", {{B, {2, 5}}}, sizes({1, 3})));
  CHECK(refuses("split", {{B, {2, 5}}}, sizes({})));
  CHECK(refuses("split", {{B, {2, 5}}}, sizes({6, -1})));
  const auto take = [](Integers starts, Integers steps, Integers counts, Integers shape) {
    return Entries{{"starts", starts}, {"steps", steps}, {"counts", counts}, {"shape", shape}};
  };
  CHECK(results_of("slice", {{F, {4, 5}}}, take({3, 1}, {-1, 2}, {4, 2}, {4, 1, 2})) ==
        Results{{F, {4, 1, 2}}});
  CHECK(refuses("slice", {{F, {4, 5}}}, take({3, 1}, {-1, 2}, {4, 3}, {4, 3})));
  CHECK(refuses("slice", {{F, {4, 5}}}, take({2, 1}, {-1, 2}, {4, 2}, {4, 2})));
  CHECK(refuses("slice", {{F, {4, 5}}}, take({4, 0}, {1, 1}, {1, 5}, {5})));
  CHECK(refuses("slice", {{F, {4, 5}}}, take({-1, 0}, {1, 1}, {1, 5}, {5})));
  CHECK(refuses("slice", {{F, {4, 5}}}, take({0}, {1}, {4}, {4})));
  CHECK(refuses("slice", {{F, {4, 5}}}, take({0, 0}, {1, 1}, {4, 5}, {19})));
  CHECK(refuses("slice", {{F, {4}}}, take({0}, {INT64_MAX}, {2}, {2})));
  CHECK(refuses("slice", {{F, {4}}}, take({0}, {INT64_MIN}, {2}, {2})));
  CHECK(results_of("transpose", {{F, {2, 3, 4}}}, {{"perm", Integers{2, 0, 1}}}) ==
        Results{{F, {4, 2, 3}}});
  CHECK(refuses("transpose", {{F, {2, 3}}}, {{"perm", Integers{0, 0}}}));
  CHECK(refuses("transpose", {{F, {2, 3}}}, {{"perm", Integers{1, -1}}}));
  CHECK(refuses("transpose", {{F, {2, 3}}}, {{"perm", Integers{0}}}));
}

TEST_CASE("paddings, copies, indices and ranks are in range") {
  const auto pad = [](Integers paddings, const char* mode, double value = 0) {
    return Entries{{"paddings", paddings}, {"mode", std::string(mode)}, {"value", value}};
  };
  CHECK(results_of("pad", {{F, {3}}}, pad({2, 1}, "reflect")) == Results{{F, {6}}});
  CHECK(refuses("pad", {{F, {3}}}, pad({3, 1}, "reflect")));
  CHECK(refuses("pad", {{F, {3}}}, pad({-1, 1}, "edge")));
  CHECK(refuses("pad", {{F, {3}}}, pad({1}, "edge")));
  CHECK(refuses("pad", {{F, {3}}}, pad({1, 1}, "wrap")));
  CHECK(refuses("pad", {{I, {3}}}, pad({1, 1}, "constant", 0.5)));
  const auto around = [](Integers paddings, const char* mode) {
    return Entries{{"paddings", paddings}, {"mode", std::string(mode)}};
  };
  CHECK(results_of("pad_grad", {{F, {6}}}, around({2, 1}, "edge")) == Results{{F, {3}}});
  CHECK(refuses("pad_grad", {{F, {6}}}, around({2, 4}, "edge")));
  CHECK(refuses("pad_grad", {{F, {6}}}, around({3, 1}, "reflect")));
  CHECK(refuses("pad_grad", {{F, {6}}}, around({2, 1}, "constant")));
  CHECK(results_of("tile", {{F, {2, 3}}}, {{"multiples", Integers{1, 4}}}) ==
        Results{{F, {2, 12}}});
  CHECK(refuses("tile", {{F, {INT32_MAX}}}, {{"multiples", Integers{int64_t{1} << 58}}}));
  const auto picking = [](int64_t axis, int64_t extent) {
    return Entries{{"axis", axis}, {"extent", extent}};
  };
  CHECK(results_of("gather", {{B, {7, 3}}, {I, {2, 2}}}, {{"axis", int64_t{0}}}) ==
        Results{{B, {2, 2, 3}}});
  CHECK(refuses("gather", {{F, {7, 3}}, {F, {2}}}, {{"axis", int64_t{0}}}));
  CHECK(refuses("gather", {{F, {}}, {I, {2}}}, {{"axis", int64_t{0}}}));
  CHECK(results_of("gather_grad", {{I, {2}}, {F, {5, 2, 3}}}, picking(1, 7)) ==
        Results{{F, {5, 7, 3}}});
  CHECK(refuses("gather_grad", {{I, {2}}, {F, {5, 3, 3}}}, picking(1, 7)));
  CHECK(refuses("gather_grad", {{I, {2, 3}}, {F, {2}}}, picking(0, 7)));
  CHECK(refuses("gather_grad", {{I, {2}}, {F, {2}}}, picking(0, 0)));
  const Entries hot = {{"depth", int64_t{4}}, {"dtype", I}, {"on_value", 1.0}, {"off_value", 0.5}};
  CHECK(refuses("one_hot", {{I, {2}}}, hot));
  const auto top = [](int64_t k) { return Entries{{"axis", int64_t{0}}, {"k", k}}; };
  CHECK(results_of("top_k", {{I, {5, 2}}}, top(5)) ==
        Results{{I, {5, 2}}, {DType::kInt64, {5, 2}}});
  CHECK(refuses("top_k", {{I, {5, 2}}}, top(6)));
  CHECK(refuses("top_k_grad", {{F, {3}}, {I, {3}}}, picking(0, 5)));
  CHECK(refuses("top_k_grad", {{F, {3}}, {DType::kInt64, {3}}}, picking(0, 2)));
  CHECK(refuses("tril", {{F, {3}}}, {{"diagonal", int64_t{0}}}));
}

TEST_CASE("clipped updates take a scalar more, norms any number of gradients") {
  CHECK(results_of("sgd_update", {{F, {3}}, {F, {3}}, {F, {}}}, {{"scale", 1.0}}) ==
        Results{{F, {3}}});
  CHECK(refuses("sgd_update", {{F, {3}}, {F, {3}}, {F, {3}}}, {{"scale", 1.0}}));
  CHECK(refuses("sgd_update", {{F, {3}}, {F, {3}}, {F, {}}, {F, {}}}, {{"scale", 1.0}}));
  CHECK(refuses("sgd_update", {{F, {3}}}, {{"scale", 1.0}}));
  const Entries adam{{"scale", 1.0},
                     {"beta1", 0.9},
                     {"beta2", 0.999},
                     {"epsilon", 1e-8},
                     {"bias_correction", true},
                     {"weight_decay", 0.0}};
  CHECK(results_of("adam_update", {{F, {3}}, {F, {3}}, {F, {3}}, {F, {3}}, {F, {}}}, adam) ==
        Results{{F, {3}}, {F, {3}}, {F, {3}}});
  Entries whole = adam;
  whole[1].second = 1.0;
  CHECK(refuses("adam_update", {{F, {3}}, {F, {3}}, {F, {3}}, {F, {3}}}, whole));
  const Entries norm{{"scale", 1.0}, {"clip_norm", 2.0}};
  CHECK(results_of("clip_factor", {{F, {3}}, {F, {}}, {F, {4, 5}}}, norm) == Results{{F, {}}});
  CHECK(refuses("clip_factor", {}, norm));
  CHECK(refuses("clip_factor", {{F, {3}}}, {{"scale", 1.0}, {"clip_norm", 0.0}}));
}
