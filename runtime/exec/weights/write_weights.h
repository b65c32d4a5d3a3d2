// Files of weights for other programs: rules for names, turned round, say which of their arrays the
// variables of flow become. Files are .safetensors and .npz.
#pragma once

#include <string>
#include <vector>

#include "runtime/exec/weights/name_map.h"

namespace flow::exec {

/// An array to be written, and the variables that it is made of.
struct OriginalArray {
  std::string name;
  DType dtype = DType::kFloat32;
  Shape shape;
  const plan::NameRule* rule = nullptr;     // null: the variable itself
  std::vector<std::string> variables = {};  // in the order of `to`
  AxisRange range = {};                     // of the variable: a part that `concat` joined
};

/// The arrays that the rules make these variables of, and variables that no rule names, under their
/// own names. RequestError that lists all variables that cannot be turned round. REQUIRES: as
/// map_names.
std::vector<OriginalArray> original_arrays(const std::vector<StoredItem>& variables,
                                           const std::vector<plan::NameRule>& rules);

/// The array. RequestError where copies of it differ.
Array make_original(const StoredVariables& stored, const OriginalArray& original);

/// The arrays of a checkpoint that are variables, without the state of optimizers.
std::vector<StoredItem> weights_in(const StoredVariables& stored);

/// RequestError where the suffix of `path` is not that of a format.
void require_weights_format(const fs::path& path);

/// Writes the arrays to a new file, all or nothing, and returns when it is on the disk. The suffix
/// of `path` is the format.
void write_weights(const fs::path& path, const StoredVariables& stored,
                   const std::vector<OriginalArray>& arrays);

}  // namespace flow::exec
