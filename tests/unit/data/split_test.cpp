// Splits against those that tests/golden/data/draws.py makes, and splits that leave nothing.
#include "runtime/data/order/split.h"

#include <catch2/catch.hpp>
#include <numeric>

#include "runtime/base/error.h"
#include "tests/support/golden_arrays.h"

namespace flow::data {
namespace {

using Rows = std::vector<int64_t>;

plan::Split split_of(std::vector<plan::SplitPart> parts, int64_t seed = 0) {
  plan::Split split;
  split.parts = std::move(parts);
  split.seed = seed;
  return split;
}

struct SplitCase {
  std::string name;
  plan::Split options;
  int64_t rows;
};

std::vector<SplitCase> split_cases() {
  return {{"two", split_of({{"a", 0.5}}), 2},
          {"tenth", split_of({{"a", 0.1}}), 95},
          {"three", split_of({{"a", 0.15}, {"b", 0.25}, {"c", 0.3}}, 12345), 90}};
}

void check_split(const std::string& name, const SplitRows& split,
                 const std::map<std::string, Array>& golden) {
  std::vector<Rows> found = split.parts;
  found.push_back(split.rest);
  for (size_t j = 0; j < found.size(); ++j) {
    INFO(name << " " << j);
    const auto rows = golden.at("split_" + name + "_" + std::to_string(j)).as<int64_t>();
    CHECK(found[j] == Rows(rows.begin(), rows.end()));
  }
}

Rows rows_between(int64_t first, int64_t end) {
  Rows rows(static_cast<size_t>(end - first));
  std::iota(rows.begin(), rows.end(), first);
  return rows;
}

/// Returns the rows of parts that begin at `starts`, whose last element is the number of rows.
SplitRows rows_after(const std::vector<int64_t>& starts) {
  SplitRows split{{}, rows_between(0, starts.front())};
  for (size_t part = 0; part + 1 < starts.size(); ++part)
    split.parts.push_back(rows_between(starts[part], starts[part + 1]));
  return split;
}

TEST_CASE("splits equal those of another implementation", "[data]") {
  const std::map<std::string, Array> golden = test::golden_arrays("data/draws");
  for (const auto& [name, options, rows] : split_cases()) {
    const auto ids = golden.at("ids_" + name).as<int64_t>();
    check_split("random_" + name, split_random(options, "houses", rows), golden);
    check_split("last_" + name, rows_after(split_last(options, "houses", rows)), golden);
    check_split("group_" + name, split_groups(options, "houses", ids), golden);
    if (name != "two") check_split("by_" + name, split_by(options, "houses", ids), golden);
  }
}

template <typename Split>
std::string refusal(const Split& split) {
  try {
    split();
  } catch (const RunError& error) {
    return error.what();
  }
  return "accepted";
}

TEST_CASE("parts and the rest have rows", "[data]") {
  const plan::Split small = split_of({{"a", 0.1}, {"b", 0.01}});
  CHECK(refusal([&] { split_random(small, "d", 20); }) ==
        "part `d/b` has no rows after the split of 20 rows");
  CHECK(refusal([&] { split_last(small, "d", 0); }) ==
        "the rest of dataset `d` has no rows after the split of 0 rows");
  const plan::Split halves = split_of({{"a", 0.5}});
  CHECK(refusal([&] {
          split_by(halves, "d", Rows{4, 7});
        }) == "the rest of dataset `d` has no rows after the split of 2 rows");
  CHECK(refusal([&] {
          split_groups(halves, "d", Rows{4, 4, 4});
        }) == "the rest of dataset `d` has no rows after the split of 3 rows");
}

TEST_CASE("parts that round up share the rows that there are", "[data]") {
  const plan::Split thirds = split_of({{"a", 0.3}, {"b", 0.3}, {"c", 0.3}});
  CHECK(refusal([&] { split_random(thirds, "d", 5); }) ==
        "the rest of dataset `d` has no rows after the split of 5 rows");
  const Rows classes{0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1};
  const SplitRows split = split_by(thirds, "d", classes);
  CHECK(split.parts[0].size() == 4);
  CHECK(split.parts[1].size() == 4);
  CHECK(split.parts[2].size() == 3);
  CHECK(split.rest.size() == 1);
}

}  // namespace
}  // namespace flow::data
