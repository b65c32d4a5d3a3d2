// Comparing files, folders of .npy and run directories by the names of their arrays.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <new>

#include "runtime/base/error.h"
#include "runtime/base/text.h"
#include "runtime/compare/compare.h"

namespace flow::compare {

namespace {

ArrayDifference unreadable(const std::string& name, const std::string& why) {
  ArrayDifference difference;
  difference.name = name;
  difference.verdict = Verdict::kUnreadable;
  difference.detail = why;
  return difference;
}

/// An array that only one side has.
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

/// Golden's arrays of earlier steps of a file of one step, the newest first.
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
  } catch (const RequestError&) {  // of a rule, not of a file
    throw;
  } catch (const RunError& error) {
    return unreadable(name, error.what());
  } catch (const std::bad_alloc&) {
    return unreadable(name, "not enough memory for both arrays");
  }
}

}  // namespace

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

Comparison compare_sides(const Side& golden, const Side& out, const ToleranceRules& rules,
                         const std::vector<std::string>& ignore) {
  Comparison comparison;
  comparison.golden_checkpoint = golden.checkpoint.filename().string();
  comparison.out_checkpoint = out.checkpoint.filename().string();
  const auto leave_out = [&](const std::string& name) {
    if (!is_ignored(ignore, name)) return false;
    comparison.ignored.push_back(name);
    return true;
  };
  if (golden.kind == Kind::kFile) {
    const auto& [name, path] = *golden.arrays.begin();
    if (!leave_out(name))
      comparison.arrays.push_back(compare_files(name, path, out.path, golden, rules));
    return comparison;
  }
  std::map<std::string, fs::path> all = golden.arrays;
  all.insert(out.arrays.begin(), out.arrays.end());
  for (const auto& [name, path] : all) {
    if (leave_out(name)) continue;
    if (!out.has(name)) {
      comparison.arrays.push_back(lone(name, Verdict::kMissing, path));
    } else if (!golden.has(name)) {
      comparison.arrays.push_back(lone(name, Verdict::kExtra, path));
    } else {
      comparison.arrays.push_back(compare_files(name, path, out.arrays.at(name), golden, rules));
    }
  }
  return comparison;
}

Comparison compare_paths(const fs::path& golden, const fs::path& out, const ToleranceRules& rules,
                         const std::vector<std::string>& ignore) {
  const Side a = list_side(golden), b = list_side(out);
  require_same_kind(a, b);
  return compare_sides(a, b, rules, ignore);
}

}  // namespace flow::compare
