// Implements the updates of Adafactor, from means over rows and columns, and of Muon, from matrix
// products.

#include "compiler/passes/passes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

namespace flow::passes {
namespace {

using ir::ValueId;

/// The ops of one update, which are named after its variable.
class UpdateSteps {
 public:
  explicit UpdateSteps(const ComposedUpdate& update)
      : update_(update), variable_(update.builder.graph()[update.variable]) {}

  const ir::Value& variable() const { return variable_; }

  /// Adds one op. `part` is empty for the op that makes the variable's new value.
  ValueId add(std::string_view op, std::string_view part, std::vector<ValueId> operands,
              const ir::Attributes& attributes = {}) const {
    const std::string dot = part.empty() ? "" : ".";
    return update_.builder.add(op, fmt::format("{}:update{}{}", variable_.name, dot, part),
                               std::move(operands), attributes, variable_.span);
  }

  ValueId slot(std::string_view name, Shape shape) const {
    return update_.builder.add_slot(fmt::format("{}/{}", variable_.name, name), variable_,
                                    std::move(shape));
  }

  /// Appends the factor on the gradient to the operands, if there is one.
  std::vector<ValueId> with_factor(std::vector<ValueId> operands) const {
    if (update_.factor.valid()) operands.push_back(update_.factor);
    return operands;
  }

  void set_updated(ValueId variable, ValueId updated) const {
    update_.builder.graph().set_updated(variable, updated);
  }

  ValueId mean_over(std::string_view part, ValueId value, int64_t axis) const {
    return add("reduce_mean", part, {value},
               {{"axis", std::vector<int64_t>{axis}}, {"keepdims", true}});
  }

 protected:
  const ComposedUpdate& update_;

 private:
  const ir::Value variable_;  // a copy, because the vector of values may reallocate
};

class AdafactorSteps : UpdateSteps {
 public:
  AdafactorSteps(const ComposedUpdate& update, const plan::optimizers::Adafactor& rule)
      : UpdateSteps(update), rule_(rule) {}

  ValueId run() const {
    const ValueId square = add("square", "square", {update_.gradient});
    const ValueId mean_square = variable().shape.rank() < 2
                                    ? moved_mean("variance", variable().shape, square)
                                    : product_of_means(square);
    const ValueId updated =
        add("adafactor_update", "", with_factor({update_.gradient, update_.variable, mean_square}),
            {{"scale", update_.scale},
             {"rate_scale", update_.rate_scale},
             {"epsilon1", rule_.epsilon1},
             {"epsilon2", rule_.epsilon2},
             {"clip_threshold", rule_.clip_threshold},
             {"weight_decay", update_.weight_decay}});
    set_updated(update_.variable, updated);
    return updated;
  }

 private:
  /// Adds a slot that is a moving mean of `square`, and returns its new value.
  ValueId moved_mean(std::string_view name, const Shape& shape, ValueId square) const {
    const ValueId mean = slot(name, shape);
    const ValueId moved = add("adafactor_mean", name, with_factor({square, mean}),
                              {{"scale", update_.scale}, {"beta2_decay", rule_.beta2_decay}});
    set_updated(mean, moved);
    return moved;
  }

  /// Returns row * column / mean(row). Of all approximations that store only one number for each
  /// row and column, it is the nearest to the mean squares of all elements.
  ValueId product_of_means(ValueId square) const {
    const ValueId row = moved_mean("row", without(-1), mean_over("row_square", square, -1));
    const ValueId column =
        moved_mean("column", without(-2), mean_over("column_square", square, -2));
    const ValueId mean = mean_over("row_mean", row, -2);
    const ValueId bounded = add("clip_by_value", "row_bound", {mean}, {{"min", rule_.epsilon1}});
    const ValueId share = add("divide", "row_share", {row, bounded});
    return add("multiply", "mean_square", {share, column});
  }

