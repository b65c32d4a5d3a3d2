// The records of layers that divide by a norm of their operand.
#include "ops/core/families.h"

namespace flow::ops {

std::vector<OpSpec> response_norm() {
  return {
      {.name = "l2_normalize",
       .doc = "Divides by the Euclidean norm along axes.",
       .formula = "y = x / sqrt(max(sum x^2, epsilon))",
       .operands = {{"in", "any shape except a scalar"}},
       .attributes = {{"axis", AttributeType::kIntegers, "-1",
                       "axis to sum over, or a list of axes"},
                      number_attribute("epsilon", "1e-12", "least sum of squares to divide by", 0)},
       .numpy = "x / np.sqrt(np.maximum(np.sum(x * x, axis, keepdims=True), epsilon))",
       .examples = {"l2_normalize(f32[3,4])", "l2_normalize(f32[2,3,4]) axis=[0,2]",
                    "l2_normalize(f32[3,4]) axis=0 epsilon=2"}},
      {.name = "local_response_norm",
       .doc = "Local response normalization (Krizhevsky et al., 2012): divides by the squares of "
              "neighboring channels.",
       .formula = "y[c] = x[c] / (k + alpha / size sum x[i]^2)^beta, "
                  "c - floor(size / 2) <= i <= c + floor((size - 1) / 2)",
       .operands = {{"in", "(N, C, ...)"}},
       .attributes = {count_attribute("size", "number of channels to sum over"),
                      {"alpha", AttributeType::kNumber, "1e-4", "factor of the mean square"},
                      {"beta", AttributeType::kNumber, "0.75", "exponent"},
                      {"k", AttributeType::kNumber, "1", "added to the mean square"}},
       .numpy = "x / (k + alpha * np.lib.stride_tricks.sliding_window_view(np.pad(x * x, [(0, 0), "
                "(size // 2, (size - 1) // 2)] + [(0, 0)] * (x.ndim - 2)), size, 1).mean(-1))"
                " ** beta",
       .examples = {"local_response_norm(f32[2,5,3,2]) size=3 alpha=0.5",
                    "local_response_norm(f32[2,5]) size=4 alpha=2 beta=0.5 k=2",
                    "local_response_norm(f32[1,3,4]) size=9 alpha=1"}},
  };
}

}  // namespace flow::ops
