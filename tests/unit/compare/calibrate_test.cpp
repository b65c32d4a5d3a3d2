// Tolerances from how far apart runs are.
#include "runtime/compare/tolerance.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "runtime/compare/arrays.h"
#include "runtime/io/npy.h"
#include "tests/support/fresh_directory.h"

namespace flow::compare {
namespace {

struct MeasuredRuns : FreshDirectory {
  template <typename T>
  void put(const std::string& path, const std::vector<T>& values) const {
    Array array(DTypeOf<T>::value, {static_cast<int64_t>(values.size())});
    std::copy(values.begin(), values.end(), array.as<T>().begin());
    fs::create_directories((*this / path).parent_path());
    io::write_npy(*this / path, array.view());
  }
  std::vector<ArraySpread> measure() const {
    return measure_spreads(
        list_side(*this / "reference"),
        {{"first", list_side(*this / "first")}, {"second", list_side(*this / "second")}});
  }
};

TEST_CASE("the spread of an array is its largest error, its tolerance four times that",
          "[compare]") {
  const MeasuredRuns runs;
  runs.put<float>("reference/x.npy", {1, 2, 3});
  runs.put<float>("first/x.npy", {1, 2, 3});
  runs.put<double>("second/x.npy", {1.0001, 2, 3});  // another dtype
  runs.put<int64_t>("reference/equal.npy", {1, 2});
  runs.put<int64_t>("first/equal.npy", {1, 2});
  runs.put<int64_t>("second/equal.npy", {1, 2});
  const auto spreads = runs.measure();
  REQUIRE(spreads.size() == 1);
  CHECK(spreads[0].name == "x");
  CHECK(spreads[0].worst == "second");
  CHECK(spreads[0].spread == Approx(1e-4));
  CHECK(spreads[0].relative == Approx(1e-4 / std::sqrt(14.0 / 3)));
  CHECK(spreads[0].tolerance == Approx(4e-4));
  CHECK_FALSE(spreads[0].last_step);
}

TEST_CASE("equal results get the rounding of their dtype", "[compare]") {
  const MeasuredRuns runs;
  for (const char* run : {"reference/x.npy", "first/x.npy", "second/x.npy"})
    runs.put<float>(run, {1, -1});
  const auto spreads = runs.measure();
  REQUIRE(spreads.size() == 1);
  CHECK(spreads[0].worst.empty());
  CHECK(spreads[0].spread == 0x1p-22);
  CHECK(spreads[0].tolerance == Approx(1e-6));
}

TEST_CASE("chaotic arrays are judged up to the step before they part", "[compare]") {
  const MeasuredRuns runs;
  for (const std::string run : {"reference", "first", "second"})
    runs.put<int64_t>(run + "/loss/steps.npy", {0, 10, 20, 30});
  runs.put<float>("reference/loss/value.npy", {1, 1, 1, 1});
  runs.put<float>("first/loss/value.npy", {1, 1.0001f, 1.1f, 1});
  runs.put<float>("second/loss/value.npy", {1, 1, 1, 1});
  const auto spreads = runs.measure();
  REQUIRE(spreads.size() == 1);
  CHECK(spreads[0].last_step == 10);
  CHECK(spreads[0].spread == Approx(1e-4).epsilon(1e-3));
  const std::string text = tolerances_text(spreads, {"first", "second"}, "title");
  CHECK(text ==
        "# title\n# Measured over 2 settings: first, second.\narrays:\n  \"loss/value\":\n"
        "    atol: 0.0005\n    spread: 0.0001\n    last_step: 10\n"
        "    reason: chaotic in later steps; largest error with first, 0.0001 of the root mean "
        "square\n");
}

TEST_CASE("arrays that are chaotic from the start get no tolerance", "[compare]") {
  const MeasuredRuns runs;
  runs.put<float>("reference/x.npy", {1, 2});
  runs.put<float>("first/x.npy", {1, 3});
  runs.put<float>("second/x.npy", {1, 2});
  const auto spreads = runs.measure();
  REQUIRE(spreads.size() == 1);
  CHECK(spreads[0].last_step == -1);
  CHECK(tolerances_text(spreads, {"first"}, "title").find("# x: chaotic from the start") !=
        std::string::npos);
}

}  // namespace
}  // namespace flow::compare
