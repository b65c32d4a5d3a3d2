// The tables of optimizers, learning rates and what goes with them: all that is known of their
// keys.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include "compiler/job/tables/keys.h"

namespace flow::job {

const VariantKind& optimizers();
const VariantKind& learning_rates();
const VariantKind& warmups();
const VariantKind& grad_clippings();
const VariantKind& loss_scales();
const Section& learning_rate_scales();

/// The op that updates a variable under the optimizer of that type with those numbers. It takes
/// the gradient, the variable and its slots, by their names, and numbers by theirs.
std::string_view update_op(std::string_view optimizer,
                           const std::map<std::string, double>& numbers);

}  // namespace flow::job
