// Sums over shards: the order of additions, means, extremes, dtypes, threads.
#include "runtime/cpu/backend/shard_sums.h"

#include <catch2/catch.hpp>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "runtime/base/array.h"
#include "runtime/cpu/loops/parallel.h"
#include "tests/support/job_builder.h"

namespace flow::cpu {
namespace {

using plan::Combine;

/// What shards make of one tensor, and its whole.
template <typename T>
class ShardParts {
 public:
  ShardParts(int64_t shards, const Shape& shape, Combine combine) {
    test::JobBuilder b;
    const plan::TensorId made = b.step("fill", "made", {}, {}, shape, DTypeOf<T>::value);
    b.combined(made, combine);
    b.end_shards(shards);
    sums_ = ShardSums(b.build(), std::vector{made});
    memory_.resize(sums_.bytes() / sizeof(double));
    sums_.use(reinterpret_cast<std::byte*>(memory_.data()));
    parts.assign(static_cast<size_t>(shards), Array(DTypeOf<T>::value, shape));
  }

  std::vector<T> whole(int threads = 1) {
    Workers workers(threads);
    const Workers::Use use(workers);
    Array part;
    for (size_t shard = 0; shard < parts.size(); ++shard) {
      part = parts[shard];
      sums_.add(threads, 0, static_cast<int64_t>(shard), part.bytes().data());
    }
    const auto elements = part.as<T>();
    return {elements.begin(), elements.end()};
  }

  std::vector<Array> parts;

 private:
  ShardSums sums_;
  std::vector<double> memory_;
};

float tree_sum(const std::vector<Array>& parts, size_t first, size_t end, size_t i) {
  if (end - first == 1) return parts[first].as<float>()[i];
  const size_t middle = (first + end) / 2;
  return tree_sum(parts, first, middle, i) + tree_sum(parts, middle, end, i);
}

void fill_parts(std::vector<Array>& parts) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  for (Array& part : parts)
    for (float& element : part.as<float>()) element = normal(random);
}

TEST_CASE("parts of shards are added up by one tree, on any number of threads", "[cpu]") {
  const int64_t shards = GENERATE(2, 4, 8, 16, 32, 64);
  const int64_t n = GENERATE(1, 3, 1024, 40001);
  CAPTURE(shards, n);
  ShardParts<float> sum(shards, {n}, Combine::kSum);
  ShardParts<float> mean(shards, {n}, Combine::kMean);
  fill_parts(sum.parts);
  mean.parts = sum.parts;
  const std::vector<float> whole = sum.whole();
  for (size_t i = 0; i < static_cast<size_t>(n); i += 997)
    CHECK(whole[i] == tree_sum(sum.parts, 0, sum.parts.size(), i));
  CHECK(sum.whole(2) == whole);
  CHECK(sum.whole(3) == whole);
  const std::vector<float> average = mean.whole();
  for (size_t i = 0; i < static_cast<size_t>(n); i += 997)
    CHECK(average[i] == whole[i] / static_cast<float>(shards));
}

TEST_CASE("scalars are added up in float64 and rounded once", "[cpu]") {
  ShardParts<float> scalar(4, {}, Combine::kSum);
  const float parts[] = {0x1p24f, 1, 1, 1};  // each of which float32 would lose
  for (size_t i = 0; i < 4; ++i) scalar.parts[i].as<float>()[0] = parts[i];
  CHECK(scalar.whole()[0] == 0x1p24f + 4);  // 2^24 + 3 is halfway
}

TEST_CASE("the extreme of shards is that of their extremes, and NaN wins", "[cpu]") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const size_t with_nan = GENERATE(size_t{0}, size_t{1}, size_t{2}, size_t{3});
  ShardParts<float> most(4, {2}, Combine::kMax), least(4, {2}, Combine::kMin);
  for (size_t i = 0; i < 4; ++i) {
    most.parts[i].as<float>()[0] = static_cast<float>(i % 3);
    most.parts[i].as<float>()[1] = i == with_nan ? nan : 1;
  }
  least.parts = most.parts;
  CHECK(most.whole()[0] == 2);
  CHECK(std::isnan(most.whole()[1]));
  CHECK(least.whole()[0] == 0);
  CHECK(std::isnan(least.whole()[1]));
}

TEST_CASE("integers of shards are added up in their own dtype and wrap around", "[cpu]") {
  ShardParts<int32_t> sum(2, {1}, Combine::kSum);
  ShardParts<int64_t> large(2, {}, Combine::kSum);
  ShardParts<uint8_t> most(2, {1}, Combine::kMax);
  for (Array& part : sum.parts) part.as<int32_t>()[0] = std::numeric_limits<int32_t>::max();
  for (Array& part : large.parts) part.as<int64_t>()[0] = (int64_t{1} << 60) + 1;
  for (Array& part : most.parts) part.as<uint8_t>()[0] = 200;
  CHECK(sum.whole()[0] == -2);
  CHECK(large.whole()[0] == (int64_t{1} << 61) + 2);
  CHECK(most.whole()[0] == 200);
}

TEST_CASE("of combined tensors in one memory the first stands for all", "[cpu]") {
  test::JobBuilder b;
  const plan::TensorId made = b.step("fill", "made", {}, {}, {6});
  const plan::TensorId view = b.step("reshape", "view", {made}, {}, {2, 3});
  b.combined(made, Combine::kSum);
  b.combined(view, Combine::kSum);
  b.end_shards(8);
  const plan::Job job = b.build();
  const ShardSums apart(job, std::vector{made, view}), together(job, std::vector{made, made});
  CHECK(apart.entries().size() == 2);
  CHECK(apart.bytes() == 2 * 3 * 64);
  REQUIRE(together.entries().size() == 1);
  CHECK(together.entries()[0].tensor == made);
  CHECK(together.entries()[0].step == 0);
}

}  // namespace
}  // namespace flow::cpu
