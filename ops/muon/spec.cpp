// Muon: the direction of a matrix, polynomials that make it orthogonal, and its update. Products
// between them are matmuls.
#include "ops/core/families.h"
#include "ops/optimizer/updates.h"

namespace flow::ops {
namespace {

void infer_direction(Call& call) {
  if (!fit_gradient(call, 2) || !call.have_shape(2, call.operands(), {})) return;
  for (int i = 0; i < 2; ++i) call.result(call.operand(0).dtype, call.operand(0).shape, kNoBatch);
}

void infer_polynomial(Call& call) {
  const Operand& gram = call.operand(0);
  if (gram.shape.rank() != 2 || gram.shape[0] != gram.shape[1])
    call.bad_operand(0, Reason::kShapeMismatch,
                     fmt::format("{}; expected a square matrix", gram.shape.str()));
  else if (call.have_shape(1, 2, gram.shape))
    call.result(gram.dtype, gram.shape, kNoBatch);
}

OpSpec muon_direction() {
  return {.name = "muon_direction",
          .doc = "Moves the momentum of Muon (Jordan et al., 2024).",
          .formula =
              "m = momentum m + (1 - momentum) scale g; direction = m (nesterov: (1 - momentum) "
              "scale g + momentum m)",
          .operands = {{"gradient", "gradient of the summed loss"},
                       {"momentum", "optimizer state, same shape as the gradient"},
                       gradient_factor()},
          .attributes = {gradient_scale(),
                         required_fraction("momentum", "momentum coefficient"),
                         {"nesterov", AttributeType::kBool, "true", "use Nesterov momentum"}},
          .results = {{"direction"}, {.name = "momentum", .updates = size_t{1}}},
          .infer = infer_direction,
          .for_updates = true,
          .flops = {6},
          .internal = true};
}

OpSpec muon_polynomial() {
  return {.name = "muon_polynomial",
          .doc = "Matrix polynomial of a Newton-Schulz iteration.",
          .formula = "a I + b A + c A^2",
          .operands = {{"gram", "A, a square matrix"}, {"square", "A^2, of the same shape"}},
          .attributes = {required_number("a", "coefficient of the identity"),
                         required_number("b", "coefficient of A"),
                         required_number("c", "coefficient of A^2")},
          .infer = infer_polynomial,
          .for_updates = true,
          .flops = {3},
          .internal = true};
}

OpSpec muon_update() {
  return {.name = "muon_update",
          .doc = "One step of Muon along an orthogonal direction.",
          .formula = "w = w - lr scale d - lr weight_decay w",
          .operands = {{"direction", "d, orthogonal"},
                       {"variable", "same shape as the direction"},
                       optional_floats("factor", "a scalar; NaN: the variable stays as it is")},
          .attributes = {{"scale", AttributeType::kNumber, "1", "factor on the direction"},
                         rate_scale(),
                         weight_decay()},
          .results = updated_with({}),
          .infer = infer_update_of<0>,
          .flops = {4},
          .internal = true};
}

}  // namespace

std::vector<OpSpec> muon() { return {muon_direction(), muon_polynomial(), muon_update()}; }

}  // namespace flow::ops
