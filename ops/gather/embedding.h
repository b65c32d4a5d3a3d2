// What layers with a table of embeddings have in common.
#pragma once

#include <vector>

#include "ops/core/count_attribute.h"

namespace flow::ops {

/// The size of the table, what `own` says, and how it starts and is trained.
inline std::vector<AttributeSpec> embedding_attributes(const std::vector<AttributeSpec>& own = {}) {
  std::vector<AttributeSpec> attributes = {
      count_attribute("vocab_size", "number of vectors; integers are in [0, vocab_size)"),
      count_attribute("units", "size of each vector")};
  attributes.insert(attributes.end(), own.begin(), own.end());
  attributes.push_back(
      {"sparse", AttributeType::kBool, "false",
       "gradient of only the rows that a batch looks up, for sgd, adagrad and adam"});
  attributes.push_back({"embeddings_initializer", AttributeType::kInitializer,
                        "random_normal(0.02)", "initial value of the weight"});
  attributes.push_back({"embeddings_regularizer", AttributeType::kRegularizer, "none",
                        "L1 or L2 penalty on the weight"});
  return attributes;
}

}  // namespace flow::ops
