// How variables start, and what keeps their weights small.
#include "compiler/job/key_makers.h"
#include "compiler/job/tables.h"

namespace flow::job {
namespace {

/// Which distribution has the variance: the default first.
KeyDef distribution(std::vector<std::string_view> words) {
  const std::string_view first = words.front();
  return word("distribution", first, "what is drawn from", std::move(words));
}

std::vector<Variety> make_initializers() {
  const std::vector<KeyDef> normal = {
      {"mean", kNumber, "0", "the mean"},
      {"stddev", kNumber, "1", "the standard deviation", kNotNegative}};
  const KeyDef mode = word("mode", "fan_in",
                           "what the variance is divided by: inputs of an element of the "
                           "result, results of an input, or the mean of both",
                           {"fan_in", "fan_out", "fan_avg"});
  return {
      {"zeros", "0 everywhere.", "", {}},
      {"ones", "1 everywhere.", "", {}},
      {"constant", "One value everywhere.", "", {{"value", kNumber, "", "of every element"}}},
      {"random_uniform",
       "Between two numbers.",
       "",
       {{"min", kNumber, "", "the least"}, {"max", kNumber, "", "the largest"}}},
      {"random_normal", "Normally distributed.", "", normal},
      {"truncated_normal", "Normally distributed, within two deviations.", "", normal},
      {"variance_scaling",
       "Of a variance that keeps that of the input.",
       "variance scale / n",
       {{"scale", kNumber, "1", "the variance times n", kNotNegative},
        mode,
        distribution({"truncated_normal", "random_normal", "random_uniform"})}},
      {"glorot_uniform",
       "Glorot's, also called Xavier's.",
       "within sqrt(6 / (fan_in + fan_out))",
       {}},
      {"xavier_uniform", "glorot_uniform.", "within sqrt(6 / (fan_in + fan_out))", {}},
      {"glorot_normal", "Glorot's, also called Xavier's.", "variance 2 / (fan_in + fan_out)", {}},
      {"xavier_normal", "glorot_normal.", "variance 2 / (fan_in + fan_out)", {}},
      {"kaiming",
       "He's, for rectifiers.",
       "variance 2 / (1 + negative_slope^2) / n",
       {{"negative_slope", kNumber, "0", "of a leaky rectifier"},
        mode,
        distribution({"random_normal", "truncated_normal", "random_uniform"}),
        word("nonlinearity", "relu", "what follows; after linear the variance is 1 / n",
             {"relu", "leaky_relu", "linear"})}},
      {"npy", "An array from a file.", "", {{"path", KeyType::kText, "", "the .npy file"}}}};
}

}  // namespace

const VarietyKind& initializers() {
  static const VarietyKind kKind{.key = "initializer",
                                 .noun = "initializer",
                                 .varieties = make_initializers(),
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
      .keys = {{"l1", kNumber, "none", "how much the magnitudes count", kBounds},
               {"l2", kNumber, "none", "how much the squares count", kBounds}},
      .one_of = {"l1", "l2"}};
  return kSection;
}

}  // namespace flow::job
