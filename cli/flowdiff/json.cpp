// Writes and reads the results of flowdiff as JSON.
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "cli/flowdiff/report.h"
#include "cli/shared/reports.h"
#include "runtime/base/error.h"

namespace flow::cli {
namespace {

using compare::ArrayDifference;
using compare::Verdict;

OrderedJson json_number(double value) {
  return std::isfinite(value) ? OrderedJson(value) : OrderedJson(nullptr);
}

double number_in(const Json& json, const char* key) {
  const Json& value = json.at(key);
  return value.is_null() ? std::numeric_limits<double>::infinity() : value.get<double>();
}

template <typename T>
void read_if_there(const Json& json, const char* key, T& value) {
  if (const auto found = json.find(key); found != json.end()) value = found->get<T>();
}

OrderedJson json_worst(const ArrayDifference::Worst& worst) {
  return {{"error", json_number(worst.error)},
          {"index", worst.index},
          {"golden", worst.golden},
          {"out", worst.out}};
}

ArrayDifference::Worst read_worst(const Json& json) {
  return {number_in(json, "error"), json.at("index").get<std::vector<int64_t>>(),
          json.at("golden").get<std::string>(), json.at("out").get<std::string>()};
}

void add_profile(const compare::ErrorProfile& profile, OrderedJson& json) {
  json["percentiles"] = {{"50", json_number(profile.median)},
                         {"90", json_number(profile.percentile_90)},
                         {"99", json_number(profile.percentile_99)}};
  json["axes"] = OrderedJson::array();
  for (const auto& worst : profile.axes)
    json["axes"].push_back({{"axis", worst.axis}, {"index", worst.index}, {"share", worst.share}});
}

compare::ErrorProfile read_profile(const Json& json) {
  const Json& percentiles = json.at("percentiles");
  compare::ErrorProfile profile{.median = number_in(percentiles, "50"),
                                .percentile_90 = number_in(percentiles, "90"),
                                .percentile_99 = number_in(percentiles, "99"),
                                .axes = {}};
  for (const Json& worst : json.at("axes"))
    profile.axes.push_back({worst.at("axis").get<int>(), worst.at("index").get<int64_t>(),
                            worst.at("share").get<double>()});
  return profile;
}

OrderedJson json_array(const ArrayDifference& array) {
  OrderedJson json{{"name", array.name}, {"verdict", name_of_verdict(array.verdict)}};
  if (!array.detail.empty()) json["detail"] = array.detail;
  if (!array.doubts.empty()) json["doubts"] = array.doubts;
  if (array.verdict != Verdict::kUnreadable) {
    json["dtype"] = name_of(array.dtype);
    json["shape"] = array.shape.extents();
  }
  if (array.look)
    json["look"] = {{"kind", compare::name_of(array.look->kind)},
                    {"text", array.look->text},
                    {"share", array.look->share}};
  if (!was_compared(array)) return json;
  json["rtol"] = array.tolerance.relative;
  json["atol"] = array.tolerance.absolute;
  json["elements"] = array.elements;
  json["over"] = array.over;
  if (array.not_judged > 0) json["not_judged"] = array.not_judged;
  if (!array.is_judged()) return json;
  json["nan_mismatches"] = array.nan_mismatches;
  json["inf_mismatches"] = array.inf_mismatches;
  json["max_abs"] = json_worst(array.absolute);
  json["max_rel"] = json_worst(array.relative);
  if (array.over > 0)
    json["first"] = {
        {"index", array.first_mismatch}, {"golden", array.first_golden}, {"out", array.first_out}};
  if (array.profile) add_profile(*array.profile, json);
  return json;
}

/// Returns the value that a table lists for `name`. Throws RequestError if the table has no such
/// name.
template <typename T>
T known(const std::optional<T>& found, const char* what, const std::string& name) {
  if (!found) throw RequestError(fmt::format("unknown {} `{}`", what, name));
  return *found;
}

void read_figures(const Json& json, ArrayDifference& array) {
  array.tolerance = {json.at("rtol").get<double>(), json.at("atol").get<double>()};
  array.elements = json.at("elements").get<int64_t>();
  array.over = json.at("over").get<int64_t>();
  read_if_there(json, "not_judged", array.not_judged);
  if (!array.is_judged()) return;
  array.nan_mismatches = json.at("nan_mismatches").get<int64_t>();
  array.inf_mismatches = json.at("inf_mismatches").get<int64_t>();
  array.absolute = read_worst(json.at("max_abs"));
  array.relative = read_worst(json.at("max_rel"));
  if (array.over > 0) {
    const Json& first = json.at("first");
    array.first_mismatch = first.at("index").get<std::vector<int64_t>>();
    array.first_golden = first.at("golden").get<std::string>();
    array.first_out = first.at("out").get<std::string>();
  }
  if (json.contains("percentiles")) array.profile = read_profile(json);
}

ArrayDifference read_array(const Json& json) {
  ArrayDifference array;
  array.name = json.at("name").get<std::string>();
  const auto verdict = json.at("verdict").get<std::string>();
  array.verdict = known(verdict_named(verdict), "verdict", verdict);
  read_if_there(json, "detail", array.detail);
  read_if_there(json, "doubts", array.doubts);
  if (array.verdict != Verdict::kUnreadable) {
    const auto dtype = json.at("dtype").get<std::string>();
    array.dtype = known(parse_dtype(dtype), "dtype", dtype);
    array.shape = Shape(json.at("shape").get<std::vector<int64_t>>());
  }
  if (const auto look = json.find("look"); look != json.end()) {
    const auto kind = look->at("kind").get<std::string>();
    array.look = {known(compare::look_named(kind), "kind of difference", kind),
                  look->at("text").get<std::string>(), look->at("share").get<double>()};
  }
  if (was_compared(array)) read_figures(json, array);
  return array;
}

OrderedJson json_first(const compare::FirstDifference& first) {
  OrderedJson json{{"array", first.array}};
  if (first.step) json["step"] = *first.step;
  if (!first.passing_inputs.empty()) json["inputs_pass"] = first.passing_inputs;
  if (!first.unwatched_inputs.empty()) json["inputs_not_watched"] = first.unwatched_inputs;
  return json;
}

compare::FirstDifference read_first(const Json& json) {
  compare::FirstDifference first;
  first.array = json.at("array").get<std::string>();
  if (json.contains("step")) first.step = json.at("step").get<int64_t>();
  read_if_there(json, "inputs_pass", first.passing_inputs);
  read_if_there(json, "inputs_not_watched", first.unwatched_inputs);
  return first;
}

DiffReport read_report(const Json& json) {
  DiffReport report{.golden = json.at("golden").get<std::string>(),
                    .out = json.at("out").get<std::string>()};
  read_if_there(json, "strict", report.strict);
  report.comparison.ignored = json.at("ignored").get<std::vector<std::string>>();
  for (const Json& array : json.at("arrays")) report.comparison.arrays.push_back(read_array(array));
  if (const auto first = json.find("first"); first != json.end()) report.first = read_first(*first);
  read_if_there(json, "data", report.data);
  read_if_there(json, "plans", report.plans);
  read_if_there(json, "notes", report.notes);
  return report;
}

}  // namespace

std::string diff_json(const DiffReport& report) {
  const compare::Comparison& comparison = report.comparison;
  OrderedJson json{{"golden", report.golden},
                   {"out", report.out},
                   {"verdict", name_of(outcome_of(report))},
                   {"strict", report.strict},
                   {"failed", comparison.failed()},
                   {"mistrusted", comparison.count(Verdict::kMistrusted)},
                   {"summary", diff_summary(comparison)},
                   {"ignored", comparison.ignored},
                   {"arrays", OrderedJson::array()}};
  if (report.first) json["first"] = json_first(*report.first);
  if (!report.data.empty()) json["data"] = report.data;
  if (!report.plans.empty()) json["plans"] = report.plans;
  if (!report.notes.empty()) json["notes"] = report.notes;
  for (const ArrayDifference& array : comparison.arrays)
    json["arrays"].push_back(json_array(array));
  return json_text(json);
}

DiffReport read_diff_json(const Json& json) try {
  DiffReport report = read_report(json);
  // The file may have been edited, so neither side of a contradiction is trustworthy.
  if (json.at("failed") != report.comparison.failed() ||
      json.at("mistrusted") != report.comparison.count(Verdict::kMistrusted) ||
      json.value("verdict", name_of(outcome_of(report))) != name_of(outcome_of(report)))
    throw RequestError("its verdict contradicts its arrays");
  return report;
} catch (const Json::exception&) {
  throw RequestError("it is not a report of flowdiff");
}

}  // namespace flow::cli
