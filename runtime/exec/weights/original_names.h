// Rules for names, turned round: which arrays of another program the variables of flow become.
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

}  // namespace flow::exec
