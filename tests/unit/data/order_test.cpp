// Orders of epochs against those that tests/golden/data/draws.py makes, and weights that are
// rejected.
#include "runtime/data/order/order.h"

#include <catch2/catch.hpp>
#include <limits>
#include <numeric>

#include "runtime/base/error.h"
#include "tests/support/golden_arrays.h"

namespace flow::data {
namespace {

using Rows = std::vector<int64_t>;

const std::map<std::string, Array>& golden() {
  static const std::map<std::string, Array> arrays = test::golden_arrays("data/draws");
  return arrays;
}

Rows expected(const std::string& name) {
  const auto rows = golden().at(name).as<int64_t>();
  return {rows.begin(), rows.end()};
}

constexpr EpochDraws draws(uint32_t epoch) { return {99, "houses", epoch}; }

TEST_CASE("rows are shuffled as another implementation does", "[data]") {
  for (const size_t n : {1, 2, 5, 100})
    for (const uint32_t epoch : {0, 3}) {
      Rows order(n);
      shuffle_rows(draws(epoch), order);
      CHECK(order == expected("shuffle_" + std::to_string(n) + "_" + std::to_string(epoch)));
    }
}

TEST_CASE("a shuffle buffer has the order of another implementation", "[data]") {
  const Rows file_rows{20, 0, 13, 1, 26, 0};
  for (const int64_t buffer : {1, 2, 7, 59, 60, 1000})
    for (const bool files : {false, true}) {
      Rows order(60);
      shuffle_buffered(draws(2), buffer, files, file_rows, order);
      INFO(buffer << " " << files);
      CHECK(order == expected("buffer_" + std::to_string(buffer) + (files ? "_1" : "_0")));
    }
}

TEST_CASE("a shuffle buffer of one row keeps the order, and no rows have none", "[data]") {
  Rows order(5), none;
  shuffle_buffered(draws(0), 1, false, Rows{0, 2, 3}, order);
  CHECK(order == Rows{0, 1, 2, 3, 4});
  shuffle_buffered(draws(0), std::numeric_limits<int64_t>::max(), true, Rows{0, 0}, none);
  shuffle_buffered(draws(0), 1, true, {}, none);
  CHECK(none.empty());
}

/// Checks `sample` for 50 and 121 positions.
template <typename Sample>
void check_sample(const std::string& name, const Sample& sample) {
  for (const size_t positions : {50, 121}) {
    Rows order(positions);
    sample(order);
    const std::string array = name + "_" + std::to_string(positions);
    INFO(array);
    CHECK(order == expected(array));
    const std::vector<uint32_t> uses = earlier_uses(order, 50);
    CHECK(Rows(uses.begin(), uses.end()) == expected(array + "_uses"));
  }
}

TEST_CASE("samples equal those of another implementation", "[data]") {
  check_sample("uniform", [](Rows& order) { sample_uniform(draws(4), 50, order); });
  const WeightedSampler weighted(golden().at("weights").as<double>(), "w");
  check_sample("weighted", [&](Rows& order) { weighted.sample(draws(4), order); });
  const BalancedSampler balanced(golden().at("classes").as<int64_t>());
  check_sample("balance", [&](Rows& order) { balanced.sample(draws(4), order); });
}

TEST_CASE("rows of weight 0 are never drawn", "[data]") {
  Rows order(1000);
  WeightedSampler(std::vector<double>{0, 5e-324, 0, 5e-324, 0}, "w").sample(draws(0), order);
  CHECK(std::ranges::all_of(order, [](int64_t row) { return row == 1 || row == 3; }));
  WeightedSampler(std::vector<double>{0, 5e-324, 0}, "w").sample(draws(0), order);
  CHECK(order == Rows(1000, 1));
}

std::string refusal(const std::vector<double>& weights) {
  try {
    const WeightedSampler sampler(weights, "w");
  } catch (const RunError& error) {
    return error.what();
  }
  return "accepted";
}

TEST_CASE("weights without a meaning are rejected", "[data]") {
  const double infinity = std::numeric_limits<double>::infinity();
  CHECK(refusal({1, -0.5}) == "weight of row 1 is -0.5 (column w); expected a finite number >= 0");
  CHECK(refusal({std::nan("")}) ==
        "weight of row 0 is nan (column w); expected a finite number >= 0");
  CHECK(refusal({infinity}) == "weight of row 0 is inf (column w); expected a finite number >= 0");
  CHECK(refusal({0, 0}) == "weights have the sum 0 (column w); expected a positive number");
  CHECK(refusal({}) == "weights have the sum 0 (column w); expected a positive number");
  CHECK(refusal({1e308, 1e308}) ==
        "weights have the sum inf (column w); expected a positive number");
}

}  // namespace
}  // namespace flow::data
