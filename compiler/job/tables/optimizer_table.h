// The tables of optimizers, learning rates and what goes with them: all that is known of their
// keys.
#pragma once

#include "compiler/job/tables/keys.h"

namespace flow::job {

const VariantKind& optimizers();
const VariantKind& learning_rates();
const VariantKind& warmups();
const VariantKind& grad_clippings();
const VariantKind& loss_scales();
const Section& learning_rate_scales();
const Section& ema_section();
const Section& lookahead_section();

}  // namespace flow::job
