// Frequencies of rotary position embeddings, scaled for contexts longer than a model was trained
// with.
#include "ops/rope/frequencies.h"

#include <cmath>
#include <numbers>
#include <string>

namespace flow::ops {
namespace {

/// Llama 3 (Grattafiori et al., 2024): short wavelengths are kept, long ones are scaled, those in
/// between are a mixture.
double scaled_by_wavelength(double frequency, double scaled, double context,
                            const Attributes& attributes) {
  const auto low = attributes.get<double>("low_frequency_factor");
  const auto high = attributes.get<double>("high_frequency_factor");
  const double turns = context * frequency / (2 * std::numbers::pi);  // within the context
  if (turns < low) return scaled;
  if (turns > high) return frequency;
  const double kept = (turns - low) / (high - low);
  return (1 - kept) * scaled + kept * frequency;
}

}  // namespace

std::vector<double> rope_frequencies(const Attributes& attributes) {
  const auto dims = attributes.get<int64_t>("dims");
  const auto theta = attributes.get<double>("theta");
  const auto factor = attributes.get<double>("scaling_factor");
  const Attribute* context = attributes.find("original_context");
  std::vector<double> frequencies;
  for (int64_t i = 0; i < dims; i += 2) {
    const double frequency = std::pow(theta, -static_cast<double>(i) / static_cast<double>(dims));
    const double scaled = frequency / factor;
    frequencies.push_back(
        context ? scaled_by_wavelength(frequency, scaled,
                                       static_cast<double>(std::get<int64_t>(*context)), attributes)
                : scaled);
  }
  return frequencies;
}

bool rope_splits_halves(const Attributes& attributes) {
  return attributes.get<std::string>("layout") == "halves";
}

}  // namespace flow::ops
