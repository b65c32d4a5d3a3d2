// How variables start: a record for each type of initializer.
#pragma once

#include <string>
#include <tuple>
#include <variant>

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

}  // namespace flow::plan
