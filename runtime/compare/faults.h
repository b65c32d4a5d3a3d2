// Known faults, to be put into golden arrays: would the tolerances notice?
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "runtime/base/array.h"
#include "runtime/compare/values.h"

namespace flow::compare {

struct Fault {
  std::string name;  // "constant offset"
  std::string size;  // "1 % of the standard deviation"; empty: it has no size
  std::function<Doubles(const Doubles&)> apply;
};

/// All that apply to an array. `deviation`: its standard deviation; `steps_first`: it has a slice
/// for each step.
std::vector<Fault> faults_of(const ArrayView& golden, double deviation, bool steps_first);

/// Values as elements of a dtype, each rounded once.
Array array_of(DType dtype, const Shape& shape, const Doubles& values);

}  // namespace flow::compare
