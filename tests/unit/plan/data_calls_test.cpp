// The shape rules of elementwise primitives, and of those that move and pick data, by example.
#include <catch2/catch.hpp>

#include "tests/unit/plan/call_results.h"

using namespace flow;
using namespace flow::plan;
using namespace flow::plan::sample;

TEST_CASE("elementwise primitives broadcast where the list says so", "[plan]") {
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

TEST_CASE("shapes, axes and constants are in range", "[plan]") {
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

TEST_CASE("what is joined, cut or taken fits what it is joined to, cut or taken from", "[plan]") {
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
  CHECK(refuses("slice", {{F, {4}}}, take({1}, {0}, {2}, {2})));
  CHECK(refuses("slice", {{F, {4}}}, take({0}, {INT64_MAX}, {2}, {2})));
  CHECK(refuses("slice", {{F, {4}}}, take({0}, {INT64_MIN}, {2}, {2})));
  CHECK(results_of("transpose", {{F, {2, 3, 4}}}, {{"perm", Integers{2, 0, 1}}}) ==
        Results{{F, {4, 2, 3}}});
  CHECK(refuses("transpose", {{F, {2, 3}}}, {{"perm", Integers{0, 0}}}));
  CHECK(refuses("transpose", {{F, {2, 3}}}, {{"perm", Integers{1, -1}}}));
  CHECK(refuses("transpose", {{F, {2, 3}}}, {{"perm", Integers{0}}}));
}

TEST_CASE("paddings, copies, indices and ranks are in range", "[plan]") {
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
  const Entries table = {{"extent", int64_t{7}}};
  const DType kLong = DType::kInt64;
  CHECK(results_of("bag_indices", {{I, {2, 4}}, {I, {2}}}, table) == Results{{kLong, {2, 4}}});
  CHECK(refuses("bag_indices", {{I, {2, 4}}, {I, {4}}}, table));
  CHECK(refuses("bag_indices", {{I, {}}}, table));
  CHECK(refuses("bag_indices", {{F, {2, 4}}}, table));
  CHECK(results_of("bag_sum", {{F, {7, 3}}, {I, {2, 4}}, {F, {2, 4}}}) == Results{{F, {2, 3}}});
  CHECK(refuses("bag_sum", {{F, {7, 3}}, {I, {2, 4}}, {F, {2}}}));
  CHECK(refuses("bag_sum", {{F, {7}}, {I, {2, 4}}}));
  CHECK(refuses("bag_sum", {{F, {7, 3}}, {I, {}}}));
  CHECK(results_of("bag_max", {{F, {7, 3}}, {I, {5, 2, 4}}}) ==
        Results{{F, {5, 2, 3}}, {kLong, {5, 2, 3}}});
  const Entries axis = {{"axis", int64_t{1}}};
  CHECK(results_of("scatter_add", {{F, {5, 7, 3}}, {I, {2, 4}}, {F, {5, 2, 4, 3}}}, axis) ==
        Results{{F, {5, 7, 3}}});
  CHECK(refuses("scatter_add", {{F, {5, 7, 3}}, {I, {2}}, {F, {5, 7, 3}}}, axis));
  CHECK(refuses("scatter_add", {{F, {5}}, {I, {2}}, {F, {2}}}, axis));
  CHECK(refuses("scatter_update", {{F, {5, 7}}, {I, {2}}, {I, {5, 2}}}, axis));
  CHECK(results_of("take_along_axis", {{B, {5, 7}}, {I, {5, 2}}}, axis) == Results{{B, {5, 2}}});
  CHECK(refuses("take_along_axis", {{F, {5, 7}}, {I, {4, 2}}}, axis));
  CHECK(refuses("take_along_axis", {{F, {5, 7}}, {I, {5}}}, axis));
  CHECK(refuses("take_along_axis", {{F, {5}}, {I, {5}}}, axis));
  CHECK(refuses("put_along_axis", {{F, {5, 7}}, {I, {5, 2}}, {I, {5, 2}}}, axis));
  CHECK(refuses("add_along_axis", {{F, {5, 7}}, {I, {5, 2}}, {F, {5, 7}}}, axis));
  const auto spaced = [](double last, int64_t count, DType dtype) {
    return Entries{{"first", 0.0}, {"last", last}, {"count", count}, {"dtype", dtype}};
  };
  CHECK(results_of("evenly_spaced", {}, spaced(6, 4, I)) == Results{{I, {4}}});
  CHECK(refuses("evenly_spaced", {}, spaced(6.5, 4, I)));
  CHECK(refuses("evenly_spaced", {}, spaced(6, 0, I)));
  CHECK(refuses("evenly_spaced", {}, spaced(std::numeric_limits<double>::infinity(), 4, F)));
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

TEST_CASE("comparisons give bools, where takes them, and neither mixes dtypes", "[plan]") {
  CHECK(results_of("less", {{I, {3, 1}}, {DType::kInt8, {4}}}) == Results{{B, {3, 4}}});
  CHECK(results_of("not_equal", {{B, {3}}, {B, {}}}) == Results{{B, {3}}});
  CHECK(refuses("less", {{B, {3}}, {B, {3}}}));
  CHECK(refuses("less", {{F, {3}}, {I, {3}}}));
  CHECK(refuses("equal", {{DType::kFloat16, {3}}, {DType::kFloat16, {3}}}));
  CHECK(results_of("where", {{B, {2, 1, 1}}, {I, {3, 1}}, {I, {4}}}) == Results{{I, {2, 3, 4}}});
  CHECK(refuses("where", {{F, {3}}, {F, {3}}, {F, {3}}}));
  CHECK(refuses("where", {{B, {3}}, {F, {3}}, {I, {3}}}));
  CHECK(refuses("where", {{B, {2}}, {F, {3}}, {F, {3}}}));
  CHECK(refuses("logical_and", {{B, {2}}, {I, {2}}}));
}

TEST_CASE("what functions are given is in range", "[plan]") {
  CHECK(results_of("clip_by_value", {{F, {3}}}, {{"min", 0.0}, {"max", 0.0}}) == Results{{F, {3}}});
  CHECK(refuses("clip_by_value", {{F, {3}}}, {{"min", 1.0}, {"max", 0.0}}));
  CHECK(refuses("gelu", {{F, {3}}}, {{"approximate", std::string("cosh")}}));
  CHECK(refuses("exp", {{I, {3}}}));
  CHECK(refuses("tanh_grad", {{F, {3}}, {F, {4}}}));
  CHECK(results_of("mse_grad", {{F, {3}}, {F, {3}}, {F, {}}}) == Results{{F, {3}}});
  CHECK(refuses("divide", {{I, {3}}, {I, {3}}}));
}

TEST_CASE("gradients of reductions have what was reduced", "[plan]") {
  const Entries axes = {{"axes", Integers{1}}, {"keepdims", false}};
  CHECK(results_of("reduce_extreme_grad", {{F, {2}}, {F, {2, 3}}, {F, {2}}}, axes) ==
        Results{{F, {2, 3}}});
  CHECK(refuses("reduce_extreme_grad", {{F, {2}}, {F, {2, 3}}, {F, {3}}}, axes));
  CHECK(refuses("reduce_prod_grad", {{F, {2}}, {F, {2}}}, axes));
  CHECK(results_of("reduce_any", {{B, {2, 3}}}, axes) == Results{{B, {2}}});
  CHECK(refuses("reduce_any", {{I, {2, 3}}}, axes));
  CHECK(refuses("softmax", {{F, {2}}}, {{"axis", int64_t{1}}}));
  CHECK(refuses("softmax_cross_entropy_with_logits", {{F, {2}}, {F, {3}}}));
  CHECK(refuses("softmax_cross_entropy_with_logits_grad", {{F, {2, 3}}, {F, {2, 3}}, {F, {3}}}));
}

TEST_CASE("labels and frames of ctc have memory for their states", "[plan]") {
  const auto call = [](int64_t samples, int64_t labels, int64_t frames) {
    return std::vector<CallOperand>{{DType::kUInt8, {samples, labels}},
                                    {F, {samples, frames, 1}},
                                    {I, {samples}},
                                    {I, {samples}},
                                    {F, {samples}}};
  };
  CHECK(results_of("ctc_grad", call(2, 3, 4), {{"blank", int64_t{0}}}) == Results{{F, {2, 4, 1}}});
  CHECK(refuses("ctc_grad", call(1, int64_t{1} << 31, int64_t{1} << 31), {{"blank", int64_t{0}}}));
  CHECK(refuses("ctc_grad", call(1 << 12, 1 << 24, 1 << 24), {{"blank", int64_t{0}}}));
}
