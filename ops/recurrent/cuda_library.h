// Recurrent layers that the library computes.
#pragma once

#include <cstddef>
#include <string>

#include "runtime/base/error.h"
#include "runtime/cuda/libraries/libraries.h"
#include "runtime/cuda/loops/kernel.h"

namespace flow::cuda {

// The backend replaces the steps of a layer, and the products of its input, by one step that calls
// the library with the input itself. It also replaces the step of the gradients, and the products
// after it, by one call. Such a step keeps its op but has other operands and results. `reserve`
// contains the bytes that the forward pass stores for the gradients. A cell without c has no c0 and
// dc. A result that no code reads, or a bias that the layer lacks, is an invalid tensor or is
// missing.
//
//   forward:    x, weight_ih, weight_hh, h0, [c0], [bias_ih], [bias_hh] -> out, h, [c], [reserve]
//   gradients:  dy, dh, [dc], h0, [c0], out, reserve, x
//               -> dx, dh0, dc0, dweight_ih, dweight_hh, dbias_ih, dbias_hh

/// Turns the step, whose inputs and outputs must be those above, into a call of the library.
void set_library_layer(plan::Step& step, const RecurrentSpec& spec);
bool is_library_layer(const plan::Step& step);

/// Returns the cell that a step of the plan computes, or the reason why the library cannot compute
/// it.
Expected<RecurrentSpec::Cell> library_cell(const plan::Step& step);

/// Returns the size of `reserve`, which contains the weights in the library's layout and the data
/// that the library stores.
size_t reserve_bytes(const RecurrentKernel& kernel);

/// Prepare the forward pass and the gradients. REQUIRES: is_library_layer(request.step).
Kernel prepare_library_layer(const Request& request);
Kernel prepare_library_layer_grad(const Request& request);

}  // namespace flow::cuda
