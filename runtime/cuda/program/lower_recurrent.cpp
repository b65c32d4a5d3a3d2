// A pass from plan to plan that turns recurrent layers into calls of the library, if trials with
// arbitrary numbers show that the library runs them.
#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "ops/core/known.h"
#include "ops/recurrent/cuda_library.h"
#include "runtime/base/error.h"
#include "runtime/cuda/driver/driver.h"
#include "runtime/cuda/libraries/libraries.h"
#include "runtime/cuda/libraries/stopwatch.h"
#include "runtime/cuda/loops/kernel.h"
#include "runtime/cuda/program/passes.h"
#include "runtime/cuda/program/recurrent_layers.h"
#include "runtime/cuda/program/steps.h"

namespace flow::cuda {
namespace {

/// Returns the operands and results of a layer in the order of the members of RecurrentBuffers.
std::vector<TrialMemory::Part> layer_parts(const RecurrentSpec& spec,
                                           const RecurrentKernel& kernel) {
  const size_t size = size_of(spec.dtype), units = static_cast<size_t>(spec.units) * size,
               rows = static_cast<size_t>(spec.rows), all = rows * static_cast<size_t>(spec.steps),
               state = rows * units, cell = spec.cell == RecurrentSpec::Cell::kLstm ? state : 0,
               x = all * static_cast<size_t>(spec.features) * size;
  std::vector<size_t> bytes = {x, kernel.weights, state, cell, all * units, state, cell};
  if (spec.trains)
    for (const size_t more : {all * units, state, cell, x, state, cell, kernel.weights})
      bytes.push_back(more);
  std::vector<TrialMemory::Part> parts;
  for (const size_t part : bytes) parts.push_back({spec.dtype, part});
  parts.push_back({DType::kUInt8, spec.trains ? kernel.reserve : 0});
  return parts;
}

RecurrentBuffers buffers_in(const TrialMemory& memory, bool trains) {
  RecurrentBuffers b{};
  b.x = memory.part(0), b.weights = memory.part(1), b.h0 = memory.part(2), b.c0 = memory.part(3);
  b.y = memory.part(4), b.h = memory.part(5), b.c = memory.part(6);
  b.reserve = memory.part(trains ? 14 : 7);
  b.workspace = memory.workspace();
  if (!trains) return b;
  b.dy = memory.part(7), b.dh = memory.part(8), b.dc = memory.part(9);
  b.dx = memory.part(10), b.dh0 = memory.part(11), b.dc0 = memory.part(12);
  b.dweights = memory.part(13);
  return b;
}

void run_captured(Driver& driver, Stream stream, const std::function<void()>& put) {
  driver.begin_capture(stream);
  try {
    put();
  } catch (const RunError&) {
    try {
      driver.destroy(driver.end_capture(stream));
    } catch (const RunError&) {
      // The original failure is the one to report.
    }
    throw;
  }
  const OwnedGraph graph(driver, driver.end_capture(stream));
  driver.launch(graph.get(), stream);
  driver.synchronize(stream);
}

/// Runs a layer with this spec but few rows and steps, and its gradients if it is trained: first
/// directly, so that the library completes its setup before a call is captured, and then captured.
/// Returns the reason if one of them fails, or an empty string. Throws RunError if the device has
/// no memory left for the trial, because the choice of a job's kernels must not depend on the
/// memory that other processes use.
std::string try_recurrent(RecurrentSpec spec, Libraries& libraries, Driver& driver) {
  constexpr int64_t kMostRows = 2, kMostSteps = 3;
  spec.rows = std::min(spec.rows, kMostRows);
  spec.steps = std::min(spec.steps, kMostSteps);
  std::vector<RecurrentKernel> kernels;
  for (const auto pass : {RecurrentSpec::Pass::kForward, RecurrentSpec::Pass::kGrad}) {
    if (pass == RecurrentSpec::Pass::kGrad && !spec.trains) continue;
    spec.pass = pass;
    Expected<RecurrentKernel> found = libraries.find(spec);
    if (!found) return found.error().what();
    kernels.push_back(std::move(found).value());
  }
  const OwnedStream stream(driver, driver.create_stream());
  const size_t workspace = std::ranges::max(kernels, {}, &RecurrentKernel::workspace).workspace;
  const TrialMemory memory(driver, stream.get(), layer_parts(spec, kernels[0]), workspace);
  const RecurrentBuffers buffers = buffers_in(memory, spec.trains);
  const auto put = [&] {
    for (const RecurrentKernel& kernel : kernels) kernel.run(buffers, stream.get());
  };
  try {
    put();
    driver.synchronize(stream.get());
    run_captured(driver, stream.get(), put);
  } catch (const RunError& error) {
    return error.what();
  }
  return {};
}

using plan::TensorId;

class RecurrentLowering {
 public:
  RecurrentLowering(const plan::Job& job, std::span<const size_t> parts,
                    std::span<const TensorId> visible, size_t most_workspace, Libraries& libraries,
                    Driver& driver)
      : job_(job),
        parts_(parts),
        most_workspace_(most_workspace),
        libraries_(libraries),
        driver_(driver),
        uses_(find_uses(job, visible)),
        edits_(job.steps.size()) {}

