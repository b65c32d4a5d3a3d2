// Finds the products that belong to the steps of a cell.
#include "runtime/cuda/program/recurrent_layers.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "ops/core/known.h"
#include "ops/products/cuda.h"
#include "ops/recurrent/cuda_library.h"
#include "runtime/base/error.h"

namespace flow::cuda {
namespace {

using plan::TensorId;

/// A step that reads a tensor, which may be a view of another one.
struct ViewReader {
  size_t step;
  TensorId tensor;
};

/// Finds the steps of a layer. A function that refuses the layer sets the reason and returns false.
class LayerFinder {
 public:
  LayerFinder(const plan::Job& job, std::span<const TensorUses> uses, std::span<const size_t> parts,
              PlannedLayer& layer)
      : job_(job), uses_(uses), parts_(parts), layer_(layer) {}

  std::string find() {
    const bool found = find_gradients() && find_cell_type() && find_product() &&
                       (!layer_.gradients || find_gradient_products());
    return found ? "" : refusal_;
  }

 private:
  bool refuse(std::string reason) {
    refusal_ = std::move(reason);
    return false;
  }
  bool refuse_gates() { return refuse("another step reads its gates"); }
  bool refuse_gate_gradients() { return refuse("another step reads the gradients of its gates"); }

  /// Finds the step of the gradients. It must be the only reader of the data that the layer's steps
  /// keep for it.
  bool find_gradients() {
    const plan::Step& step = job_.steps[layer_.steps];
    for (const size_t reader : uses_[step.outputs[0].index()].readers) {
      const plan::Step& other = job_.steps[reader];
      if (other.op != layer_.of.gradients ||
          other.inputs[layer_.of.of_gradients_out] != step.outputs[0])
        continue;
      if (layer_.gradients && layer_.gradients != reader)
        return refuse("several steps compute its gradients");
      layer_.gradients = reader;
    }
    for (size_t i = layer_.of.kept; i < step.outputs.size(); ++i)
      if (step.outputs[i].valid())
        for (const size_t reader : uses_[step.outputs[i].index()].readers)
          if (reader != layer_.gradients) return refuse_gates();
    return true;
  }

  bool find_cell_type() {
    const plan::Step& step = job_.steps[layer_.steps];
    const Expected<RecurrentSpec::Cell> cell = library_cell(step);
    if (!cell) return refuse(cell.error().what());
    layer_.cell = *cell;
    return step.inputs.size() <= layer_.of.operands() || refuse("it has lengths");
  }

  /// Finds the product of which the gates of x are views, and which may have a bias.
  bool find_product() {
    const plan::Step& step = job_.steps[layer_.steps];
    layer_.weights.recurrent = step.inputs[1];
    if (layer_.of.own_bias) layer_.weights.recurrent_bias = step.inputs[*layer_.of.own_bias];
    TensorId made = step.inputs[0];
    for (;;) {
      const TensorUses& uses = uses_[made.index()];
      if (!uses.maker) return refuse_product();
      if (uses.readers.size() != 1) return refuse_gates();
      if (!runs_with(*uses.maker, layer_.steps)) return false;
      layer_.inner.push_back(*uses.maker);
      const plan::Step& before = job_.steps[*uses.maker];
      const bool is_bias = is_of_columns(before, before.op->epilogue);
      if (is_bias && !layer_.weights.input_bias.valid())
        layer_.weights.input_bias = before.inputs[1];
      else if (!is_view(before))
        return take_product(before);
      made = before.inputs[0];
    }
  }

  bool refuse_product() { return refuse("its gates do not come from a product"); }

  bool take_product(const plan::Step& step) {
    if (!is_product(step, false, true)) return refuse_product();
    for (const plan::EpilogueOp& fused : step.epilogue) {
      if (fused.op->epilogue != ops::Epilogue::kBias || layer_.weights.input_bias.valid() ||
          fused.attributes.get<int64_t>("axis") != 1)
        return refuse_product();
      layer_.weights.input_bias = fused.operands[0];
    }
    if (is_low_precision(job_[step.inputs[0]].dtype) ||
        is_low_precision(job_[step.inputs[1]].dtype))
      return refuse("its product is of 16-bit operands");
    layer_.x = step.inputs[0];
    layer_.weights.input = step.inputs[1];
    return true;
  }

  /// Finds the products that read the gradients of the gates. The library makes the results of all
  /// of them.
  bool find_gradient_products() {
    const plan::Step& step = job_.steps[*layer_.gradients];
    const TensorId hidden = layer_.of.hidden ? result_of(step, *layer_.of.hidden) : TensorId();
    std::vector<ViewReader> of_gates, of_hidden, of_states;
    if (!find_readers(result_of(step, 0), of_gates) || !find_readers(hidden, of_hidden) ||
        !find_readers(result_of(step, 1), of_states))
      return false;
    if (!layer_.of.hidden) of_hidden = of_gates;  // includes the product with the states
    if (of_states.size() > 1) return refuse_gate_gradients();
    if (!of_states.empty() && !take_recurrent(of_states[0], of_hidden))
      return refuse_gate_gradients();
    for (const ViewReader& reader : of_gates)
      if (!is_taken(reader) && !take_gradient(reader)) return refuse_gate_gradients();
    for (const ViewReader& reader : of_hidden)
      if (!is_taken(reader) && !take_bias(reader, layer_.dweights.recurrent_bias))
        return refuse_gate_gradients();
    return std::ranges::all_of(layer_.products,
                               [&](size_t i) { return runs_with(i, *layer_.gradients); });
  }

