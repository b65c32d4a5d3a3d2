// The JSON of flowdiff: what is read is what was written.
#include <catch2/catch.hpp>

#include "cli/flowdiff/report.h"
#include "runtime/base/error.h"

namespace flow::cli {
namespace {

using compare::ArrayDifference;
using compare::Verdict;

/// Every verdict, with all that it has.
DiffReport full_report() {
  DiffReport report{.golden = "golden", .out = "out", .strict = true};
  for (int i = 0; i <= static_cast<int>(Verdict::kUnreadable); ++i) {
    ArrayDifference array;
    array.verdict = static_cast<Verdict>(i);
    array.name = name_of_verdict(array.verdict);
    array.dtype = DType::kFloat64;
    array.shape = Shape{2, 3};
    array.tolerance = {1e-7, 1e-9};
    if (array.verdict == Verdict::kMistrusted) array.doubts = {"golden is constant", "and more"};
    if (array.verdict > Verdict::kExtra) array.detail = "why";
    if (was_compared(array)) array.elements = 6;
    if (array.verdict == Verdict::kWithin) array.not_judged = 6;
    if (array.verdict == Verdict::kDiffers) {
      array.over = 2;
      array.nan_mismatches = 1;
      array.inf_mismatches = 3;
      array.absolute = {0.5, {1, 2}, "1.0", "1.5"};
      array.relative = {INFINITY, {0, 2}, "1.0", "1.5"};
      array.first_mismatch = {0, 1};
      array.first_golden = "1.0";
      array.first_out = "nan";
      array.profile = {1, 2, 3, {{0, 1, 0.75}}};
      array.look = {compare::LookKind::kGain, "gain of 2", 0.99};
    }
    report.comparison.arrays.push_back(array);
  }
  report.comparison.ignored = {"left/out"};
  report.first = {"differs", 7, {"a"}, {"b", "c"}};
  report.data = {"data differ: x"};
  report.plans = "plans differ: y";
  report.notes = {"a note"};
  return report;
}

TEST_CASE("a report is read as it was written", "[cli]") {
  const DiffReport report = full_report();
  const std::string text = diff_json(report);
  const DiffReport read = read_diff_json(Json::parse(text));
  CHECK(diff_json(read) == text);
  CHECK(outcome_of(read) == outcome_of(report));
  CHECK(closing_lines(read) == closing_lines(report));
  REQUIRE(read.comparison.arrays.size() == report.comparison.arrays.size());
  for (size_t i = 0; i < read.comparison.arrays.size(); ++i)
    CHECK(reasons(read.comparison.arrays[i]) == reasons(report.comparison.arrays[i]));
}

TEST_CASE("a report that lacks something is refused", "[cli]") {
  const Json json = Json::parse(diff_json(full_report()));
  for (const auto& [key, value] : json.items()) {
    Json less = json;
    less.erase(key);
    CAPTURE(key);
    if (key == "golden" || key == "out" || key == "arrays" || key == "failed" ||
        key == "mistrusted" || key == "ignored")
      CHECK_THROWS_AS(read_diff_json(less), RequestError);
    else
      CHECK_NOTHROW(read_diff_json(less));
  }
  for (const char* key : {"dtype", "shape", "over", "max_abs", "first", "rtol"}) {
    Json less = json;
    less["arrays"][static_cast<size_t>(Verdict::kDiffers)].erase(key);
    CAPTURE(key);
    CHECK_THROWS_AS(read_diff_json(less), RequestError);
  }
  CHECK_THROWS_AS(read_diff_json(Json::array()), RequestError);
}

TEST_CASE("what a comparison comes to follows from its verdicts", "[cli]") {
  const auto outcome = [](std::vector<Verdict> verdicts, bool strict = false) {
    DiffReport report{.golden = "a", .out = "b", .strict = strict};
    for (const Verdict verdict : verdicts) {
      report.comparison.arrays.emplace_back();
      report.comparison.arrays.back().verdict = verdict;
    }
    return outcome_of(report);
  };
  CHECK(outcome({}) == Outcome::kNothingCompared);
  CHECK(outcome({Verdict::kMissing, Verdict::kExtra}) == Outcome::kNothingCompared);
  CHECK(outcome({Verdict::kEqual, Verdict::kWithin}) == Outcome::kPassed);
  CHECK(outcome({Verdict::kEqual, Verdict::kMistrusted}) == Outcome::kMistrusted);
  CHECK(outcome({Verdict::kEqual, Verdict::kMistrusted}, true) == Outcome::kFailed);
  CHECK(outcome({Verdict::kEqual, Verdict::kMissing}) == Outcome::kFailed);
  CHECK(outcome({Verdict::kEqual, Verdict::kUnreadable}) == Outcome::kUnreadable);
  CHECK(outcome({Verdict::kDiffers, Verdict::kUnreadable}) == Outcome::kFailed);
}

}  // namespace
}  // namespace flow::cli