  plan::Job lower() {
    for (size_t i = 0; i < job_.steps.size(); ++i) {
      const CellOperands* of = find_cell(job_.steps[i]);
      if (!of || job_.steps[i].probe) continue;
      PlannedLayer layer{*of, i};
      const std::string refusal = lower(layer);
      if (refusal.empty()) continue;
      set_refusal(job_.steps[i], refusal);
      if (layer.gradients) set_refusal(job_.steps[*layer.gradients], refusal);
    }
    edits_.apply(job_);
    return std::move(job_);
  }

 private:
  /// A spec that was requested from the library, and the reason if it was refused.
  struct Tried {
    RecurrentSpec spec;
    std::string refusal;
  };
  /// The tensors of the forward pass that the gradients read.
  struct Forward {
    TensorId x, out, reserve;
  };

  /// Lowers the layer, or returns the reason why it cannot.
  std::string lower(PlannedLayer& layer) {
    if (std::string refusal = complete_layer(job_, uses_, parts_, layer); !refusal.empty())
      return refusal;
    if (most_workspace_ == 0) return "the library needs too much memory for it";
    const RecurrentSpec spec = spec_of(layer);
    const Expected<RecurrentKernel> kernel = libraries_.find(spec);
    if (!kernel) return kernel.error().what();
    if (std::string refusal = refusal_of(spec); !refusal.empty()) return refusal;
    keep_watched(layer);
    const Forward forward = replace_steps(layer, spec, *kernel);
    if (spec.trains) replace_gradients(layer, spec, forward);
    return {};
  }

  /// Returns the reason why the gradients or a trial failed, or an empty string. Equal layers are
  /// tried only once.
  std::string refusal_of(const RecurrentSpec& spec) {
    const auto known = std::ranges::find(tried_, spec, &Tried::spec);
    if (known != tried_.end()) return known->refusal;
    std::string refusal;
    if (spec.trains) {
      RecurrentSpec gradients = spec;
      gradients.pass = RecurrentSpec::Pass::kGrad;
      if (const auto found = libraries_.find(gradients); !found) refusal = found.error().what();
    }
    if (refusal.empty()) refusal = try_recurrent(spec, libraries_, driver_);
    return tried_.emplace_back(Tried{spec, std::move(refusal)}).refusal;
  }

  RecurrentSpec spec_of(const PlannedLayer& layer) const {
    const plan::Tensor& out = job_[job_.steps[layer.steps].outputs[0]];
    RecurrentSpec spec{.pass = RecurrentSpec::Pass::kForward,
                       .cell = layer.cell,
                       .dtype = out.dtype,
                       .rows = out.shape[0],
                       .steps = out.shape[1],
                       .features = job_[layer.x].shape[1],
                       .units = out.shape[2]};
    spec.input_bias = layer.weights.input_bias.valid();
    spec.recurrent_bias = layer.weights.recurrent_bias.valid();
    spec.trains = layer.gradients.has_value();
    spec.math_mode = math_mode_of(job_);
    spec.most_workspace = most_workspace_;
    return spec;
  }

