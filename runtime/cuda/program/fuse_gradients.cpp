// A pass from plan to plan that makes steps parts of products.
#include "runtime/cuda/program/passes.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "ops/core/known.h"
#include "ops/products/cuda.h"
#include "runtime/cuda/libraries/validate_epilogues.h"
#include "runtime/cuda/loops/epilogue.h"
#include "runtime/cuda/loops/kernel.h"
#include "runtime/cuda/program/steps.h"

namespace flow::cuda {

using plan::TensorId;

namespace {

class GradientFuser {
 public:
  GradientFuser(const plan::Job& job, std::span<const size_t> parts,
                std::span<const TensorId> visible, Libraries& libraries, Driver& driver)
      : job_(job),
        parts_(parts),
        libraries_(libraries),
        driver_(driver),
        tensors_(find_uses(job, visible)),
        edits_(job.steps.size()) {}

  plan::Job fuse() {
    for (size_t i = 0; i < job_.steps.size(); ++i) {
      if (edits_.is_gone(i) || job_.steps[i].probe || !job_.steps[i].epilogue.empty()) continue;
      if (job_.steps[i].op->gradient_of == ops::Epilogue::kRelu) fuse_relu_grad(i);
      if (job_.steps[i].op->gradient_of == ops::Epilogue::kBias) fuse_bias_grad(i);
    }
    edits_.apply(job_);
    return std::move(job_);
  }

 private:
  struct Answer {
    MatmulSpec spec;
    bool has;
  };
  struct Pair {
    MatmulSpec writer, reader;
    bool fit;
  };

  /// Fuses dx = (dy where y > 0, else 0), where y is a product with a ReLU as its last epilogue op,
  /// and dy is a product that no other step reads. A cast may have rounded either of them.
  void fuse_relu_grad(size_t at) {
    const plan::Step& gradient = job_.steps[at];
    const TensorId dy = gradient.inputs[0], y = gradient.inputs[1], dx = gradient.outputs[0];
    const std::optional<size_t> cast = cast_to(dy);
    const std::optional<size_t> back = product_of(cast ? job_.steps[*cast].inputs[0] : dy);
    const std::optional<size_t> forward = product_behind(y);
    if (!back || !forward || *forward > *back || tensors_[dy.index()].readers.size() != 1) return;
    if (job_.sharding && parts_[*back] != parts_[at]) return;
    plan::Step &product = job_.steps[*back], &rectified = job_.steps[*forward];
    const TensorId made = product.outputs[0];
    if (tensors_[made.index()].readers.size() != 1) return;
    const Aside kept = aside_of(rectified);
    const bool keeps_mask = kept == Aside::kStoreMask;
    if (!is_plain(product)) return;
    if (kept != Aside::kNothing && !keeps_mask) return;
    if (!has(rectified, Aside::kStoreMask) || !has(product, Aside::kReadMask)) return;
    if (!fit_together(rectified, product)) return;

    const bool seen = tensors_[made.index()].seen || tensors_[dy.index()].seen;
    if (seen) edits_.add_probe(*back, job_.steps[*back]);
    if (seen && cast) edits_.add_probe(*cast, job_.steps[*cast]);
    if (!keeps_mask) {
      rectified.outputs.push_back(add_mask(y));
      set_aside(rectified, Aside::kStoreMask);
    }
    product.inputs.push_back(rectified.outputs[1]);
    set_aside(product, Aside::kReadMask);
    if (cast) {
      product.outputs = {seen ? add_tensor(job_[made]) : made};
      job_.steps[*cast].inputs = product.outputs;
    }
    const size_t last = cast.value_or(*back);
    job_.steps[last].outputs = {dx};
    tensors_[dx.index()].maker = last;
    job_.tensors[dx.index()].alias = TensorId();
    edits_.remove(at);
  }

  /// Fuses dbias = the sum of dy over its rows with a product that also sums over them. The product
  /// then takes the position of the first of the two steps, because the bias may be updated before
  /// the gradient of the weight is made.
  void fuse_bias_grad(size_t at) {
    const plan::Step& gradient = job_.steps[at];
    const TensorId dy = gradient.inputs[0], dbias = gradient.outputs[0];
    if (job_[dy].shape.rank() != 2 || gradient.attributes.get<int64_t>("axis") != 1) return;
    for (const size_t i : tensors_[dy.index()].readers) {
      plan::Step& product = job_.steps[i];
      if (product.op != ops::kMatmul) continue;
      // A product that was moved left a removed step at its old position, and already has a second
      // result.
      if (edits_.is_gone(i) || !is_plain(product) || !may_take(i, at)) continue;
      const bool of_a = product.inputs[0] == dy && product.attributes.get<bool>("transpose_a");
      const bool of_b = product.inputs[1] == dy && !product.attributes.get<bool>("transpose_b");
      const Aside sums = of_a ? Aside::kSumsOfA : Aside::kSumsOfB;
      if ((!of_a && !of_b) || !has(product, sums)) continue;
      product.outputs.push_back(dbias);
      set_aside(product, sums);
      if (i > at) std::swap(product, job_.steps[at]);
      edits_.remove(std::max(i, at));
      for (const TensorId id : job_.steps[std::min(i, at)].outputs)
        tensors_[id.index()].maker = std::min(i, at);
      return;
    }
  }

