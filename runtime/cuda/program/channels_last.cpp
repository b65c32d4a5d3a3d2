// A pass from plan to plan in which each image has a version with channels last, a version as in
// the plan, or both.
#include "runtime/cuda/program/passes.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "ops/core/known.h"
#include "ops/core/spec.h"
#include "runtime/base/array.h"
#include "runtime/cuda/loops/kernel.h"
#include "runtime/cuda/program/steps.h"
#include "runtime/plan/model/lifetimes.h"
#include "runtime/plan/model/precision.h"

namespace flow::cuda {
namespace {

using plan::TensorId;
using Integers = std::vector<int64_t>;

/// Returns true if the step is a convolution that uses tensor cores and runs in every call.
bool uses_tensor_cores(const plan::Job& job, const plan::Step& step) {
  if (!step.op->convolves() || step.probe) return false;
  const DType dtype = job[step.inputs[0]].dtype;
  return is_low_precision(dtype) || (dtype == DType::kFloat32 && math_mode_of(job).tf32);
}

Shape channels_last(const Shape& shape) { return {shape[0], shape[2], shape[3], shape[1]}; }

/// Returns true if an image of this shape, [N, C, H, W], has the same bytes in both layouts.
bool layouts_coincide(const Shape& shape) { return shape[1] == 1 || shape.elements(2, 4) == 1; }

class ImageMover {
 public:
  ImageMover(const plan::Job& job, std::span<const TensorId> delivered,
             std::span<const TensorId> transferred, Versions* shown)
      : job_(job),
        shown_(shown),
        low_precision_(plan::low_precision_of(job.precision)),
        places_(job.tensors.size()),
        uses_(job.tensors.size()) {
    for (size_t i = 0; i < places_.size(); ++i) places_[i].plain = TensorId(i);
    for (const TensorId id : delivered) uses_[id.index()].delivered = true;
    for (const TensorId id : transferred) uses_[id.index()].transferred = true;
    for (const plan::Step& step : job.steps) {
      for (const TensorId id : step.outputs)
        if (id.valid()) places_[id.index()].plain = TensorId();
      const bool convolves = uses_tensor_cores(job, step);
      plan::visit_operands(step, [&](TensorId id) {
        (convolves ? uses_[id.index()].convolved : uses_[id.index()].read) = true;
      });
    }
  }

  plan::Job move() {
    rewrite_steps(job_, [&](plan::Step step, size_t) {
      origin_ = step;
      add(std::move(step));
    });
    plan::assign_lifetimes(job_);
    return std::move(job_);
  }

 private:
  /// The existing versions of a tensor of the plan. A missing version is invalid.
  struct Places {
    TensorId plain;   // the version as in the plan
    TensorId images;  // the version with channels last
    TensorId probed;  // the version as in the plan, in calls that deliver it
    // True if a step made it with channels last, so that its readers may use that version.
    bool activation = false;
  };
  /// The readers of a tensor of the plan.
  struct Uses {
    bool delivered = false, transferred = false;
    bool convolved = false;  // read by a convolution on tensor cores
    bool read = false;       // read by another step
  };

  void add(plan::Step step) {
    if (step.probe) return add_plain(std::move(step));
    if (step.op->epilogue == ops::Epilogue::kCast) return add_cast(std::move(step));
    if (uses_tensor_cores(job_, step)) return add_moved(std::move(step), ChannelsLast::kFlag);
    const KernelEntry* kernel = find_kernel(step.op.name());
    if (kernel && follows(step, kernel->channels_last))
      return add_moved(std::move(step), kernel->channels_last);
    add_plain(std::move(step));
  }

