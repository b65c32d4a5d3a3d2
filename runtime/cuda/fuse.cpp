// Plan to plan: steps that become parts of products.
#include "runtime/cuda/fuse.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/cuda/matmul.h"
#include "runtime/plan/lifetimes.h"

namespace flow::cuda {

using plan::TensorId;

namespace {

class GradientFuser {
 public:
  GradientFuser(const plan::Job& job, std::span<const size_t> segments,
                std::span<const TensorId> visible, Libraries& libraries)
      : job_(job), segments_(segments), libraries_(libraries), leeway_(leeway_of(job)) {
    readers_.resize(job.tensors.size());
    makers_.resize(job.tensors.size());
    for (TensorId id : visible)
      if (id.valid()) ++readers_[id.index()];
    for (size_t i = 0; i < job.steps.size(); ++i) {
      for (TensorId id : job.steps[i].inputs) ++readers_[id.index()];
      for (const plan::Post& post : job.steps[i].posts)
        for (TensorId id : post.operands) ++readers_[id.index()];
      for (TensorId id : job.steps[i].outputs)
        if (id.valid()) makers_[id.index()] = i;
    }
    gone_.resize(job.steps.size());
  }

  plan::Job fuse() {
    for (size_t i = 0; i < job_.steps.size(); ++i) {
      if (gone_[i]) continue;
      if (job_.steps[i].op == "relu_grad") gone_[i] = fuse_relu_grad(i);
      if (job_.steps[i].op == "bias_add_grad") gone_[i] = fuse_bias_grad(i);
    }
    size_t at = 0;
    std::erase_if(job_.steps, [&](const plan::Step&) { return gone_[at++]; });
    plan::assign_lifetimes(job_);
    return std::move(job_);
  }

 private:
  /// dx = (dy where y > 0, else 0), if dy is a product that nobody else reads, and y one with a
  /// ReLU as its last post.
  bool fuse_relu_grad(size_t at) {
    const plan::Step& gradient = job_.steps[at];
    const TensorId dy = gradient.inputs[0], y = gradient.inputs[1], dx = gradient.outputs[0];
    const std::optional<size_t> back = product_of(dy, gradient), forward = product_of(y, gradient);
    if (!gradient.posts.empty() || !back || !forward || readers_[dy.index()] != 1) return false;
    plan::Step& product = job_.steps[*back];
    plan::Step& rectified = job_.steps[*forward];
    if (*forward > *back || !product.posts.empty() || !ends_with_relu(rectified)) return false;
    if (aside_of(product) != Aside::kNothing) return false;
    const Aside kept = aside_of(rectified);
    if (kept != Aside::kNothing && kept != Aside::kStoreMask) return false;
    if (!has(product, Aside::kReadMask) || !has(rectified, Aside::kStoreMask)) return false;
    if (kept == Aside::kNothing) {
      rectified.outputs.push_back(add_mask(y));
      set_aside(rectified, Aside::kStoreMask);
    }
    product.inputs.push_back(rectified.outputs[1]);
    set_aside(product, Aside::kReadMask);
    product.outputs = {dx};
    makers_[dx.index()] = *back;
    job_.tensors[dx.index()].alias = TensorId();
    return true;
  }

  /// dbias = the sum of dy over its rows, if a product sums over them too. It takes the place of
  /// the first of the two: the bias may be updated before the weight's gradient is made.
  bool fuse_bias_grad(size_t at) {
    const plan::Step& gradient = job_.steps[at];
    const TensorId dy = gradient.inputs[0], dbias = gradient.outputs[0];
    if (!gradient.posts.empty() || job_[dy].shape.rank() != 2 ||
        gradient.attributes.get<int64_t>("axis") != 1)
      return false;
    for (size_t i = 0; i < job_.steps.size(); ++i) {
      plan::Step& product = job_.steps[i];
      if (!is_plain_product(product) || !runs_beside(i, at)) continue;
      const bool of_a = product.inputs[0] == dy && product.attributes.get<bool>("transpose_a");
      const bool of_b = product.inputs[1] == dy && !product.attributes.get<bool>("transpose_b");
      const Aside sums = of_a ? Aside::kSumsOfA : Aside::kSumsOfB;
      if ((!of_a && !of_b) || !has(product, sums)) continue;
      product.outputs.push_back(dbias);
      set_aside(product, sums);
      if (i < at) return true;
      std::swap(product, job_.steps[at]);
      gone_[i] = true;
      return false;
    }
    return false;
  }

