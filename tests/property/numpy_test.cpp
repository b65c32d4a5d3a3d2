// The kernels against NumPy, the outside judge: tests/golden/ops/ops.npz, written by
// numpy_judge.py.
#include <catch2/catch.hpp>

#include <cmath>
#include <cstring>

#include "tests/property/kernel_case.h"
#include "tests/support/golden_arrays.h"

namespace flow::test {
namespace {

using Integers = std::vector<int64_t>;

/// A call: the folder of its arrays, and what the arrays do not say.
struct Judged {
  std::string folder, op;
  std::vector<std::pair<std::string, plan::Attribute>> attributes;
};

/// Calls without attributes, in folders of the ops' names.
constexpr const char* kPlain[] = {"equal",
                                  "floor_divide",
                                  "fmod",
                                  "greater",
                                  "greater_equal",
                                  "isfinite",
                                  "isinf",
                                  "isnan",
                                  "less",
                                  "less_equal",
                                  "maximum",
                                  "minimum",
                                  "mod",
                                  "not_equal",
                                  "pow",
                                  "sigmoid_cross_entropy_with_logits",
                                  "softmax_cross_entropy_with_logits",
                                  "sparse_softmax_cross_entropy_with_logits"};

const std::string kAttention = "scaled_dot_product_attention";

std::vector<std::pair<std::string, plan::Attribute>> attention(bool causal) {
  return {{"causal", causal}, {"scale", 0.5}};
}

/// Of two queries less than keys.
std::vector<std::pair<std::string, plan::Attribute>> from_bottom_right() {
  return {{"causal", true}, {"diagonal", int64_t{2}}, {"scale", 0.5}};
}

std::vector<std::pair<std::string, plan::Attribute>> in_window() {
  return {{"causal", true}, {"scale", 0.5}, {"window", int64_t{3}}};
}

Judged rope(const std::string& folder, const std::string& op, int64_t dims, double theta,
            const std::string& layout) {
  return {folder,
          op,
          {{"layout", layout},
           {"theta", theta},
           {"dims", dims},
           {"scaling_factor", 1.0},
           {"low_frequency_factor", 1.0},
           {"high_frequency_factor", 4.0}}};
}

Judged resize(const std::string& folder, Integers size, const std::string& mode,
              const std::string& coordinates = "half_pixel", double scale = 0) {
  return {folder,
          "resize",
          {{"size", std::move(size)},
           {"mode", mode},
           {"coordinates", coordinates},
           {"scale", scale},
           {"rounding", std::string(coordinates == "asymmetric" ? "floor" : "round_prefer_floor")},
           {"cubic_coefficient", folder == "resize_outside" ? -0.5 : -0.75},
           {"exclude_outside", folder == "resize_outside"}}};
}

const std::vector<Judged>& resized() {
  static const std::vector<Judged> all = {
      resize("resize_nearest", {7, 10}, "nearest"),
      resize("resize_floor", {3, 11}, "nearest", "asymmetric"),
      resize("resize_bilinear", {6, 8}, "bilinear", "half_pixel", 1.7),
      resize("resize_corners", {8, 3}, "bilinear", "align_corners"),
      resize("resize_bicubic", {8, 9}, "bicubic"),
      resize("resize_outside", {4, 5}, "bicubic"),
  };
  return all;
}

/// Steps of recurrent layers: from the first to the last, then of given lengths from the last on.
std::vector<Judged> stepped() {
  std::vector<Judged> all;
  for (const bool given : {false, true}) {
    const std::string name = given ? "_lengths" : "";
    all.push_back({"lstm_steps" + name, "lstm_steps", {{"reverse", given}}});
    for (const bool linear : {true, false})
      all.push_back({"gru_steps" + name + (linear ? "" : "_first"),
                     "gru_steps",
                     {{"reverse", given}, {"linear_before_reset", linear}}});
    all.push_back({"rnn_steps" + name,
                   "rnn_steps",
                   {{"reverse", given}, {"activation", std::string(given ? "relu" : "tanh")}}});
  }
  return all;
}

const std::vector<Judged>& judged() {
  static const std::vector<Judged> all = {
      {"matmul", "matmul", {{"transpose_a", false}, {"transpose_b", false}}},
      {"matmul_transposed", "matmul", {{"transpose_a", true}, {"transpose_b", true}}},
      {"convolution",
       "convolution",
       {{"strides", Integers{1, 1}},
        {"padding", Integers{1, 1, 0, 1}},
        {"dilation", Integers{1, 1}},
        {"groups", int64_t{1}}}},
      {"convolution_grouped",
       "convolution",
       {{"strides", Integers{2, 1}},
        {"padding", Integers{2, 0, 1, 2}},
        {"dilation", Integers{1, 2}},
        {"groups", int64_t{2}}}},
      {"max_pool2d",
       "max_pool2d",
       {{"ksize", Integers{2, 2}}, {"strides", Integers{2, 2}}, {"padding", Integers{0, 0, 0, 0}}}},
      {"max_pool2d_padded",
       "max_pool2d",
       {{"ksize", Integers{3, 2}}, {"strides", Integers{2, 1}}, {"padding", Integers{1, 2, 1, 0}}}},
      {"avg_pool2d",
       "avg_pool2d",
       {{"ksize", Integers{2, 2}}, {"strides", Integers{2, 2}}, {"padding", Integers{0, 0, 0, 0}}}},
      {"avg_pool2d_padded",
       "avg_pool2d",
       {{"ksize", Integers{3, 2}}, {"strides", Integers{2, 1}}, {"padding", Integers{1, 2, 1, 0}}}},
      {"bias_add", "bias_add", {{"axis", int64_t{1}}}},
      {"batch_norm", "batch_norm", {{"axis", int64_t{1}}, {"epsilon", 1e-3}}},
      {"batch_norm_predict", "batch_norm_predict", {{"axis", int64_t{1}}, {"epsilon", 0.5}}},
      {"layer_normalize", "layer_normalize", {{"axis", int64_t{1}}, {"epsilon", 1e-5}}},
      {"rms_normalize", "rms_normalize", {{"axis", int64_t{1}}, {"epsilon", 1e-3}}},
      {"group_normalize", "group_normalize", {{"groups", int64_t{3}}, {"epsilon", 1e-5}}},
      {"move_statistics", "move_statistics", {{"momentum", 0.75}, {"unbias", 1.5}}},
      {"scale", "scale", {{"factor", 0.25}}},
      {"dropout", "dropout", {{"rate", 0.3}, {"consumer", std::string("net/drop")}}},
      {"sparse_softmax_cross_entropy_with_logits_large",
       "sparse_softmax_cross_entropy_with_logits",
       {}},
      {"ctc", "ctc", {{"blank", int64_t{0}}, {"zero_infinity", false}}},
      {"add_wraps", "add", {}},
      {"abs_wraps", "abs", {}},
      {"negative_wraps", "negative", {}},
      {"sign_wraps", "sign", {}},
      {"square_wraps", "square", {}},
      {"subtract_wraps", "subtract", {}},
      {"pow_wraps", "pow", {}},
      {"maximum_of_integers", "maximum", {}},
      {"greater_of_nan", "greater", {}},
      {"reduce_max", "reduce_max", {{"axes", Integers{0, 2}}, {"keepdims", false}}},
      {"reduce_min", "reduce_min", {{"axes", Integers{1}}, {"keepdims", true}}},
      {"logsumexp", "logsumexp", {{"axes", Integers{1}}, {"keepdims", false}}},
      {"reduce_sum_wraps", "reduce_sum", {{"axes", Integers{0}}, {"keepdims", false}}},
      {"reduce_prod_wraps", "reduce_prod", {{"axes", Integers{0}}, {"keepdims", false}}},
      {"reduce_any", "reduce_any", {{"axes", Integers{1}}, {"keepdims", false}}},
      {"reduce_all", "reduce_all", {{"axes", Integers{1}}, {"keepdims", false}}},
      {"argmin", "argmin", {{"axis", int64_t{1}}}},
      {"softmax", "softmax", {{"axis", int64_t{1}}}},
      {"softmax_large", "softmax", {{"axis", int64_t{2}}}},
      {"log_softmax", "log_softmax", {{"axis", int64_t{1}}}},
      {"reduce_sum", "reduce_sum", {{"axes", Integers{0, 2}}, {"keepdims", true}}},
      {"reduce_mean", "reduce_mean", {{"axes", Integers{1}}, {"keepdims", false}}},
      {"reduce_mean_all", "reduce_mean", {{"axes", Integers{0, 1}}, {"keepdims", false}}},
      {"broadcast_to", "broadcast_to", {{"shape", Integers{2, 3, 4}}}},
      {"reshape", "reshape", {{"shape", Integers{4, 6}}}},
      {"argmax", "argmax", {{"axis", int64_t{1}}}},
      {"cast_to_int32", "cast", {{"dtype", DType::kInt32}}},
      {"cast_to_bool", "cast", {{"dtype", DType::kBool}}},
      {"cast_to_float16", "cast", {{"dtype", DType::kFloat16}}},
      {"attention", kAttention, attention(false)},
      {"attention_causal", kAttention, attention(true)},
      {"attention_masked", kAttention, attention(true)},
      {"attention_grad", kAttention + "_grad", attention(false)},
      {"attention_causal_grad", kAttention + "_grad", attention(true)},
      {"attention_masked_grad", kAttention + "_grad", attention(true)},
      {"attention_bottom_right", kAttention, from_bottom_right()},
      {"attention_bottom_right_grad", kAttention + "_grad", from_bottom_right()},
      {"attention_grouped", kAttention, in_window()},
      {"attention_grouped_grad", kAttention + "_grad", in_window()},
      {"attention_bias_grad", kAttention + "_grad_bias", in_window()},
      rope("rope", "rope", 6, 100, "halves"),
      rope("rope_pairs", "rope", 4, 500, "pairs"),
      rope("rope_pairs_grad", "rope_grad", 4, 500, "pairs"),
      {"fill", "fill", {{"value", 7.0}, {"shape", Integers{2, 3}}, {"dtype", DType::kInt64}}},
      {"transpose", "transpose", {{"perm", Integers{0, 2, 1, 3}}}},
      {"transpose_bool", "transpose", {{"perm", Integers{1, 0}}}},
      {"concat", "concat", {{"axis", int64_t{1}}}},
      {"stack", "stack", {{"axis", int64_t{2}}}},
      {"split", "split", {{"axis", int64_t{1}}, {"sizes", Integers{2, 1, 4}}}},
      {"slice",
       "slice",
       {{"starts", Integers{3, 2, 4}},
        {"steps", Integers{-1, 1, -2}},
        {"counts", Integers{4, 1, 2}},
        {"shape", Integers{4, 1, 2}}}},
      {"slice_grad",
       "slice_grad",
       {{"starts", Integers{3, 2, 4}},
        {"steps", Integers{-1, 1, -2}},
        {"counts", Integers{4, 1, 2}},
        {"input_shape", Integers{4, 5, 6}}}},
      {"pad_constant",
       "pad",
       {{"paddings", Integers{1, 2, 0, 3}}, {"mode", std::string("constant")}, {"value", -2.0}}},
      {"pad_reflect",
       "pad",
       {{"paddings", Integers{2, 1, 3, 2}}, {"mode", std::string("reflect")}, {"value", 0.0}}},
      {"pad_edge",
       "pad",
       {{"paddings", Integers{2, 1, 3, 5}}, {"mode", std::string("edge")}, {"value", 0.0}}},
      {"pad_grad_reflect",
       "pad_grad",
       {{"paddings", Integers{2, 1, 3, 2}}, {"mode", std::string("reflect")}}},
      {"pad_grad_edge",
       "pad_grad",
       {{"paddings", Integers{2, 1, 3, 2}}, {"mode", std::string("edge")}}},
      {"gather", "gather", {{"axis", int64_t{1}}}},
      {"gather_grad", "gather_grad", {{"axis", int64_t{1}}, {"extent", int64_t{10}}}},
      {"scatter_add", "scatter_add", {{"axis", int64_t{1}}}},
      {"scatter_update", "scatter_update", {{"axis", int64_t{1}}}},
      {"put_along_axis", "put_along_axis", {{"axis", int64_t{1}}}},
      {"add_along_axis", "add_along_axis", {{"axis", int64_t{1}}}},
      {"floor_divide_of_integers", "floor_divide", {}},
      {"mod_of_integers", "mod", {}},
      {"fmod_of_integers", "fmod", {}},
      {"tril", "tril", {{"diagonal", int64_t{1}}}},
      {"triu", "triu", {{"diagonal", int64_t{-1}}}},
      {"top_k", "top_k", {{"axis", int64_t{1}}, {"k", int64_t{3}}}},
      {"top_k_grad", "top_k_grad", {{"axis", int64_t{1}}, {"extent", int64_t{8}}}},
      {"sample",
       "sample",
       {{"consumer", std::string("net/token")},
        {"temperature", 0.7},
        {"top_k", int64_t{20}},
        {"top_p", 0.9}}},
  };
  return all;
}

/// in0, in1, ... of a folder, as far as there are any.
std::vector<Array> read_all(const std::string& folder, const std::string& kind) {
  static const std::map<std::string, Array> golden = test::golden_arrays("ops/ops");
  std::vector<Array> arrays;
  for (size_t i = 0;; ++i) {
    const auto array = golden.find(folder + "/" + kind + std::to_string(i));
    if (array == golden.end()) return arrays;
    arrays.push_back(array->second);
  }
}

/// Bits for all but float32, which is a few roundings off.
void require_near_numpy(const Array& got, const Array& expected) {
  REQUIRE(got.shape() == expected.shape());
  if (expected.dtype() != DType::kFloat32) {
    CHECK(std::ranges::equal(got.bytes(), expected.bytes()));
    return;
  }
  for (int64_t i = 0; i < expected.shape().elements(); ++i) {
    const double a = number_at(got, i), b = number_at(expected, i);
    if (a == b || (std::isnan(a) && std::isnan(b))) continue;
    if (!(std::abs(a - b) <= 4e-6 * std::abs(b) + 1e-6))
      FAIL(a << " instead of " << b << " at element " << i);
  }
}

}  // namespace

TEST_CASE("kernels agree with NumPy", "[property]") {
  std::vector<Judged> calls = judged();
  for (const char* op : kPlain) calls.push_back({op, op, {}});
  for (Judged& call : stepped()) calls.push_back(std::move(call));
  for (Judged call : resized()) {
    calls.push_back(call);
    call.attributes.push_back({"input_shape", read_all(call.folder, "in")[0].shape().extents()});
    calls.push_back({call.folder + "_grad", "resize_grad", call.attributes});
  }
  for (const Judged& call : calls) {
    INFO(call.folder);
    const std::vector<Array> expected = read_all(call.folder, "out");
    REQUIRE_FALSE(expected.empty());
    KernelCase one{call.op, call.attributes, read_all(call.folder, "in"), {}};
    for (const Array& array : expected) one.results.push_back({array.dtype(), array.shape()});
    for (const auto kernels : {cpu::fast_kernels(), cpu::reference_kernels()}) {
      const KernelRun run = run_kernel(one, {kernels});
      for (size_t i = 0; i < expected.size(); ++i) require_near_numpy(run.outputs[i], expected[i]);
    }
  }
}

}  // namespace flow::test
