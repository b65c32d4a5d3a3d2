// Updates of variables that are made of several steps.
#pragma once

#include "compiler/ir/builder.h"
#include "runtime/plan/model/optimizers.h"

namespace flow::passes {

/// A variable, what it is updated by, and the numbers that are its own.
struct ComposedUpdate {
  ir::Builder& builder;  // places what it adds where the variable lies
  ir::ValueId variable, gradient;
  ir::ValueId factor;     // on the gradient; invalid: none
  bool may_skip = false;  // the factor may be NaN, and nothing is updated then
  double scale = 1;       // of the gradient
  double rate_scale = 1, weight_decay = 0;
};

/// The variable's new value. Adds the slots, and says of them and of the variable what they become.
/// `rule.epsilon1` is not 0.
ir::ValueId add_adafactor(const ComposedUpdate& update, const plan::optimizers::Adafactor& rule);

/// The same of a matrix.
ir::ValueId add_muon(const ComposedUpdate& update, const plan::optimizers::Muon& rule);

}  // namespace flow::passes
