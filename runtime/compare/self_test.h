// Known faults, to be put into golden arrays, and which of them the tolerances of a golden folder
// would let through.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "runtime/base/array.h"
#include "runtime/compare/arrays.h"
#include "runtime/compare/tolerance.h"

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

/// Faults of one name that pass in one array.
struct MissedFault {
  std::string array, fault;
  std::vector<std::string> sizes;  // that pass, the largest first; empty: it has no size
};

struct SelfTest {
  struct Array {
    std::string name;
    int64_t injected = 0, found = 0;
  };
  std::vector<Array> arrays;  // those that were tested, in order
  int64_t injected = 0, found = 0;
  std::vector<MissedFault> missed;
  /// Arrays in which most faults change nothing, and those that cannot be read, with the reason.
  std::vector<std::string> skipped;
};

/// Puts each known fault into each array of `golden` and compares. Faults that change no element
/// are left out.
SelfTest test_tolerances(const Side& golden, const ToleranceRules& rules,
                         const std::vector<std::string>& ignore);

}  // namespace flow::compare
