// How variables are initialized, and how the values of an input are generated from the seed and the
// step. There is a record for each type of initializer and generator. The numbers of a generator
// are checked by one rule, no matter whether a job file, a plan or the command line gives them.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <variant>
#include <vector>

#include "runtime/base/array.h"
#include "runtime/plan/model/record.h"

namespace flow::plan {

namespace initializers {

template <typename T>
constexpr auto normal_fields() {
  return std::tuple{Field{"mean", &T::mean, "0", "mean"},
                    Field{"stddev", &T::stddev, "1", "standard deviation", kNotNegative}};
}

struct Zeros {
  static constexpr auto record() { return Record{"zeros", "All zeros.", "", std::tuple{}}; }
};

struct Ones {
  static constexpr auto record() { return Record{"ones", "All ones.", "", std::tuple{}}; }
};

struct Constant {
  double value = 0;

  static constexpr auto record() {
    return Record{"constant", "The same value for every element.", "",
                  std::tuple{Field{"value", &Constant::value, "", "value of every element"}}};
  }
};

struct Uniform {
  double min = 0, max = 0;

  static constexpr auto record() {
    return Record{"random_uniform", "Uniform random numbers between min and max.", "",
                  std::tuple{Field{"min", &Uniform::min, "", "lower bound"},
                             Field{"max", &Uniform::max, "", "upper bound"}}};
  }
};

struct Normal {
  double mean = 0, stddev = 0;

  static constexpr auto record() {
    return Record{"random_normal", "Normal (Gaussian) random numbers.", "",
                  normal_fields<Normal>()};
  }
};

struct TruncatedNormal {
  double mean = 0, stddev = 0;

  static constexpr auto record() {
    return Record{"truncated_normal",
                  "Normal random numbers within two standard deviations of the mean.", "",
                  normal_fields<TruncatedNormal>()};
  }
};

struct Npy {
  std::string path;

  static constexpr auto record() {
    return Record{"npy", "Array from a .npy file.", "",
                  std::tuple{Field{"path", &Npy::path, "", "path of the .npy file"}}};
  }
};

}  // namespace initializers

using Initializer = std::variant<initializers::Zeros, initializers::Ones, initializers::Constant,
                                 initializers::Uniform, initializers::Normal,
                                 initializers::TruncatedNormal, initializers::Npy>;

namespace generators {

// The members are in the order of the arguments of `--input`.

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
    kFractions,  // a generator of fractions for a dtype that has none
    kMisfit      // a number that the generator or the dtype does not accept
  };
  Kind kind;
  std::string number;   // the number at fault: "high"; empty for the generator as a whole
  std::string message;  // "`value` is 300, which is not a valid int8"
  std::string hint = {};
};

/// Returns all faults of the generator of an input with that dtype and shape. Numbers in `missing`
/// are not checked.
std::vector<GeneratorFault> faults_of(const FromGenerator& from, DType dtype, const Shape& shape,
                                      const std::set<std::string_view>& missing = {});

}  // namespace flow::plan
