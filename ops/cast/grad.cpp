// The gradient of cast.
#include "compiler/ir/rules.h"

namespace flow::grad {
namespace {

/// Passes the gradient on unchanged. Only casts between floats have a gradient, and all gradients
/// have the job's float dtype.
std::vector<ir::ValueId> cast_gradient(GradientContext& context) { return {context.gradient()}; }

}  // namespace

std::vector<Rules> cast() { return {{"cast", cast_gradient}}; }

}  // namespace flow::grad
