// Files of weights for other programs: .safetensors and .npz.
#pragma once

#include <vector>

#include "runtime/exec/weights/original_names.h"

namespace flow::exec {

/// The arrays of a checkpoint that are variables, without the state of optimizers.
std::vector<StoredItem> weights_in(const StoredVariables& stored);

/// RequestError where the suffix of `path` is not that of a format.
void require_weights_format(const fs::path& path);

/// Writes the arrays to a new file, all or nothing, and returns when it is on the disk. The suffix
/// of `path` is the format.
void write_weights(const fs::path& path, const StoredVariables& stored,
                   const std::vector<OriginalArray>& arrays);

}  // namespace flow::exec
