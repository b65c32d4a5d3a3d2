// Recurrent layers by the library.
#pragma once

#include <cstddef>
#include <string>

#include "runtime/base/error.h"
#include "runtime/cuda/libraries/libraries.h"
#include "runtime/cuda/loops/kernel.h"

namespace flow::cuda {

// The backend replaces steps that read products of all steps' input by a call of the library on the
// input itself, and the step of their gradients and the products behind it by another. Such a step
// keeps its op, and its operands and results are others. `reserve`: bytes that the forward pass
// keeps for the gradients. A cell without c lacks c0 and dc; a result that nobody reads, or a bias
// that the layer lacks, is an invalid tensor or is left out.
//
//   forward:    x, weight_ih, weight_hh, h0, [c0], [bias_ih], [bias_hh] -> out, h, [c], [reserve]
//   gradients:  dy, dh, [dc], h0, [c0], out, reserve, x
//               -> dx, dh0, dc0, dweight_ih, dweight_hh, dbias_ih, dbias_hh

/// Makes the step, whose inputs and outputs are those above, a call of the library.
void set_library_layer(plan::Step& step, const RecurrentSpec& spec);
bool is_library_layer(const plan::Step& step);

/// The cell that a step of the plan computes. Or why the library does not compute it.
Expected<RecurrentSpec::Cell> library_cell(const plan::Step& step);

/// The size of `reserve`: the weights, in the library's layout, and what the library keeps.
size_t reserve_bytes(const RecurrentKernel& kernel);

/// REQUIRES: is_library_layer(request.step), of the forward pass; of the gradients.
Kernel prepare_library_layer(const Request& request);
Kernel prepare_library_layer_grad(const Request& request);

}  // namespace flow::cuda