  /// Returns true if the step may read an image that already has channels last, and read its other
  /// images with channels last, too.
  bool follows(const plan::Step& step, ChannelsLast layout) const {
    const auto is_activation = [&](TensorId id) { return places_[id.index()].activation; };
    if (std::ranges::none_of(step.inputs, is_activation)) return false;
    const auto channels_are_axis = [&] { return step.attributes.get<int64_t>("axis") == 1; };
    switch (layout) {
      case ChannelsLast::kNo:
        return false;
      case ChannelsLast::kSame:
        return std::ranges::all_of(step.inputs, [&](TensorId id) {
          return job_[id].shape == job_[step.outputs[0]].shape;
        });
      case ChannelsLast::kAxis:
        if (step.op->epilogue == ops::Epilogue::kBias &&
            job_[step.inputs[1]].dtype != dtype_of_images(job_[step.inputs[0]].dtype))
          return false;
        return channels_are_axis();
      case ChannelsLast::kAxes:
        return step.attributes.get<Integers>("axes") == Integers{2, 3};
      case ChannelsLast::kFlag:
        return true;
    }
    return false;
  }

  /// A cast to 16 bits before a convolution is part of the conversion to channels last. Between
  /// versions with channels last, which have 16 bits, a cast does nothing.
  void add_cast(plan::Step step) {
    const TensorId from = step.inputs[0], to = step.outputs[0];
    const Places known = places_[from.index()];
    const bool same_images = dtype_of_images(job_[from].dtype) == dtype_of_images(job_[to].dtype);
    if (!known.plain.valid() && known.images.valid() && same_images) {
      places_[to.index()].images = known.images;
      places_[to.index()].activation = known.activation;
      show(known.images, to);
      return deliver(to);
    }
    const Uses uses = uses_[to.index()];
    if (known.plain.valid() && uses.convolved && same_images && job_[to].shape.rank() == 4) {
      places_[to.index()].images = add_images(to);
      convert(known.plain, places_[to.index()].images, {0, 2, 3, 1}, false);
      if (!uses.read && !uses.delivered && !uses.transferred && !job_[to].combine) return;
    }
    add_plain(std::move(step));
  }

  void add_plain(plan::Step step) {
    const std::vector<TensorId> inputs = step.inputs;
    for (TensorId& id : step.inputs) id = plain(id, step.probe);
    for (plan::EpilogueOp& fused : step.epilogue)
      for (TensorId& id : fused.operands) id = plain(id, step.probe);
    for (const TensorId id : step.outputs) {
      if (!id.valid()) continue;
      keep_alias(id, id, inputs, step.inputs);
      places_[id.index()].plain = id;
    }
    job_.steps.push_back(std::move(step));
  }

  void add_moved(plan::Step step, ChannelsLast layout) {
    const std::vector<TensorId> inputs = step.inputs, outputs = step.outputs;
    for (TensorId& id : step.inputs)
      id = job_[id].shape.rank() == 4 ? images(id) : plain(id, false);
    if (layout == ChannelsLast::kAxis) step.attributes.set("axis", int64_t{3});
    if (layout == ChannelsLast::kAxes) step.attributes.set("axes", Integers{1, 2});
    if (layout == ChannelsLast::kFlag) step.attributes.set(kChannelsLast, true);
    for (size_t i = 0; i < outputs.size(); ++i) {
      const TensorId id = outputs[i];
      if (!id.valid()) continue;
      if (job_[id].shape.rank() != 4 || layout == ChannelsLast::kAxes) {
        places_[id.index()].plain = id;
        continue;
      }
      const TensorId moved = add_images(id);
      keep_alias(id, moved, inputs, step.inputs);
      places_[id.index()].images = step.outputs[i] = moved;
      places_[id.index()].activation = step.op->result(i).images != ops::Images::kFilters;
    }
    job_.steps.push_back(std::move(step));
    for (const TensorId id : outputs)
      if (id.valid() && !places_[id.index()].plain.valid()) deliver(id);
  }

  /// Lets `made`, a version of `of`, alias what `of` may alias, in the version that the step reads.
  void keep_alias(TensorId of, TensorId made, const std::vector<TensorId>& inputs,
                  const std::vector<TensorId>& versions) {
    const TensorId alias = std::exchange(job_.tensors[of.index()].alias, TensorId());
    const auto found = std::ranges::find(inputs, alias);
    TensorId version = found == inputs.end() ? alias : versions[found - inputs.begin()];
    if (made != of && (found == inputs.end() || job_[version].dtype != job_[made].dtype))
      version = TensorId();
    job_.tensors[made.index()].alias = version;
  }