  Forward replace_steps(const PlannedLayer& layer, const RecurrentSpec& spec,
                        const RecurrentKernel& kernel) {
    const size_t at = layer.steps;
    const plan::Step before = job_.steps[at];
    Forward forward{layer.x, before.outputs[0], {}};
    if (before.attributes.get<bool>("reverse")) {
      const TensorId steps =
          add_tensor(before.inputs[0], before.name + ":x", {spec.rows, spec.steps, spec.features});
      edits_.add_before(at, reshape(before, layer.x, steps));
      forward.x = flip_before(at, steps);
      forward.out = flip_behind(at, forward.out);
    }
    plan::Step& step = job_.steps[at];
    const LayerWeights& weights = layer.weights;
    step.inputs = {forward.x, weights.input, weights.recurrent, before.inputs[layer.of.h0]};
    if (layer.of.has_c) step.inputs.push_back(before.inputs[layer.of.h0 + 1]);
    for (const TensorId bias : {weights.input_bias, weights.recurrent_bias})
      if (bias.valid()) step.inputs.push_back(bias);
    step.outputs.resize(layer.of.kept);
    step.outputs[0] = forward.out;
    if (spec.trains) {
      forward.reserve = add_tensor(forward.out, before.name + ".reserve",
                                   {static_cast<int64_t>(reserve_bytes(kernel))});
      job_.tensors[forward.reserve.index()].dtype = DType::kUInt8;
      step.outputs.push_back(forward.reserve);
    }
    set_library_layer(step, spec);
    return forward;
  }

  void replace_gradients(const PlannedLayer& layer, const RecurrentSpec& spec,
                         const Forward& forward) {
    const size_t at = *layer.gradients;
    const plan::Step before = job_.steps[at];
    const bool reverse = before.attributes.get<bool>("reverse");
    TensorId dy = before.inputs[0], dx = layer.dx;
    if (reverse) dy = flip_before(at, dy);
    if (reverse && dx.valid()) {
      const TensorId steps = add_tensor(forward.x, before.name + ":dx", job_[forward.x].shape);
      plan::Step flat = reshape(before, steps, dx);
      dx = flip_behind(at, steps);
      edits_.add_behind(at, std::move(flat));
    }
    if (!dx.valid()) dx = add_tensor(forward.x, before.name + ":dx", job_[forward.x].shape);
    const size_t h0 = layer.of.of_gradients_h0;
    plan::Step& step = job_.steps[at];
    step.inputs = {dy, before.inputs[1]};
    if (layer.of.has_c) step.inputs.push_back(before.inputs[2]);
    step.inputs.push_back(before.inputs[h0]);
    if (layer.of.has_c) step.inputs.push_back(before.inputs[h0 + 1]);
    for (const TensorId id : {forward.out, forward.reserve, forward.x}) step.inputs.push_back(id);
    const LayerWeights& made = layer.dweights;
    step.outputs = {dx,
                    result_of(before, 2),
                    layer.of.has_c ? result_of(before, 3) : TensorId(),
                    made.input,
                    made.recurrent,
                    made.input_bias,
                    made.recurrent_bias};
    set_library_layer(step, spec);
  }

  /// Removes the steps that become part of the library's calls. If some of their results are
  /// visible, the steps become probes for the calls that deliver these results.
  void keep_watched(const PlannedLayer& layer) {
    const bool gradients = layer.gradients && sees_gradients(layer);
    const bool steps = gradients || sees_kept(layer);
    remove(layer.inner, steps || sees_results(layer.inner));
    remove(layer.inner_gradients, gradients);
    remove(layer.products, false);
    if (steps) {
      plan::Step own = job_.steps[layer.steps];
      const TensorId out = own.outputs[0];
      std::fill_n(own.outputs.begin(), std::min(layer.of.kept, own.outputs.size()), TensorId());
      own.outputs[0] = add_tensor(out, own.name + ":tap", job_[out].shape);
      edits_.add_probe(layer.steps, std::move(own));
    }
    if (!gradients) return;
    plan::Step own = job_.steps[*layer.gradients];
    for (size_t i = 2; i < own.outputs.size(); ++i)
      if (i != layer.of.hidden) own.outputs[i] = {};
    edits_.add_probe(*layer.gradients, std::move(own));
  }

