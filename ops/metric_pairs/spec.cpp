// Specifications of the data that metrics are computed from, a pair of numbers for each label. An
// op that only one metric reads has the name of the metric, because messages show the name.
#include "ops/core/families.h"

namespace flow::ops {
namespace {

OperandSpec metric_labels() {
  return {.name = "labels", .doc = "any shape", .accepts = Accepts::kAny};
}

AttributeSpec axis_of_classes() { return axis_attribute("-1", "axis of classes in `predictions`"); }

}  // namespace

std::vector<OpSpec> metric_pairs() {
  return {
      {.name = "class_pairs",
       .doc = "Each label with the predicted class, as int64.",
       .formula = "y[..., 0] = label, y[..., 1] = argmax predictions, or predictions > threshold",
       .operands = {metric_labels(),
                    {.name = "predictions",
                     .doc = "scores of classes, or of class 1, or classes",
                     .accepts = Accepts::kAny}},
       .attributes = {axis_of_classes(),
                      {"threshold", AttributeType::kNumber, "0.5",
                       "scores above it predict class 1"}},
       .internal = true},
      {.name = "top_k_accuracy",
       .doc = "Each label with whether it is among the k classes of the highest scores, as "
              "int64.",
       .formula = "y[..., 0] = label, y[..., 1] = label in top_k(predictions)",
       .operands = {metric_labels(), {"predictions", "scores of classes"}},
       .attributes = {axis_of_classes(), integer_attribute("k", "", "number of classes", 1)},
       .internal = true},
      {.name = "auc",
       .doc = "Each label with the score of class 1.",
       .formula = "y[..., 0] = label, y[..., 1] = score",
       .operands = {metric_labels(),
                    {"predictions", "scores of class 1, or of classes 0 and 1 (..., 2)"}},
       .internal = true},
      {.name = "perplexity",
       .doc = "The losses themselves.",
       .formula = "y = losses",
       .operands = {{"losses", "any shape"}},
       .internal = true},
  };
}

}  // namespace flow::ops