  /// Makes the plan's version of a tensor that a step has just made with channels last, for readers
  /// that are not steps.
  void deliver(TensorId id) {
    job_.tensors[id.index()].alias = TensorId();
    if (job_[id].combine || uses_[id.index()].transferred) {
      plain(id, false);
    } else if (uses_[id.index()].delivered) {
      convert(places_[id.index()].images, id, {0, 3, 1, 2}, true);
      places_[id.index()].probed = id;
    }
  }

  /// Returns the tensor as in the plan, for a step that may be a probe.
  TensorId plain(TensorId id, bool probe) {
    const Places known = places_[id.index()];
    if (known.plain.valid()) return known.plain;
    if (probe && known.probed.valid()) return known.probed;
    const TensorId made = probe || known.probed == id ? add_tensor(job_[id]) : id;
    convert(known.images, made, {0, 3, 1, 2}, probe);
    (probe ? places_[id.index()].probed : places_[id.index()].plain) = made;
    return made;
  }

  /// Returns the tensor with channels last.
  TensorId images(TensorId id) {
    if (!places_[id.index()].images.valid()) {
      const TensorId made = add_images(id);
      convert(places_[id.index()].plain, made, {0, 2, 3, 1}, false);
      places_[id.index()].images = made;
    }
    return places_[id.index()].images;
  }

  /// Returns the dtype of the version with channels last of a tensor of `dtype`.
  DType dtype_of_images(DType dtype) const {
    return dtype == DType::kFloat32 ? low_precision_.value_or(dtype) : dtype;
  }

  TensorId add_images(TensorId of) {
    // The axis with channels last, indexed by the axis in the plan.
    constexpr int kAxes[] = {0, 3, 1, 2};
    plan::Tensor tensor = job_[of];
    tensor.name += ":nhwc";
    tensor.dtype = dtype_of_images(tensor.dtype);
    tensor.shape = channels_last(tensor.shape);
    if (tensor.batch_axis >= 0) tensor.batch_axis = kAxes[tensor.batch_axis];
    const TensorId made = add_tensor(std::move(tensor));
    show(made, of);
    return made;
  }

  void show(TensorId images, TensorId of) {
    if (shown_) shown_->push_back({images, of, true});
  }

  TensorId add_tensor(plan::Tensor tensor) {
    const TensorId id = add_result(job_, std::move(tensor));
    places_.push_back({id, {}, {}});
    uses_.emplace_back();
    return id;
  }

  /// Adds the step that makes one version of a tensor from the other. If both have the same bytes,
  /// `to` may alias `from`.
  void convert(TensorId from, TensorId to, const Integers& permutation, bool probe) {
    const bool planar = permutation[1] == 3;  // true if `to` is as in the plan
    const DType dtype = job_[to].dtype;
    plan::Step step = make_step(origin_, ops::kReshape->name,
                                planar ? job_[from].name + ":nchw" : job_[to].name, from, to);
    step.probe = probe;
    if (!layouts_coincide(job_[planar ? to : from].shape)) {
      step.op = "transpose";
      step.attributes.set("perm", permutation);
    } else if (dtype != job_[from].dtype) {
      step.op = ops::kCast->name;
      step.attributes.set("dtype", dtype);
    } else {
      step.attributes.set("shape", job_[to].shape.extents());
      job_.tensors[to.index()].alias = from;
    }
    job_.steps.push_back(std::move(step));
  }

  plan::Job job_;
  Versions* const shown_;  // may be null
  const std::optional<DType> low_precision_;
  std::vector<Places> places_;  // indexed by tensor
  std::vector<Uses> uses_;      // indexed by tensor
  plan::Step origin_;           // the step for which conversions are added
};

}  // namespace

plan::Job move_channels_last(const plan::Job& job, std::span<const TensorId> delivered,
                             std::span<const TensorId> transferred, Versions* versions) {
  const auto moves = [&](const plan::Step& step) { return uses_tensor_cores(job, step); };
  if (std::ranges::none_of(job.steps, moves)) return job;
  return ImageMover(job, delivered, transferred, versions).move();
}

}  // namespace flow::cuda