  /// The product whose result `id` is, if it runs when `reader` does.
  std::optional<size_t> product_of(TensorId id, const plan::Step& reader) const {
    const std::optional<size_t>& maker = makers_[id.index()];
    if (!maker) return {};
    const plan::Step& step = job_.steps[*maker];
    const bool product = step.op == "matmul" && step.tap == reader.tap && step.outputs[0] == id;
    return product ? maker : std::nullopt;
  }

  static bool is_plain_product(const plan::Step& step) {
    return step.op == "matmul" && step.posts.empty() && aside_of(step) == Aside::kNothing;
  }

  /// May the product run where the first of the two steps stands?
  bool runs_beside(size_t product, size_t at) const {
    const plan::Step &one = job_.steps[product], &other = job_.steps[at];
    if (gone_[product] || one.tap != other.tap || segments_[product] != segments_[at]) return false;
    return std::ranges::all_of(one.inputs, [&](TensorId id) {
      const std::optional<size_t>& maker = makers_[id.index()];
      return product < at || (maker ? *maker < at : job_[id].role == plan::Role::kInput);
    });
  }

  /// With a bias, if any, along the columns.
  bool ends_with_relu(const plan::Step& step) const {
    if (step.posts.empty() || step.posts.back().op != "relu") return false;
    const int columns = job_[step.outputs[0]].shape.rank() - 1;
    return step.posts.front().op == "relu" ||
           step.posts.front().attributes.get<int64_t>("axis") == columns;
  }

  /// Do the libraries have the step as a single product with `aside`?
  bool has(const plan::Step& step, Aside aside) {
    const plan::Tensor &a = job_[step.inputs[0]], &b = job_[step.inputs[1]];
    MatmulSpec spec =
        products_of(step, a.dtype, a.shape, b.shape, job_[step.outputs[0]].shape, leeway_).spec;
    if (spec.out.rank() != 2) return false;
    spec.aside = aside;
    for (const plan::Post& post : step.posts)
      (post.op == "relu" ? spec.epilogue.relu : spec.epilogue.bias) = true;
    try {
      libraries_.prepare(spec);
      return true;
    } catch (const RunError&) {  // no such product
      return false;
    }
  }

  TensorId add_mask(TensorId of) {
    const plan::Tensor& y = job_[of];
    plan::Tensor mask;
    mask.name = y.name + ":mask";
    mask.dtype = DType::kUInt8;
    mask.shape = mask_shape({y.shape.elements(0, y.shape.rank() - 1), y.shape[y.shape.rank() - 1]});
    mask.where = y.where;
    job_.tensors.push_back(std::move(mask));
    return TensorId{job_.tensors.size() - 1};
  }

  plan::Job job_;
  std::span<const size_t> segments_;
  Libraries& libraries_;
  Leeway leeway_;
  std::vector<size_t> readers_;                // by tensor
  std::vector<std::optional<size_t>> makers_;  // by tensor: the step
  std::vector<bool> gone_;                     // by step
};

}  // namespace

Leeway leeway_of(const plan::Job& job) {
  return {.tf32 = job.precision == "tf32", .any_order = !job.deterministic};
}

plan::Job fuse_gradients(const plan::Job& job, std::span<const size_t> segments,
                         std::span<const TensorId> visible, Libraries& libraries) {
  return GradientFuser(job, segments, visible, libraries).fuse();
}

}  // namespace flow::cuda
