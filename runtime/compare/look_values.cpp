// Looks of errors that are a function of each value: offset, gain, sign, rounding.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "runtime/base/convert.h"
#include "runtime/base/half.h"
#include "runtime/compare/look_search.h"

namespace flow::compare {
namespace {

std::string four_digits(double number) { return fmt::format("{:.4g}", number); }

/// The constant that comes nearest in squares: the mean error.
void find_offset(const LookInput& input, Looks& found) {
  double sum = 0;
  for (size_t i = 0; i < input.size(); ++i)
    if (input.errors.squares[i] > 0) sum += (input.out[i] - input.golden[i]) / input.errors.peak;
  const double offset = sum / static_cast<double>(input.errors.finite) * input.errors.peak;
  found.push_back({LookKind::kOffset, fmt::format("constant offset of {}", four_digits(offset)),
                   input.share_of([&](size_t i) { return input.golden[i] + offset; })});
}

/// The factor that comes nearest in squares: <out, golden> / <golden, golden>.
void find_gain(const LookInput& input, Looks& found) {
  double largest = 0;
  for (const double value : input.golden)
    if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
  if (largest == 0) return;
  double products = 0, squares = 0;
  for (size_t i = 0; i < input.size(); ++i) {
    const double a = input.golden[i] / largest, b = input.out[i] / largest;
    if (!std::isfinite(a) || !std::isfinite(b)) continue;
    products += a * b;
    squares += a * a;
  }
  const double gain = products / squares;
  found.push_back({LookKind::kGain, fmt::format("gain of {}", four_digits(gain)),
                   input.share_of([&](size_t i) { return gain * input.golden[i]; })});
}

void find_sign(const LookInput& input, Looks& found) {
  found.push_back({LookKind::kSign, "opposite sign",
                   input.share_of([&](size_t i) { return -input.golden[i]; })});
}

/// One side is the other, rounded to `Narrow`.
template <typename Narrow>
void find_rounding(const LookInput& input, const char* dtype, Looks& found) {
  const auto rounded = [](double value) {
    return static_cast<double>(flow::convert<Narrow>(value));
  };
  found.push_back({LookKind::kRounding, fmt::format("out is golden rounded to {}", dtype),
                   input.share_of([&](size_t i) { return rounded(input.golden[i]); })});
  found.push_back({LookKind::kRounding, fmt::format("golden is out rounded to {}", dtype),
                   input.share_of([&](size_t i) {
                     return input.out[i] - input.golden[i] + rounded(input.out[i]);
                   })});
}

}  // namespace

void find_values(const LookInput& input, Looks& found) {
  find_sign(input, found);
  find_offset(input, found);
  find_gain(input, found);
  const DType dtype = input.golden_view.dtype;
  if (dtype == DType::kFloat64) find_rounding<float>(input, "float32", found);
  if (dtype != DType::kFloat64 && dtype != DType::kFloat32) return;
  find_rounding<BFloat16>(input, "bfloat16", found);
  find_rounding<Float16>(input, "float16", found);
}

}  // namespace flow::compare