  /// Takes the product of the gradients of W h with the states, which `of_states` reads.
  bool take_recurrent(const ViewReader& of_states, const std::vector<ViewReader>& of_hidden) {
    const auto other = std::ranges::find(of_hidden, of_states.step, &ViewReader::step);
    return other != of_hidden.end() &&
           take_product(*other, true, of_states.tensor, layer_.dweights.recurrent);
  }

  bool take_gradient(const ViewReader& of_gates) {
    return take_product(of_gates, true, layer_.x, layer_.dweights.input) ||
           take_product(of_gates, false, layer_.weights.input, layer_.dx) ||
           take_bias(of_gates, layer_.dweights.input_bias);
  }

  /// Takes the result of the reader if it is the product of the tensor that it reads with `other`.
  /// Returns false if `result` is already set.
  bool take_product(const ViewReader& reader, bool transposed, TensorId other, TensorId& result) {
    const plan::Step& step = job_.steps[reader.step];
    return is_product(step, transposed, false) && step.epilogue.empty() &&
           step.inputs[0] == reader.tensor && step.inputs[1] == other && take(reader, result);
  }

  bool take_bias(const ViewReader& reader, TensorId& result) {
    const plan::Step& step = job_.steps[reader.step];
    return is_of_columns(step, step.op->gradient_of) && take(reader, result);
  }

  bool take(const ViewReader& reader, TensorId& result) {
    if (result.valid()) return false;
    result = job_.steps[reader.step].outputs[0];
    layer_.products.push_back(reader.step);
    return true;
  }

  bool is_taken(const ViewReader& reader) const {
    return std::ranges::find(layer_.products, reader.step) != layer_.products.end();
  }

  /// Finds the steps that read a result of the gradients, directly or through views. The views
  /// become steps of the layer.
  bool find_readers(TensorId id, std::vector<ViewReader>& readers) {
    if (!id.valid()) return true;
    for (const size_t reader : uses_[id.index()].readers) {
      const plan::Step& step = job_.steps[reader];
      if (!is_view(step)) {
        readers.push_back({reader, id});
        continue;
      }
      layer_.inner_gradients.push_back(reader);
      if (!runs_with(reader, *layer_.gradients) || !find_readers(step.outputs[0], readers))
        return false;
    }
    return true;
  }

  bool runs_with(size_t step, size_t other) {
    return parts_[step] == parts_[other] || refuse("its product runs in another part of the call");
  }

  static bool is_view(const plan::Step& step) { return step.op->view && step.epilogue.empty(); }

  bool is_matrix(TensorId id) const { return job_[id].shape.rank() == 2; }

  /// Returns true for a matrix with a row for each step of each row of the batch. A view may have
  /// other rows.
  bool has_all_steps(TensorId id) const {
    const Shape& out = job_[job_.steps[layer_.steps].outputs[0]].shape;
    return is_matrix(id) && job_[id].shape[0] == out[0] * out[1];
  }

  bool is_product(const plan::Step& step, bool transpose_a, bool transpose_b) const {
    return step.op == ops::kMatmul && aside_of(step) == Aside::kNothing &&
           step.attributes.get<bool>("transpose_a") == transpose_a &&
           step.attributes.get<bool>("transpose_b") == transpose_b &&
           has_all_steps(step.inputs[0]) && is_matrix(step.inputs[1]);
  }

  /// Returns true if the step adds a bias to the columns of a matrix, or sums over its rows. `kind`
  /// is the kind of its op, or the kind of which its op is the gradient.
  bool is_of_columns(const plan::Step& step, ops::Epilogue kind) const {
    return kind == ops::Epilogue::kBias && step.epilogue.empty() && has_all_steps(step.inputs[0]) &&
           step.attributes.get<int64_t>("axis") == 1;
  }

  const plan::Job& job_;
  std::span<const TensorUses> uses_;
  std::span<const size_t> parts_;
  PlannedLayer& layer_;
  std::string refusal_;
};

}  // namespace

const CellOperands* find_cell(const plan::Step& step) {
  static const CellOperands kCells[] = {{.steps = ops::kLstmSteps,
                                         .gradients = ops::kLstmStepsGrad,
                                         .has_c = true,
                                         .h0 = 2,
                                         .kept = 3,
                                         .of_gradients_h0 = 4,
                                         .of_gradients_out = 6},
                                        {.steps = ops::kGruSteps,
                                         .gradients = ops::kGruStepsGrad,
                                         .own_bias = 2,
                                         .h0 = 3,
                                         .kept = 2,
                                         .of_gradients_h0 = 3,
                                         .of_gradients_out = 4,
                                         .hidden = 3},
                                        {.steps = ops::kRnnSteps,
                                         .gradients = ops::kRnnStepsGrad,
                                         .h0 = 2,
                                         .kept = 2,
                                         .of_gradients_h0 = 3,
                                         .of_gradients_out = 4}};
  const auto found =
      std::ranges::find_if(kCells, [&](const CellOperands& cell) { return step.op == cell.steps; });
  return found == std::end(kCells) ? nullptr : &*found;
}

TensorId result_of(const plan::Step& step, size_t i) {
  return i < step.outputs.size() ? step.outputs[i] : TensorId();
}

std::string complete_layer(const plan::Job& job, std::span<const TensorUses> uses,
                           std::span<const size_t> parts, PlannedLayer& layer) {
  return LayerFinder(job, uses, parts, layer).find();
}

}  // namespace flow::cuda
