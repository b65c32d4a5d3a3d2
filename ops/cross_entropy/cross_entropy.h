// What losses of class labels ask of their operands, for the primitive and the layers.
#pragma once

#include "ops/core/call.h"

namespace flow::ops {

/// Labels [...] beside scores of classes [..., C], and weights of the classes [C], if there are
/// any. Reports operands that do not fit.
bool class_labels_fit(Call& call);

/// The number of classes. REQUIRES: class_labels_fit.
int64_t classes_of(const Call& call);

}  // namespace flow::ops
