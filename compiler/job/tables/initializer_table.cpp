// How variables start, and what keeps their weights small.
#include "compiler/job/tables/key_makers.h"
#include "compiler/job/tables/tables.h"

namespace flow::job {
namespace {

/// Which distribution has the variance: the default first.
KeyDef distribution(std::vector<std::string_view> words) {
  const std::string_view first = words.front();
  return word("distribution", first, "distribution to draw from", std::move(words));
}

std::vector<Variant> make_initializers() {
  const std::vector<KeyDef> normal = {{"mean", kNumber, "0", "mean"},
                                      {"stddev", kNumber, "1", "standard deviation", kNotNegative}};
  const KeyDef mode = word("mode", "fan_in",
                           "n in the formula: inputs per output (fan_in), outputs per input "
                           "(fan_out), or their mean (fan_avg)",
                           {"fan_in", "fan_out", "fan_avg"});
  return {
      {"zeros", "All zeros.", "", {}},
      {"ones", "All ones.", "", {}},
      {"constant",
       "The same value for every element.",
       "",
       {{"value", kNumber, "", "value of every element"}}},
      {"random_uniform",
       "Uniform random numbers between min and max.",
       "",
       {{"min", kNumber, "", "lower bound"}, {"max", kNumber, "", "upper bound"}}},
      {"random_normal", "Normal (Gaussian) random numbers.", "", normal},
      {"truncated_normal", "Normal random numbers within two standard deviations of the mean.", "",
       normal},
      {"variance_scaling",
       "Variance scaling: keeps the variance of the layer input.",
       "variance scale / n",
       {{"scale", kNumber, "1", "scale of the variance", kNotNegative},
        mode,
        distribution({"truncated_normal", "random_normal", "random_uniform"})}},
      {"glorot_uniform",
       "Glorot initializer, also called Xavier (Glorot and Bengio, 2010).",
       "within sqrt(6 / (fan_in + fan_out))",
       {}},
      {"xavier_uniform", "Alias of glorot_uniform.", "within sqrt(6 / (fan_in + fan_out))", {}},
      {"glorot_normal",
       "Glorot initializer, also called Xavier (Glorot and Bengio, 2010).",
       "variance 2 / (fan_in + fan_out)",
       {}},
      {"xavier_normal", "Alias of glorot_normal.", "variance 2 / (fan_in + fan_out)", {}},
      {"kaiming",
       "Kaiming initializer, also called He, for ReLU networks (He et al., 2015).",
       "variance 2 / (1 + negative_slope^2) / n",
       {{"negative_slope", kNumber, "0", "slope of leaky ReLU below 0"},
        mode,
        distribution({"random_normal", "truncated_normal", "random_uniform"}),
        word("nonlinearity", "relu", "activation after the layer; linear gives the variance 1 / n",
             {"relu", "leaky_relu", "linear"})}},
      {"npy",
       "Array from a .npy file.",
       "",
       {{"path", KeyType::kText, "", "path of the .npy file"}}}};
}

}  // namespace

const VariantKind& initializers() {
  static const VariantKind kKind{.key = "initializer",
                                 .noun = "initializer",
                                 .variants = make_initializers(),
                                 .common = {},
                                 .by_word = true,
                                 .number = "constant"};
  return kKind;
}

const Section& regularizer_section() {
  // The gradients of sums, whose elements can be counted, meet a multiple of it.
  static const Bounds kBounds{.min = 0, .max = 1e30};
  static const Section kSection{
      .what = "a regularizer",
      .keys = {{"l1", kNumber, "none", "L1 coefficient: adds l1 sign(w) to the gradient of w",
                kBounds},
               {"l2", kNumber, "none", "L2 coefficient: adds l2 w to the gradient of w", kBounds}},
      .one_of = {"l1", "l2"}};
  return kSection;
}

}  // namespace flow::job
