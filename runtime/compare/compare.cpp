// Compares two arrays element by element, and compares files, folders of .npy and run directories
// by the names of their arrays.
#include "runtime/compare/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <new>

#include "runtime/base/error.h"
#include "runtime/base/names.h"
#include "runtime/compare/arrays.h"
#include "runtime/compare/tolerance.h"
#include "runtime/io/elements.h"
#include "runtime/io/numpy_text.h"

namespace flow::compare {
namespace {

/// Returns |a - b|. For integers it is computed without overflow and rounded once.
template <typename T>
double distance(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    const auto wide = [](T x) { return static_cast<uint64_t>(static_cast<int64_t>(x)); };
    return static_cast<double>(a > b ? wide(a) - wide(b) : wide(b) - wide(a));
  } else {
    return std::abs(static_cast<double>(a) - static_cast<double>(b));
  }
}

/// Returns true if the error is larger than the tolerance. If both are too large for a double, the
/// values are scaled, which is exact.
bool is_beyond(double error, double out, double golden, const Tolerance& tolerance) {
  const double allowed = tolerance.at(golden);
  if (std::isfinite(error) && std::isfinite(allowed)) return error > allowed;
  constexpr double kScale = 0x1p-64;
  const double scaled = std::abs(out * kScale - golden * kScale);
  return scaled > tolerance.absolute * kScale + tolerance.relative * std::abs(golden * kScale);
}

/// The largest error so far, and the flat index of its element.
struct Peak {
  double error = 0;
  int64_t at = -1;
  void raise(double other, int64_t index) {
    if (other > error) *this = {other, index};
  }
};

/// The findings of one pass over two arrays. Indices are flat.
struct Findings {
  Peak absolute, relative;
  int64_t first_over = -1;
  int64_t over = 0, nans = 0, infinities = 0, common_nans = 0;
  Tolerance exceeded;  // the tolerance that the first element over tolerance exceeds
  bool same = true;
};

/// The elements [begin, end), which have the same tolerance.
struct Stretch {
  size_t begin = 0, end = 0;
  Tolerance tolerance;
  std::optional<int64_t> step;
};

/// A tolerance of an array, and the error that it allows.
struct Applied {
  Tolerance tolerance;
  std::optional<int64_t> step;  // the first step that has it, if steps have different tolerances
  double widest = -1;           // the largest allowed error; -1 if no golden value is finite
};

template <typename T>
void find(std::span<const T> golden, std::span<const T> out, const Stretch& stretch, double& widest,
          Findings& found) {
  const auto over = [&](size_t i) {
    if (found.over++ > 0) return;
    found.first_over = static_cast<int64_t>(i);
    found.exceeded = stretch.tolerance;
  };
  for (size_t i = stretch.begin; i < stretch.end; ++i) {
    const auto a = static_cast<double>(out[i]), b = static_cast<double>(golden[i]);
    if (std::isnan(a) && std::isnan(b)) {
      ++found.common_nans;
      continue;
    }
    const double allowed = stretch.tolerance.at(b);
    if (std::isfinite(allowed)) widest = std::max(widest, allowed);
    const double error = distance(out[i], golden[i]);
    const bool same_infinity = std::isinf(a) && a == b;
    if (error == 0 || same_infinity) continue;
    found.same = false;
    if (std::isnan(a) || std::isnan(b)) {
      ++found.nans;
      over(i);
    } else if (std::isinf(a) || std::isinf(b)) {
      ++found.infinities;
      over(i);
    } else {
      found.absolute.raise(error, static_cast<int64_t>(i));
      if (b != 0) found.relative.raise(error / std::abs(b), static_cast<int64_t>(i));
      if (is_beyond(error, a, b, stretch.tolerance)) over(i);
    }
  }
}

[[noreturn]] void refuse(const ToleranceRule& rule, const std::string& what,
                         const std::string& hint) {
  throw RequestError(rule.where.empty() ? what : fmt::format("{}: {}", rule.where, what), hint);
}

/// Returns the stretches of an array that are judged, in order: the whole array, or the slices of
/// its steps.
std::vector<Stretch> stretches_of(const std::string& name, const Shape& shape,
                                  const ToleranceRule& rule, const std::vector<int64_t>& steps) {
  const auto elements = static_cast<size_t>(shape.elements());
  if (!rule.needs_steps()) return {{0, elements, rule.tolerance, {}}};
  if (steps.empty())
    refuse(rule, fmt::format("`{}` has no steps, so tolerances by step do not apply", name),
           "leave out `steps` and `last_step`, or match only arrays with steps");
  std::vector<Stretch> stretches;
  const size_t slice = elements / steps.size();
  for (size_t i = 0; i < steps.size(); ++i)
    if (steps[i] <= rule.last_step)
      stretches.push_back({i * slice, (i + 1) * slice, rule.at_step(steps[i]), steps[i]});
  return stretches;
}

/// Returns the entry for the tolerance of a stretch, and adds one if the tolerance is new.
Applied& applied_of(const Stretch& stretch, std::vector<Applied>& all) {
  const auto known = std::ranges::find(all, stretch.tolerance, &Applied::tolerance);
  return known != all.end() ? *known : all.emplace_back(Applied{stretch.tolerance, stretch.step});
}

/// Returns "" or " in step 3".
std::string in_step(const Applied& applied) {
  return applied.step ? fmt::format(" in step {}", *applied.step) : "";
}

/// Throws RequestError if one of the tolerances is tighter than the measured spread.
void check_spread(const std::string& name, const ToleranceRule& rule,
                  const std::vector<Applied>& all) {
  for (const Applied& applied : all)
    if (rule.spread && applied.widest >= 0 && applied.widest < *rule.spread)
      refuse(rule,
             fmt::format(
                 "the tolerance of `{}`{} is at most {:.3g}; equally right runs differ by {:g}",
                 name, in_step(applied), applied.widest, *rule.spread),
             "widen it, or measure again with `flowdiff calibrate`");
}

/// Returns true for an array of step numbers if the rule has tolerances by step. A glob such as
/// `returns/**` also matches these arrays, but the rule is not meant for them.
bool leaves_out(const ToleranceRule& rule, const std::string& name, const ArrayContext& context) {
  return rule.needs_steps() && context.steps.empty() && has_step_numbers(name);
}

/// Determines the verdict, and the doubts about one that passes. `chosen` is true if a rule set the
/// tolerance.
void judge(const ArrayView& golden, const Findings& found, const std::vector<Applied>& tolerances,
           bool chosen, ArrayDifference& difference) {
  difference.verdict = found.over > 0 ? Verdict::kDiffers
                       : found.same   ? Verdict::kEqual
                                      : Verdict::kWithin;
  if (found.over > 0) return;
  const int64_t elements = golden.shape.elements();
  if (elements == 0) difference.doubts.push_back("no elements, so nothing is compared");
  if (!difference.is_judged())
    difference.doubts.push_back("no step is judged: all are after `last_step`");
  if (found.common_nans > 0)
    difference.doubts.push_back(fmt::format("NaN on both sides: {}", found.common_nans));
  if (elements >= 2) {
    const Spread spread = spread_of(golden);
    const auto values = doubts_of_values(golden, spread, io::format_element(golden, 0));
    difference.doubts.insert(difference.doubts.end(), values.begin(), values.end());
    const Applied* wide = nullptr;  // the widest of the tolerances that are too wide
    for (const Applied& applied : tolerances)
      if (is_too_wide(applied.tolerance, spread) && (!wide || applied.widest > wide->widest))
        wide = &applied;
    if ((chosen || !found.same) && !spread.constant && wide)
      difference.doubts.push_back(fmt::format(
          "the tolerance{} (rtol {:g}, atol {:g}) is wider than the spread of "
          "golden, whose standard deviation is {:.3g}",
          in_step(*wide), wide->tolerance.relative, wide->tolerance.absolute, spread.deviation));
  }
  if (!difference.doubts.empty()) difference.verdict = Verdict::kMistrusted;
}

void describe(const ArrayView& golden, const ArrayView& out, const Findings& found,
              ArrayDifference& difference) {
  const auto worst = [&](const Peak& peak) -> ArrayDifference::Worst {
    if (peak.at < 0) return {};
    return {peak.error, index_of(peak.at, golden.shape), io::format_element(golden, peak.at),
            io::format_element(out, peak.at)};
  };
  difference.over = found.over;
  difference.nan_mismatches = found.nans;
  difference.inf_mismatches = found.infinities;
  difference.absolute = worst(found.absolute);
  difference.relative = worst(found.relative);
  if (found.first_over < 0) return;
  difference.tolerance = found.exceeded;
  difference.first_mismatch = index_of(found.first_over, golden.shape);
  difference.first_golden = io::format_element(golden, found.first_over);
  difference.first_out = io::format_element(out, found.first_over);
}

LookContext look_context(const ArrayDifference& difference, const ArrayContext& context) {
  const bool steps_first = difference.shape.rank() > 0 && context.steps.size() > 1 &&
                           difference.shape[0] == static_cast<int64_t>(context.steps.size());
  return {difference.tolerance, steps_first, context.steps, context.earlier};
}

ArrayDifference unreadable(const std::string& name, const std::string& why) {
  ArrayDifference difference;
  difference.name = name;
  difference.verdict = Verdict::kUnreadable;
  difference.detail = why;
  return difference;
}

/// Returns the difference for an array that only one side has.
ArrayDifference lone(const std::string& name, Verdict verdict, const fs::path& path) {
  ArrayDifference difference;
  difference.name = name;
  difference.verdict = verdict;
  try {
    const io::NpyHeader header = read_header(path);
    difference.dtype = header.dtype;
    difference.shape = header.shape;
  } catch (const RunError& error) {
    return unreadable(name, error.what());
  }
  return difference;
}

/// Returns golden's arrays of earlier steps, the newest first, for an array with one file per step.
std::vector<EarlierStep> earlier_steps(const Side& golden, const std::string& name) {
  const auto place = step_in_name(name);
  if (!place) return {};
  std::vector<EarlierStep> earlier;
  for (auto at = golden.arrays.lower_bound(place->stem);
       at != golden.arrays.end() && at->first.starts_with(place->stem); ++at)
    if (const auto other = step_in_name(at->first);
        other && other->stem == place->stem && other->step < place->step)
      earlier.push_back({other->step, at->second});
  std::ranges::sort(earlier, std::greater(), &EarlierStep::step);
  return earlier;
}

ArrayDifference compare_files(const std::string& name, const fs::path& golden_path,
                              const fs::path& out_path, const Side& golden,
                              const ToleranceRules& rules) {
  try {
    const OpenArray a(golden_path), b(out_path);
    const Shape& shape = a.view().shape;
    const ArrayContext context{steps_of(golden, name, shape.rank() > 0 ? shape[0] : 0),
                               earlier_steps(golden, name)};
    ArrayDifference difference;
    a.recovering([&] {
      b.recovering([&] { difference = compare_arrays(name, a.view(), b.view(), rules, context); });
    });
    return difference;
  } catch (const RequestError&) {  // the fault is in a rule, not in a file
    throw;
  } catch (const RunError& error) {
    return unreadable(name, error.what());
  } catch (const std::bad_alloc&) {
    return unreadable(name, "not enough memory for both arrays");
  }
}

}  // namespace