  /// Returns the variable's shape with extent 1 along `axis`, a negative axis that counts from the
  /// end.
  Shape without(int axis) const {
    std::vector<int64_t> extents = variable().shape.extents();
    extents[extents.size() - static_cast<size_t>(-axis)] = 1;
    return Shape(std::move(extents));
  }

  const plan::optimizers::Adafactor& rule_;
};

class MuonSteps : UpdateSteps {
 public:
  MuonSteps(const ComposedUpdate& update, const plan::optimizers::Muon& rule)
      : UpdateSteps(update),
        rule_(rule),
        rows_(variable().shape[0]),
        columns_(variable().shape[1]) {}

  ValueId run() const {
    ValueId direction = normalized(moved_direction());
    for (int64_t i = 1; i <= rule_.newton_schulz_steps; ++i) direction = iterated(direction, i);
    std::vector<ValueId> operands{direction, update_.variable};
    if (update_.may_skip) operands.push_back(update_.factor);
    const ValueId updated = add("muon_update", "", std::move(operands),
                                {{"scale", rate_of_shape()},
                                 {"rate_scale", update_.rate_scale},
                                 {"weight_decay", update_.weight_decay}});
    set_updated(update_.variable, updated);
    return updated;
  }

 private:
  ValueId moved_direction() const {
    const ValueId momentum = slot("momentum", variable().shape);
    const ValueId direction =
        add("muon_direction", "direction", with_factor({update_.gradient, momentum}),
            {{"scale", update_.scale}, {"momentum", rule_.momentum}, {"nesterov", rule_.nesterov}});
    if (!direction.valid()) return direction;
    set_updated(momentum, update_.builder.graph().producer_of(direction)->results[1]);
    return direction;
  }

  /// Divides the direction by its norm, so that its singular values are at most 1, as the iteration
  /// requires.
  ValueId normalized(ValueId direction) const {
    const ValueId square = add("square", "square", {direction});
    const ValueId sum = add("reduce_sum", "square_sum", {square},
                            {{"axis", std::vector<int64_t>{0, 1}}, {"keepdims", true}});
    const ValueId norm = add("sqrt", "norm", {sum});
    const ValueId bounded =
        add("clip_by_value", "norm_bound", {norm}, {{"min", rule_.norm_epsilon}});
    return add("divide", "normalized", {direction, bounded});
  }

  /// Adds one Newton-Schulz iteration on the smaller of X X^T and X^T X. The coefficients are those
  /// of https://kellerjordan.github.io/posts/muon/.
  ValueId iterated(ValueId x, int64_t i) const {
    const bool tall = rows_ > columns_;
    const auto part = [i](std::string_view what) { return fmt::format("{}{}", what, i); };
    const ValueId gram =
        add("matmul", part("gram"), {x, x}, {{"transpose_a", tall}, {"transpose_b", !tall}});
    const ValueId square = add("matmul", part("gram_square"), {gram, gram});
    const ValueId polynomial = add("muon_polynomial", part("polynomial"), {gram, square},
                                   {{"a", 3.4445}, {"b", -4.775}, {"c", 2.0315}});
    return add("matmul", part("iterated"),
               tall ? std::vector{x, polynomial} : std::vector{polynomial, x});
  }

  double rate_of_shape() const {
    const auto rows = static_cast<double>(rows_), columns = static_cast<double>(columns_);
    if (rule_.adjust_learning_rate == plan::optimizers::MuonRate::kMatchRmsAdamw)
      return 0.2 * std::sqrt(std::max(rows, columns));
    return std::sqrt(std::max(1.0, rows / columns));
  }

  const plan::optimizers::Muon& rule_;
  const int64_t rows_, columns_;
};

}  // namespace

ValueId add_adafactor(const ComposedUpdate& update, const plan::optimizers::Adafactor& rule) {
  return AdafactorSteps(update, rule).run();
}

ValueId add_muon(const ComposedUpdate& update, const plan::optimizers::Muon& rule) {
  return MuonSteps(update, rule).run();
}

}  // namespace flow::passes
