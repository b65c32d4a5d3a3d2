// Random calls: attention and its gradients.
#include <algorithm>
#include <cmath>

#include "tests/property/cases/draw.h"

namespace flow::test {
namespace {

/// Queries and keys that several tiles share now and then.
int64_t length(Random& random) {
  return random_between(random, 0, 4) == 0 ? random_between(random, 250, 300) : extent(random, 127);
}

Shape leading(Random& random) {
  Integers extents(static_cast<size_t>(random_between(random, 0, 2)));
  for (int64_t& e : extents) e = random_between(random, 1, 3);
  return Shape(extents);
}

Shape with(const Shape& shape, std::initializer_list<int64_t> last) {
  Integers extents = shape.extents();
  extents.insert(extents.end(), last);
  return Shape(extents);
}

/// The logarithms of sums of `keys` weights, about: so that those of the gradient's tests are
/// below 1.
Array log_sums(Random& random, const Shape& shape, int64_t keys) {
  Array array = random_array(random, kF, shape);
  for (float& x : array.as<float>()) x += 2 + std::log(static_cast<float>(keys));
  return array;
}

bool toss(Random& random) { return random_between(random, 0, 1) == 1; }

/// Leading dimensions of keys whose heads groups of queries share, or those of queries.
Shape leading_of_keys(Random& random, const Shape& batch) {
  Integers extents = batch.extents();
  if (extents.size() < 2 || toss(random)) return batch;
  for (int64_t heads = extents.back() - 1; heads > 0; --heads)
    if (extents.back() % heads == 0 && toss(random)) extents.back() = heads;
  return Shape(extents);
}

KernelCase attention(const std::string& op, Random& random) {
  const int64_t queries = length(random), keys = length(random);
  const int64_t depth = extent(random, 65), value_depth = extent(random, 65);
  const Shape batch = queries + keys < 200 ? leading(random) : Shape();
  const Shape shared = leading_of_keys(random, batch);
  const Shape query = with(batch, {queries, depth}), key = with(shared, {keys, depth}),
              value = with(shared, {keys, value_depth}), out = with(batch, {queries, value_depth}),
              rows = with(batch, {queries});
  const bool forward = op == "scaled_dot_product_attention", to_bias = op.ends_with("_bias");
  KernelCase one{
      op, {{"causal", toss(random)}, {"scale", 1 / std::sqrt(static_cast<double>(depth))}}, {}, {}};
  if (std::get<bool>(one.attributes[0].second) && toss(random))
    one.attributes.emplace_back("window", random_between(random, 1, keys + 1));
  if (std::get<bool>(one.attributes[0].second) && toss(random))
    one.attributes.emplace_back("diagonal", keys - queries);
  if (!forward) one.inputs.push_back(random_array(random, kF, out));
  for (const Shape& shape : {query, key, value})
    one.inputs.push_back(random_array(random, kF, shape));
  if (forward) {
    one.results = {{kF, out}, {kF, rows}};
  } else {
    one.inputs.push_back(random_array(random, kF, out));
    one.inputs.push_back(log_sums(random, rows, keys));
    one.results = {{kF, query}, {kF, key}, {kF, value}};
  }
  const Shape scores = with(batch, {queries, keys});
  if (to_bias) {
    one.inputs.push_back(random_array(random, kF, repeated(random, scores)));
    one.results = {{kF, one.inputs.back().shape()}};
  }
  // Coins: with few keys, rows that let nothing through.
  if (toss(random))
    one.inputs.push_back(random_array(random, DType::kBool, repeated(random, scores)));
  if (!to_bias && toss(random))
    one.inputs.push_back(random_array(random, kF, repeated(random, scores)));
  if (batch.rank() > 0 && toss(random))
    one.inputs.push_back(
        random_labels(random, pick_integer(random), {batch[0]}, std::min<int64_t>(keys + 1, 128)));
  return one;
}

/// Sums over the depth, then over keys or queries.
int64_t terms(const KernelCase& one) {
  int64_t most = 0;
  for (const Array& input : one.inputs) {
    const Shape& shape = input.shape();
    if (shape.rank() > 1) most = std::max(most, shape[shape.rank() - 1] + shape[shape.rank() - 2]);
  }
  return most;
}

}  // namespace

std::span<const CaseMaker> attention_cases() {
  static constexpr CaseMaker kCases[] = {
      {"scaled_dot_product_attention", attention, terms},
      {"scaled_dot_product_attention_grad", attention, terms},
      {"scaled_dot_product_attention_grad_bias", attention, terms},
  };
  return kCases;
}

}  // namespace flow::test