ArrayDifference judge_arrays(const std::string& name, const ArrayView& golden, const ArrayView& out,
                             const ToleranceRules& rules, const ArrayContext& context) {
  ToleranceRule rule = rule_of(name, golden.dtype, rules);
  if (leaves_out(rule, name, context)) rule = {{}, default_tolerance(golden.dtype)};
  ArrayDifference difference;
  difference.name = name;
  difference.dtype = golden.dtype;
  difference.shape = golden.shape;
  difference.tolerance = rule.tolerance;
  if (golden.dtype != out.dtype) {
    difference.verdict = Verdict::kDType;
    difference.detail =
        fmt::format("golden is {}, out is {}", name_of(golden.dtype), name_of(out.dtype));
    return difference;
  }
  if (golden.shape != out.shape) {
    difference.verdict = Verdict::kShape;
    difference.detail = fmt::format("golden is {}, out is {}", golden.shape.str(), out.shape.str());
    return difference;
  }
  Findings found;
  std::vector<Applied> tolerances;
  int64_t judged = 0;
  for (const Stretch& stretch : stretches_of(name, golden.shape, rule, context.steps)) {
    judged += static_cast<int64_t>(stretch.end - stretch.begin);
    double& widest = applied_of(stretch, tolerances).widest;
    io::visit_elements(golden, [&](auto values) {
      using T = std::remove_const_t<typename decltype(values)::element_type>;
      const std::span<const T> others(reinterpret_cast<const T*>(out.data), values.size());
      find<T>(values, others, stretch, widest, found);
    });
  }
  check_spread(name, rule, tolerances);
  difference.elements = golden.shape.elements();
  difference.not_judged = difference.elements - judged;
  describe(golden, out, found, difference);
  judge(golden, found, tolerances, !rule.glob.empty(), difference);
  return difference;
}

