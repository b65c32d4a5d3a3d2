// What makes an input's values from the seed and the step: a record for each generator of the
// language, and the one rule for their numbers, whether a job file, a plan or the command line
// gives them.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <variant>
#include <vector>

#include "runtime/base/dtype.h"
#include "runtime/base/shape.h"
#include "runtime/plan/model/initializer.h"
#include "runtime/plan/model/record.h"

namespace flow::plan {
namespace generators {

// The members are in the order of `--input`.

struct Uniform {
  double low = 0, high = 0;

  static constexpr auto record() {
    return Record{"random_uniform", "Uniform random numbers in [low, high).", "",
                  std::tuple{Field{"low", &Uniform::low, "-1", "lower bound, inclusive"},
                             Field{"high", &Uniform::high, "1", "upper bound, exclusive"}}};
  }
};

using initializers::Normal;

struct Integers {
  double low = 0, high = 0;

  static constexpr auto record() {
    return Record{"random_int", "Uniform random integers in [low, high).", "",
                  std::tuple{Field{"low", &Integers::low, "0", "lower bound, inclusive"},
                             Field{"high", &Integers::high, "", "upper bound, exclusive"}}};
  }
};

using initializers::Constant;

struct Iota {
  static constexpr auto record() {
    return Record{"iota", "0, 1, 2, ... in row-major order.", "", std::tuple{}};
  }
};

}  // namespace generators

using FromGenerator = std::variant<generators::Uniform, generators::Normal, generators::Integers,
                                   generators::Constant, generators::Iota>;

struct GeneratorFault {
  enum class Kind {
    kOrder,      // `low` is not below `high`
    kFractions,  // for a dtype that has none
    kMisfit      // numbers that the generator does not take, or the dtype does not hold
  };
  Kind kind;
  std::string number;   // the one at fault: "high", the generator's; empty: all of it
  std::string message;  // "`value` is 300, which is not a valid int8"
  std::string hint = {};
};

/// All that is wrong with the generator of an input of that dtype and shape. Numbers that are
/// `missing` are passed over.
std::vector<GeneratorFault> faults_of(const FromGenerator& from, DType dtype, const Shape& shape,
                                      const std::set<std::string_view>& missing = {});

}  // namespace flow::plan
