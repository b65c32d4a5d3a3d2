// What makes an input's values from the seed and the step: the generators of the language, and the
// one rule for their numbers, whether a job file, a plan or the command line gives them.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/plan/model/plan.h"

namespace flow::plan {

struct Generator {
  std::string_view type;
  std::vector<std::string_view> numbers;  // in the order of `--input`
};

std::span<const Generator> generators();
/// The generator of that type, or null.
const Generator* find_generator(std::string_view type);

struct GeneratorFault {
  enum class Kind {
    kOrder,      // `low` is not below `high`
    kFractions,  // for a dtype that has none
    kMisfit      // numbers that the generator does not take, or the dtype does not hold
  };
  Kind kind;
  std::string_view number;  // the one at fault: "high", the generator's; empty: all of it
  std::string message;      // "`value` is 300, which is no int8"
  std::string hint = {};
};

/// All that is wrong with the generator of an input of that dtype and shape. Numbers that are
/// missing are passed over. REQUIRES: find_generator(from.type).
std::vector<GeneratorFault> faults_of(const FromGenerator& from, DType dtype, const Shape& shape);

}  // namespace flow::plan
