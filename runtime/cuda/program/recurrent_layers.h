// Recurrent layers as plans have them: which steps belong to one.
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

/// Where the steps of a cell, and their gradients, have their operands and results.
struct CellOperands {
  const ops::OpSpec *steps, *gradients;
  bool has_c = false;                   // behind h; of the gradients, dc0 comes behind dh0
  std::optional<size_t> own_bias = {};  // of W h
  size_t h0;                            // c0 comes behind it
  size_t kept;                          // the first result that the gradients alone read
  size_t of_gradients_h0, of_gradients_out;
  /// The result of the gradients that is that of W h + b, unless it is the first.
  std::optional<size_t> hidden = {};

  size_t operands() const { return h0 + (has_c ? 2 : 1); }  // without lengths
};

/// Null: the step is not that of a cell.
const CellOperands* find_cell(const plan::Step& step);

/// Result i of a step; invalid where it has fewer.
plan::TensorId result_of(const plan::Step& step, size_t i);

/// Weights and biases, or their gradients; invalid: there is none.
struct LayerWeights {
  plan::TensorId input, recurrent, input_bias, recurrent_bias;
};

/// One layer in one direction. Steps are indices of the job's.
struct PlannedLayer {
  const CellOperands& of;
  size_t steps;
  RecurrentSpec::Cell cell = {};
  std::vector<size_t> inner = {};  // what makes the gates of x, and nothing else
  plan::TensorId x = {};           // all steps of all rows, [N T, features]
  LayerWeights weights = {};
  std::optional<size_t> gradients = {};      // the step of them, where the layer is trained
  std::vector<size_t> inner_gradients = {};  // views of its results
  std::vector<size_t> products = {};         // what makes dx and dweights of these
  plan::TensorId dx = {};                    // invalid: nobody reads it
  LayerWeights dweights = {};
};

/// Completes a layer of which `of` and `steps` are known. Returns why the library cannot compute
/// it, or nothing; layer.gradients is set in both cases. `parts`: by step, the part of a call in
/// which it runs.
std::string complete_layer(const plan::Job& job, std::span<const TensorUses> uses,
                           std::span<const size_t> parts, PlannedLayer& layer);

}  // namespace flow::cuda
