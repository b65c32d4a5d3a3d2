// Checks of the operands of losses of class labels, for the primitive and the layers.
#pragma once

#include "ops/core/call.h"

namespace flow::ops {

/// Returns true if the operands are labels (...), scores of classes (..., C) and, optionally,
/// weights of the classes (C). Reports operands that do not fit.
bool class_labels_fit(Call& call);

/// Returns the number of classes. REQUIRES: class_labels_fit.
int64_t classes_of(const Call& call);

}  // namespace flow::ops
