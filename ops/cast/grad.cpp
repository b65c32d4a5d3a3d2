// The gradient of cast.
#include "compiler/ir/rules.h"

namespace flow::grad {
namespace {

/// Passes between floats alone. Gradients are of the job's float dtype, whatever they are of.
std::vector<ir::ValueId> cast_gradient(GradientContext& context) { return {context.gradient()}; }

}  // namespace

std::vector<Rules> cast() { return {{"cast", cast_gradient}}; }

}  // namespace flow::grad
