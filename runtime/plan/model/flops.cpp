// Operations by op, from shapes.
#include "runtime/plan/model/flops.h"

#include <algorithm>
#include <array>
#include <map>
#include <string_view>

namespace flow::plan {
namespace {

double elements(const Job& job, TensorId id) {
  return id.valid() ? static_cast<double>(job[id].shape.elements()) : 0;
}

double elements(const Job& job, const std::vector<TensorId>& ids, size_t i) {
  return i < ids.size() ? elements(job, ids[i]) : 0;
}

double matmul_flops(const Job& job, const Step& step) {
  const Shape& a = job[step.inputs[0]].shape;
  const bool transposed = step.attributes.get<bool>("transpose_a");
  return 2 * static_cast<double>(a[a.rank() - (transposed ? 2 : 1)]) *
         elements(job, step.outputs[0]);
}

/// Each element of the output side meets each weight of its filter.
double convolution_flops(const Job& job, const Step& step) {
  const TensorId output = step.op == "convolution_grad_data"     ? step.inputs[0]
                          : step.op == "convolution_grad_weight" ? step.inputs[1]
                                                                 : step.outputs[0];
  const TensorId weight = step.op == "convolution_grad_weight" ? step.outputs[0] : step.inputs[1];
  const double filters = static_cast<double>(job[weight].shape[0]);
  return 2 * elements(job, output) * elements(job, weight) / std::max(1.0, filters);
}

/// A score for each query and key, made from their depths and spread over the values'.
double attention_flops(const Job& job, const Step& step) {
  const bool backward = step.op.ends_with("_grad");
  const size_t query = backward ? 1 : 0;
  const Shape &key = job[step.inputs[query + 1]].shape, &value = job[step.inputs[query + 2]].shape;
  const int last = key.rank() - 1;
  const double depth = static_cast<double>(key[last]),
               value_depth = static_cast<double>(value[last]);
  const double scores =
      elements(job, step.inputs[query]) / depth * static_cast<double>(key[last - 1]);
  return 2 * scores * (backward ? 3 * depth + 2 * value_depth : depth + value_depth);
}

/// What each operation of a table's op is counted for.
enum class Each { kResult, kFirst /* operand */, kSecond, kOperands /* all */ };

struct Count {
  double operations = 1;
  Each each = Each::kResult;
};

Count count_of(std::string_view name) {
  static const std::map<std::string_view, Count> kCounts = [] {
    std::map<std::string_view, Count> counts;
    for (const std::string_view op :
         {"broadcast_to", "cast", "concat", "copy", "fill", "gather", "one_hot", "pad", "pad_grad",
          "reshape", "slice", "slice_grad", "split", "stack", "tile", "top_k_grad", "transpose",
          "tril", "triu"})
      counts[op] = {0};
    for (const std::string_view op :
         {"argmax", "argmin", "bias_add_grad", "gather_grad", "logsumexp", "max_pool2d_grad",
          "reduce_all", "reduce_any", "reduce_max", "reduce_mean", "reduce_min", "reduce_prod",
          "reduce_sum", "top_k"})
      counts[op] = {1, Each::kFirst};
    counts.insert({
        {"softmax", {5}},
        {"log_softmax", {5}},
        {"softmax_grad", {4}},
        {"log_softmax_grad", {4}},
        {"sparse_softmax_cross_entropy_with_logits", {5, Each::kSecond}},
        {"softmax_cross_entropy_with_logits", {7, Each::kSecond}},
        {"sparse_softmax_cross_entropy_with_logits_grad", {2}},
        {"softmax_cross_entropy_with_logits_grad", {2}},
        {"batch_norm", {8, Each::kFirst}},
        {"batch_norm_predict", {4, Each::kFirst}},
        {"batch_norm_grad", {9, Each::kFirst}},
        {"batch_norm_grad_affine", {5, Each::kFirst}},
        {"layer_normalize", {8, Each::kFirst}},
        {"group_normalize", {8, Each::kFirst}},
        {"layer_normalize_grad", {13, Each::kFirst}},
        {"group_normalize_grad", {13, Each::kFirst}},
        {"move_statistics", {6}},
        {"sgd_update", {2}},
        {"momentum_update", {4}},
        {"lars_update", {8}},
        {"rmsprop_update", {9}},
        {"centered_rmsprop_update", {12}},
        {"adam_update", {12}},
        {"lamb_update", {16}},
        {"regularize", {2}},
        {"clip_factor", {2, Each::kOperands}},
        {"unscale_factor", {2, Each::kOperands}},
    });
    return counts;
  }();
  const auto found = kCounts.find(name);
  return found == kCounts.end() ? Count{} : found->second;
}

double window_of(const Step& step) {
  double window = 1;
  for (const int64_t extent : step.attributes.get<std::vector<int64_t>>("ksize"))
    window *= static_cast<double>(extent);
  return window;
}

}  // namespace

double product_flops(const Job& job, const Step& step) {
  if (step.op == "matmul") return matmul_flops(job, step);
  if (step.op.starts_with("convolution")) return convolution_flops(job, step);
  if (step.op.starts_with("scaled_dot_product_attention")) return attention_flops(job, step);
  return 0;
}

double flops(const Job& job, const Step& step) {
  if (const double products = product_flops(job, step); products > 0) return products;
  if (step.op == "avg_pool2d" || step.op == "max_pool2d")
    return window_of(step) * elements(job, step.outputs, 0);
  if (step.op == "avg_pool2d_grad") return window_of(step) * elements(job, step.inputs, 0);
  const auto [operations, each] = count_of(step.op);
  double count = 0;
  switch (each) {
    case Each::kResult:
      count = elements(job, step.outputs, 0);
      break;
    case Each::kFirst:
      count = elements(job, step.inputs, 0);
      break;
    case Each::kSecond:
      count = elements(job, step.inputs, 1);
      break;
    case Each::kOperands:
      for (const TensorId id : step.inputs) count += elements(job, id);
      break;
  }
  return operations * count;
}

double flops(const Job& job, const Step& step, const Post& post) {
  return count_of(post.op).operations * elements(job, step.outputs, 0);
}

bool is_backward(const Step& step) {
  // Passes name what only training needs like this; casts and copies have other words behind
  // colons.
  constexpr std::array<std::string_view, 3> kMarks = {":diff", ":update", ":regularized"};
  constexpr std::array<std::string_view, 3> kOps = {"clip_factor", "unscale_factor",
                                                    "move_loss_scale"};
  return std::ranges::count(kOps, step.op) > 0 ||
         std::ranges::any_of(kMarks, [&](std::string_view mark) {
           return step.name.find(mark) != std::string::npos;
         });
}

}  // namespace flow::plan