  /// Returns the step that makes `id` as its first result, if it runs in every call.
  std::optional<size_t> maker_of(TensorId id) const {
    const std::optional<size_t>& maker = tensors_[id.index()].maker;
    if (!maker) return {};
    const plan::Step& step = job_.steps[*maker];
    return !step.probe && step.outputs[0] == id ? maker : std::nullopt;
  }

  /// Returns the step that makes `id`, if it is a cast.
  std::optional<size_t> cast_to(TensorId id) const {
    const std::optional<size_t> maker = maker_of(id);
    return maker && job_.steps[*maker].op->epilogue == ops::Epilogue::kCast ? maker : std::nullopt;
  }

  /// Returns the step that makes `id`, if it is a product of matrices.
  std::optional<size_t> product_of(TensorId id) const {
    const std::optional<size_t> maker = maker_of(id);
    return maker && job_.steps[*maker].op == ops::kMatmul ? maker : std::nullopt;
  }

  /// Returns the product that makes `id`, directly or through a cast. Rounding keeps positive
  /// values positive.
  std::optional<size_t> product_behind(TensorId id) const {
    const std::optional<size_t> cast = cast_to(id);
    return product_of(cast ? job_.steps[*cast].inputs[0] : id);
  }

  static bool is_plain(const plan::Step& product) {
    return product.epilogue.empty() && aside_of(product) == Aside::kNothing;
  }

  /// Returns true if product `i` may also do the work of step `at`, at the position of the first of
  /// the two.
  bool may_take(size_t i, size_t at) const {
    if (job_.steps[i].probe || parts_[i] != parts_[at]) return false;
    return i < at || std::ranges::all_of(job_.steps[i].inputs, [&](TensorId id) {
             const std::optional<size_t>& maker = tensors_[id.index()].maker;
             return maker ? *maker < at : job_[id].role == plan::Role::kInput;
           });
  }

  /// Returns the spec of the step with `aside`, if the step is a single product.
  std::optional<MatmulSpec> spec_of(const plan::Step& step, Aside aside) const {
    const plan::Tensor &a = job_[step.inputs[0]], &b = job_[step.inputs[1]];
    auto [spec, starts] = products_of(step, a.dtype, a.shape, b.shape, job_[step.outputs[0]].shape,
                                      math_mode_of(job_));
    const auto epilogue = whole_epilogue(step, job_[step.outputs[0]].shape.rank() - 1);
    if (!epilogue || (aside == Aside::kStoreMask && !epilogue->relu)) return {};
    if (starts.size() != 1 || spec.out.rank() != 2) return {};
    spec.aside = aside;
    spec.epilogue = *epilogue;
    return spec;
  }

  /// Returns true if the libraries have the product.
  bool has(const plan::Step& step, Aside aside) {
    const std::optional<MatmulSpec> spec = spec_of(step, aside);
    if (!spec) return false;
    const auto asked = std::ranges::find(answers_, *spec, &Answer::spec);
    return asked != answers_.end() ? asked->has
                                   : answers_.emplace_back(Answer{*spec, has(*spec)}).has;
  }

  /// Returns true if `product` correctly reads the mask that `rectified` stores. REQUIRES: The
  /// libraries have both.
  bool fit_together(const plan::Step& rectified, const plan::Step& product) {
    const MatmulSpec writer = *spec_of(rectified, Aside::kStoreMask);
    const MatmulSpec reader = *spec_of(product, Aside::kReadMask);
    if (writer.out != reader.out) return false;
    const auto asked = std::ranges::find_if(
        pairs_, [&](const Pair& pair) { return pair.writer == writer && pair.reader == reader; });
    if (asked != pairs_.end()) return asked->fit;
    const LibraryKernel writing = libraries_.find(writer).value();
    const LibraryKernel reading = libraries_.find(reader).value();
    const bool fit = reads_mask_of({reading, reader}, {writing, writer}, driver_);
    return pairs_.emplace_back(Pair{writer, reader, fit}).fit;
  }

  bool has(const MatmulSpec& spec) {
    const Expected<LibraryKernel> kernel = libraries_.find(spec);
    return kernel && passes_validation(*kernel, spec, driver_);
  }

  TensorId add_mask(TensorId of) {
    plan::Tensor mask = job_[of];
    const int columns = mask.shape.rank() - 1;
    mask.name += ":mask";
    mask.dtype = DType::kUInt8;
    mask.shape = mask_shape({mask.shape.elements(0, columns), mask.shape[columns]});
    return add_tensor(std::move(mask));
  }

  TensorId add_tensor(plan::Tensor tensor) {
    tensors_.emplace_back();
    return add_result(job_, std::move(tensor));
  }

  plan::Job job_;
  std::span<const size_t> parts_;
  Libraries& libraries_;
  Driver& driver_;
  std::vector<TensorUses> tensors_;
  std::vector<Answer> answers_;
  std::vector<Pair> pairs_;
  StepEdits edits_;
};

}  // namespace

plan::Job fuse_gradients(const plan::Job& job, std::span<const size_t> parts,
                         std::span<const TensorId> visible, Libraries& libraries, Driver& driver) {
  return GradientFuser(job, parts, visible, libraries, driver).fuse();
}

}  // namespace flow::cuda
