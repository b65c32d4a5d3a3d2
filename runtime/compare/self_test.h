// Which faults of a golden folder its tolerances would let through.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/compare/arrays.h"
#include "runtime/compare/tolerance.h"

namespace flow::compare {

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
