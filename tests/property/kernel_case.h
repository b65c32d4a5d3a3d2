// One call of one CPU kernel: a step, what it is given, and what comes out, in C order whatever the
// layout the kernel was run in.
#pragma once

#include <initializer_list>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/array.h"
#include "runtime/cpu/kernel.h"

namespace flow::test {

struct Result {
  DType dtype = DType::kFloat32;
  Shape shape;
  int alias = -1;       // the input whose buffer it takes over, or none
  bool unused = false;  // a second result that nobody reads: CUDA's kernels are run without it
};

struct KernelCase {
  std::string op;
  std::vector<std::pair<std::string, plan::Attribute>> attributes;
  std::vector<Array> inputs;
  std::vector<Result> results;

  /// "max_pool2d([2, 3, 6, 6]) ksize=..." as far as a failing test needs it.
  std::string str() const;
};

struct KernelRun {
  std::vector<Array> outputs;
  std::optional<exec::Fault> fault;
};

/// How a case is run: on which table, with 4-D operands in which layout.
struct KernelSettings {
  std::span<const cpu::KernelEntry> kernels;
  cpu::Layout layout = cpu::Layout::kPlain;
  int threads = 1;
  int64_t step = 3;
  double learning_rate = 0.125;
};

KernelRun run_kernel(const KernelCase& one, const KernelSettings& settings);

/// True when the kernel of `op` takes channels-last operands and this case has one for which that
/// makes a difference.
bool takes_channels_last(const KernelCase& one);

/// Does an attribute say the result's dtype? Then it stays what it is in float64.
bool has_dtype_attribute(const std::string& op);

using Random = std::mt19937;

inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
inline constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// Uniform in [-1, 1] for floats; small integers (negative too, where there are any); coins.
Array random_array(Random& random, DType dtype, const Shape& shape);
/// Labels in [0, classes).
Array random_labels(Random& random, DType dtype, const Shape& shape, int64_t classes);
/// A whole number in [low, high].
int64_t random_between(Random& random, int64_t low, int64_t high);

/// An array of the elements of `values`.
template <typename T>
Array array_of(Shape shape, std::initializer_list<T> values) {
  Array array(DTypeOf<T>::value, std::move(shape));
  std::copy(values.begin(), values.end(), array.as<T>().begin());
  return array;
}

/// The same numbers as float64; integers and bools as they are.
Array widened(const Array& array);

/// The case with every float32 operand and result made float64, for the reference kernels.
KernelCase widened(const KernelCase& one);

/// The case as a mixed job has it on CUDA: every float32 operand rounded to `low_precision`, and
/// results too, but those of products and of sums.
KernelCase rounded(const KernelCase& one, DType low_precision);

/// The same numbers as float32.
KernelCase in_float32(const KernelCase& low_precision);

/// Element i as a double.
double number_at(const Array& array, int64_t i);

}  // namespace flow::test