ArrayDifference compare_arrays(const std::string& name, const ArrayView& golden,
                               const ArrayView& out, const ToleranceRules& rules,
                               const ArrayContext& context) {
  ArrayDifference difference = judge_arrays(name, golden, out, rules, context);
  const bool reordered = difference.verdict == Verdict::kShape &&
                         std::ranges::is_permutation(golden.shape.extents(), out.shape.extents());
  if (difference.verdict == Verdict::kDiffers) difference.profile = profile_errors(golden, out);
  if (difference.verdict == Verdict::kDiffers || reordered)
    difference.look = best_look(golden, out, look_context(difference, context));
  return difference;
}

int64_t Comparison::count(Verdict verdict) const {
  return std::ranges::count(arrays, verdict, &ArrayDifference::verdict);
}

int64_t Comparison::failed() const {
  return std::ranges::count_if(arrays, &ArrayDifference::failed);
}

int64_t Comparison::pairs() const {
  return static_cast<int64_t>(arrays.size()) - count(Verdict::kMissing) - count(Verdict::kExtra);
}

bool is_ignored(const std::vector<std::string>& ignore, const std::string& name) {
  return std::ranges::any_of(ignore,
                             [&](const std::string& glob) { return glob_match(glob, name); });
}

Comparison compare_pairs(const Side& golden, const Side& out,
                         const std::vector<std::string>& ignore, const ComparePair& compare) {
  Comparison comparison;
  comparison.golden_checkpoint = golden.checkpoint.filename().string();
  comparison.out_checkpoint = out.checkpoint.filename().string();
  std::map<std::string, fs::path> all = golden.arrays;
  if (golden.kind != Kind::kFile) all.insert(out.arrays.begin(), out.arrays.end());
  for (const auto& [name, path] : all) {
    if (is_ignored(ignore, name))
      comparison.ignored.push_back(name);
    else if (golden.kind == Kind::kFile)  // the names of two single files may differ
      comparison.arrays.push_back(compare(name, path, out.path));
    else if (!out.has(name))
      comparison.arrays.push_back(lone(name, Verdict::kMissing, path));
    else if (!golden.has(name))
      comparison.arrays.push_back(lone(name, Verdict::kExtra, path));
    else
      comparison.arrays.push_back(compare(name, path, out.arrays.at(name)));
  }
  return comparison;
}

Comparison compare_sides(const Side& golden, const Side& out, const ToleranceRules& rules,
                         const std::vector<std::string>& ignore) {
  return compare_pairs(
      golden, out, ignore,
      [&](const std::string& name, const fs::path& golden_path, const fs::path& out_path) {
        return compare_files(name, golden_path, out_path, golden, rules);
      });
}

Comparison compare_paths(const fs::path& golden, const fs::path& out, const ToleranceRules& rules,
                         const std::vector<std::string>& ignore) {
  const Side a = list_side(golden), b = list_side(out);
  require_same_kind(a, b);
  return compare_sides(a, b, rules, ignore);
}

}  // namespace flow::compare
