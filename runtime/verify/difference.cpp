// Finds the first difference between two runs, in the order of steps and of computation.
#include "runtime/verify/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "runtime/base/error.h"
#include "runtime/base/text.h"
#include "runtime/compare/arrays.h"
#include "runtime/compare/compare.h"
#include "runtime/compare/run_plan.h"
#include "runtime/exec/core/run_files.h"
#include "runtime/io/npy.h"
#include "runtime/io/numpy_text.h"
#include "runtime/plan/json/json.h"

namespace flow::verify {
namespace {

using compare::ArrayDifference;
using compare::Comparison;
using compare::RunPlan;
using compare::Side;
using ArrayVerdict = compare::Verdict;

constexpr std::string_view kCheckpoint = "checkpoint/";

Comparison compare_all_bits(const Side& first, const Side& second) {
  return compare::compare_pairs(
      first, second, {}, [](const std::string& name, const fs::path& one, const fs::path& other) {
        const Array a = io::read_npy(one), b = io::read_npy(other);
        return compare_bits(name, a.view(), b.view());
      });
}

/// Returns descriptions of both sides if there are no two values to compare.
std::pair<std::string, std::string> sides_of(const ArrayDifference& array) {
  if (array.verdict == ArrayVerdict::kMissing) return {"present", "missing"};
  if (array.verdict == ArrayVerdict::kExtra) return {"missing", "present"};
  return {array.first_golden, array.first_out};
}

/// Returns the place in the job file of the tensor or variable that an array contains.
std::string place_of(const RunPlan& plan, const std::string& array) {
  const plan::Job& job = plan.ran();
  for (const exec::Delivery& delivery : plan.deliveries)
    if (compare::part_of(delivery, array)) return job[delivery.tensor].where;
  if (!array.starts_with(kCheckpoint)) return {};
  const std::string name = array.substr(kCheckpoint.size());
  for (const plan::Variable& variable : job.variables)
    if (job[variable.tensor].name == name) return job[variable.tensor].where;
  return {};
}

Difference describe(const ArrayDifference& array, const Side& side, const RunPlan* plan) {
  Difference difference{.tensor = array.name, .index = array.first_mismatch};
  std::tie(difference.first, difference.second) = sides_of(array);
  if (array.shape.rank() > 0 && !difference.index.empty()) {
    const auto steps = compare::steps_of(side, array.name, array.shape[0]);
    const std::string last = array.name.substr(array.name.rfind('/') + 1);
    if (last == "value" || last == "diff") {  // one value per step
      const auto at = static_cast<size_t>(difference.index.front());
      if (at < steps.size()) {
        difference.step = steps[at];
        difference.index.erase(difference.index.begin());
      }
    } else if (!steps.empty()) {
      difference.step = steps.front();
    }
  }
  if (!difference.step && array.name.starts_with(kCheckpoint))
    difference.step = side.checkpoint_step();
  if (plan) difference.where = place_of(*plan, array.name);
  return difference;
}

/// Returns true if the row is for a number that a hook of the job reduced.
bool is_of_hook(const OrderedJson& row, const RunPlan* plan) {
  if (!plan || !row.is_object() || !row.contains("name") || row["job"] != plan->ran().name)
    return false;
  return std::ranges::none_of(plan->deliveries, [&](const exec::Delivery& delivery) {
    return delivery.every_step && row["name"] == delivery.name;
  });
}

/// Returns the rows of metrics.jsonl without times, or an empty list if the run has no such file.
std::vector<OrderedJson> metrics_of(const fs::path& run, const RunPlan* plan, bool watches) {
  const fs::path path = run / exec::kMetricsFile;
  std::vector<OrderedJson> rows;
  if (!fs::exists(path)) return rows;
  for (const std::string& line : split(read_text(path), '\n')) {
    if (line.empty()) continue;
    OrderedJson row = OrderedJson::parse(line, nullptr, false);
    if (row.is_object()) row.erase("seconds");
    if (watches || !is_of_hook(row, plan)) rows.push_back(std::move(row));
  }
  return rows;
}

/// Returns the first key that differs, with both values.
Difference describe_row(const OrderedJson& first, const OrderedJson& second, const RunPlan* plan) {
  Difference difference{.tensor = exec::kMetricsFile};
  if (plan && plan->ran().optimizer) difference.where = plan->ran().optimizer->where;
  difference.first = first.dump();
  difference.second = second.dump();
  if (!first.is_object() || !second.is_object()) return difference;
  if (first.contains("step") && first["step"].is_number_integer())
    difference.step = first["step"].get<int64_t>();
  for (const auto& [key, value] : first.items()) {
    if (second.contains(key) && second[key] == value) continue;
    difference.tensor += ": " + key;
    difference.first = value.dump();
    difference.second = second.contains(key) ? second[key].dump() : "missing";
    return difference;
  }
  return difference;
}

std::optional<Difference> compare_metrics(const fs::path& first, const fs::path& second,
                                          const RunPlan* plan, bool watches) {
  const auto a = metrics_of(first, plan, watches), b = metrics_of(second, plan, watches);
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    if (a[i] != b[i]) return describe_row(a[i], b[i], plan);
  if (a.size() == b.size()) return {};
  return Difference{.tensor = exec::kMetricsFile,
                    .first = counted(a.size(), "row"),
                    .second = counted(b.size(), "row")};
}

/// Returns the text of an element. If the element of `other` has the same text but different bits,
/// as NaNs may have, the bits are added.
std::string element_text(const ArrayView& array, const ArrayView& other, int64_t element) {
  std::string text = io::format_element(array, element);
  if (text != io::format_element(other, element)) return text;
  const size_t size = size_of(array.dtype);
  text += " (0x";
  for (size_t byte = size; byte-- > 0;)
    text += fmt::format("{:02x}", array.data[static_cast<size_t>(element) * size + byte]);
  return text + ')';
}

bool is_before(const Difference& a, const Difference& b) {
  return a.step && (!b.step || *a.step < *b.step);
}

/// Returns the first array that differs: in computation order if the plan contains the array, else
/// by step.
std::optional<Difference> first_of(const Comparison& comparison, const Side& side,
                                   const RunPlan* plan) {
  std::optional<Difference> first;
  const auto computed =
      plan ? compare::first_difference(*plan, side.path, comparison) : std::nullopt;
  size_t differing = 0;
  for (const ArrayDifference& array : comparison.arrays) {
    if (!array.failed()) continue;
    ++differing;
    if (computed && array.name != computed->array) continue;
    const Difference found = describe(array, side, plan);
    if (!first || is_before(found, *first)) first = found;
  }
  if (first) first->differing = differing;
  return first;
}

}  // namespace

ArrayDifference compare_bits(const std::string& name, const ArrayView& first,
                             const ArrayView& second) {
  ArrayDifference difference;
  difference.name = name;
  difference.dtype = first.dtype;
  difference.shape = first.shape;
  const auto unlike = [&](ArrayVerdict verdict, std::string a, std::string b) {
    difference.verdict = verdict;
    difference.first_golden = std::move(a);
    difference.first_out = std::move(b);
    return difference;
  };
  if (first.dtype != second.dtype)
    return unlike(ArrayVerdict::kDType, std::string(name_of(first.dtype)),
                  std::string(name_of(second.dtype)));
  if (first.shape != second.shape)
    return unlike(ArrayVerdict::kShape, first.shape.str(), second.shape.str());
  const std::span<const std::byte> a(first.data, first.bytes()), b(second.data, second.bytes());
  const auto at = std::ranges::mismatch(a, b).in1 - a.begin();
  if (at == static_cast<std::ptrdiff_t>(a.size())) return difference;
  const auto element = static_cast<int64_t>(static_cast<size_t>(at) / size_of(first.dtype));
  difference.first_mismatch = compare::index_of(element, first.shape);
  return unlike(ArrayVerdict::kDiffers, element_text(first, second, element),
                element_text(second, first, element));
}

RunComparison compare_runs(const fs::path& first, const fs::path& second, const RunRules& rules) {
  Side a = compare::list_side(first), b = compare::list_side(second);
  if (!rules.watches)
    for (Side* side : {&a, &b})
      std::erase_if(side->arrays,
                    [](const auto& array) { return array.first.starts_with("watch/"); });
  const Comparison comparison =
      rules.tolerance ? compare::compare_sides(a, b, *rules.tolerance) : compare_all_bits(a, b);
  for (const ArrayDifference& array : comparison.arrays)
    if (array.verdict == ArrayVerdict::kUnreadable)
      throw RunError(fmt::format("cannot read {}: {}", array.name, array.detail));
  const std::optional<RunPlan> plan = compare::read_run_plan(first);
  RunComparison result{comparison.arrays.size(), {}};
  result.difference = first_of(comparison, a, plan ? &*plan : nullptr);
  if (rules.tolerance) return result;
  auto metrics = compare_metrics(first, second, plan ? &*plan : nullptr, rules.watches);
  if (!metrics) return result;
  const size_t differing = (result.difference ? result.difference->differing : 0) + 1;
  if (!result.difference || is_before(*metrics, *result.difference))
    result.difference = std::move(metrics);
  result.difference->differing = differing;
  return result;
}

std::string text_of(const Difference& difference) {
  std::string text;
  if (difference.step) text += fmt::format("step {}, ", *difference.step);
  text += difference.tensor;
  if (!difference.index.empty()) text += Shape(difference.index).str();
  text += fmt::format(": {} and {}", difference.first, difference.second);
  if (!difference.where.empty()) text += fmt::format(" ({})", difference.where);
  return text;
}

}  // namespace flow::verify
