// Recurrent layers in plans: finds the steps that belong to a layer.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/cuda/libraries/libraries.h"
#include "runtime/cuda/program/steps.h"
#include "runtime/plan/model/plan.h"

namespace flow::cuda {

/// The positions of the operands and results of a cell's steps and of their gradients.
struct CellOperands {
  const ops::OpSpec *steps, *gradients;
  // True if c follows h; dc0 then follows dh0 in the gradients.
  bool has_c = false;
  std::optional<size_t> own_bias = {};  // the bias of W h
  size_t h0;                            // c0 follows it
  size_t kept;                          // the first result that only the gradients read
  size_t of_gradients_h0, of_gradients_out;
  /// The result of the gradients that is the gradient of W h + b, if it is not the first one.
  std::optional<size_t> hidden = {};

  size_t operands() const { return h0 + (has_c ? 2 : 1); }  // excludes lengths
};

/// Returns the operands of the cell that the step computes, or null if it computes no cell.
const CellOperands* find_cell(const plan::Step& step);

/// Returns result i of a step, or an invalid id if the step has fewer results.
plan::TensorId result_of(const plan::Step& step, size_t i);

/// Weights and biases, or their gradients. The id of a missing one is invalid.
struct LayerWeights {
  plan::TensorId input, recurrent, input_bias, recurrent_bias;
};

/// One layer in one direction. Steps are indices into the job's steps.
struct PlannedLayer {
  const CellOperands& of;
  size_t steps;
  RecurrentSpec::Cell cell = {};
  std::vector<size_t> inner = {};  // the steps that only make the gates of x
  plan::TensorId x = {};           // all steps of all rows, [N T, features]
  LayerWeights weights = {};
  std::optional<size_t> gradients = {};      // the step of the gradients, if the layer is trained
  std::vector<size_t> inner_gradients = {};  // the steps that view its results
  std::vector<size_t> products = {};         // the steps that make dx and dweights from these
  plan::TensorId dx = {};                    // invalid if no step reads it
  LayerWeights dweights = {};
};

/// Completes a layer whose `of` and `steps` are set. Returns the reason why the library cannot
/// compute the layer, or an empty string if it can; sets layer.gradients in both cases. `parts`
/// contains, for each step, the part of a call in which it runs.
std::string complete_layer(const plan::Job& job, std::span<const TensorUses> uses,
                           std::span<const size_t> parts, PlannedLayer& layer);

}  // namespace flow::cuda