  bool is_seen(TensorId id) const { return id.valid() && uses_[id.index()].seen; }

  bool sees_kept(const PlannedLayer& layer) const {
    const plan::Step& step = job_.steps[layer.steps];
    for (size_t i = layer.of.kept; i < step.outputs.size(); ++i)
      if (is_seen(step.outputs[i])) return true;
    return false;
  }

  bool sees_gradients(const PlannedLayer& layer) const {
    const plan::Step& step = job_.steps[*layer.gradients];
    return is_seen(result_of(step, 0)) || is_seen(result_of(step, 1)) ||
           (layer.of.hidden && is_seen(result_of(step, *layer.of.hidden))) ||
           sees_results(layer.inner_gradients);
  }

  bool sees_results(const std::vector<size_t>& steps) const {
    return std::ranges::any_of(steps, [&](size_t i) { return is_seen(job_.steps[i].outputs[0]); });
  }

  void remove(const std::vector<size_t>& steps, bool keep_as_probes) {
    for (const size_t step : steps) {
      if (keep_as_probes)
        job_.steps[step].probe = true;
      else
        edits_.remove(step);
    }
  }

  TensorId add_tensor(TensorId like, std::string name, Shape shape) {
    plan::Tensor tensor = job_[like];
    tensor.name = std::move(name);
    tensor.shape = std::move(shape);
    return add_result(job_, std::move(tensor));
  }

  /// Returns a separate step for an operand or result of a layer, named after the layer.
  static plan::Step step_of(const plan::Step& layer, const ops::OpSpec* op, std::string_view part,
                            TensorId from, TensorId to) {
    plan::Step step = make_step(layer, op->name, layer.name + ":" + std::string(part), from, to);
    step.per_shard = layer.per_shard;
    return step;
  }

  /// Returns a step that makes `to` a view of `from`.
  plan::Step reshape(const plan::Step& layer, TensorId from, TensorId to) {
    job_.tensors[to.index()].alias = from;
    plan::Step step = step_of(layer, ops::kReshape, "reshape", from, to);
    step.attributes.set("shape", job_[to].shape.extents());
    return step;
  }

  // The library starts with the first step. For the other direction, the order of steps is reversed
  // before and after its call.

  static plan::Step flip(const plan::Step& layer, std::string_view part, TensorId from,
                         TensorId to) {
    plan::Step step = step_of(layer, ops::kFlip, part, from, to);
    step.attributes.set("axes", std::vector<int64_t>{1});
    return step;
  }

  /// Returns the operand with its steps in reverse order.
  TensorId flip_before(size_t at, TensorId id) {
    const plan::Step& layer = job_.steps[at];
    const TensorId made = add_tensor(id, layer.name + ":flip", job_[id].shape);
    edits_.add_before(at, flip(layer, "flip", id, made));
    return made;
  }

  /// Returns the tensor that the library makes in place of the result `id`.
  TensorId flip_behind(size_t at, TensorId id) {
    const plan::Step& layer = job_.steps[at];
    const TensorId made = add_tensor(id, layer.name + ":flip_back", job_[id].shape);
    edits_.add_behind(at, flip(layer, "flip_back", made, id));
    return made;
  }

  plan::Job job_;
  std::span<const size_t> parts_;
  const size_t most_workspace_;
  Libraries& libraries_;
  Driver& driver_;
  std::vector<Tried> tried_;
  const std::vector<TensorUses> uses_;  // indexed by tensor
  StepEdits edits_;
};

}  // namespace

plan::Job lower_recurrent(const plan::Job& job, std::span<const size_t> parts,
                          std::span<const TensorId> visible, size_t most_workspace,
                          Libraries& libraries, Driver& driver) {
  return RecurrentLowering(job, parts, visible, most_workspace, libraries, driver).lower();
}

}  // namespace flow::cuda
