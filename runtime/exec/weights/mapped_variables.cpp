// Reads arrays and makes variables of them by a job's rules for names.
#include "runtime/exec/weights/name_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "runtime/base/error.h"
#include "runtime/base/names.h"
#include "runtime/base/text.h"
#include "runtime/io/elements.h"

namespace flow::exec {
namespace {

/// Returns a list such as "`h.0.w` [3, 4], `h.1.w` [3, 4]".
std::string arrays_text(const std::vector<StoredItem>& arrays) {
  std::vector<std::string> texts;
  for (const StoredItem& item : arrays)
    texts.push_back(fmt::format("`{}` {}", item.name, item.shape.str()));
  return join(texts, ", ");
}

std::string problem_of(const MappedVariable& variable) {
  const WantedVariable& wanted = variable.wanted;
  if (variable.arrays.empty())
    return fmt::format("variable `{}` {}: {}", wanted.name, wanted.shape.str(), variable.problem);
  return fmt::format("{}variable `{}` from {}: {}", place_of(variable.rule), wanted.name,
                     arrays_text(variable.arrays), variable.problem);
}

/// Lists all problems with arrays and variables that do not fit.
std::vector<std::string> problems_of(const NameMap& map, const std::vector<std::string>& optional,
                                     MappedVariables::Missing missing) {
  std::vector<std::string> problems;
  for (const MappedVariable& variable : map.variables) {
    const bool needed = std::ranges::none_of(
        optional, [&](const std::string& glob) { return glob_match(glob, variable.wanted.name); });
    const bool allowed = missing == MappedVariables::Missing::kAllowed && variable.arrays.empty();
    if (needed && !allowed && !variable.problem.empty()) problems.push_back(problem_of(variable));
  }
  for (const UnusedArray& array : map.unused)
    if (!array.ignored())
      problems.push_back(fmt::format("{}array {}: {}", place_of(array.rule),
                                     arrays_text({array.item}), array.problem));
  return problems;
}

}  // namespace

MappedVariables::MappedVariables(std::unique_ptr<StoredVariables> stored, const plan::Job& job,
                                 std::vector<WantedVariable> wanted,
                                 const std::vector<std::string>& optional, Missing missing)
    : stored_(std::move(stored)) {
  NameMap map = map_names(stored_->items(), std::move(wanted), job.run.checkpoint.names);
  if (const auto problems = problems_of(map, optional, missing); !problems.empty())
    throw RequestError(
        fmt::format("{} does not match job `{}` by its rules for names: {}{}", path().string(),
                    job.name, counted(problems.size(), "problem"), bounded_list(problems)),
        "list all names and proposed rules with `flowc names FILE WEIGHTS`");
  for (MappedVariable& variable : map.variables)
    if (variable.problem.empty()) variables_.emplace(variable.wanted.name, std::move(variable));
}

std::vector<StoredVariables::Item> MappedVariables::items() const {
  std::vector<Item> items;
  for (const auto& [name, variable] : variables_)
    items.push_back({name, variable.arrays.front().dtype, variable.wanted.shape});
  return items;
}

Array MappedVariables::read(const std::string& name) const {
  const MappedVariable& variable = variables_.at(name);
  std::vector<Array> arrays;
  for (const Item& item : variable.arrays) {
    Array array = stored_->read(item.name);
    if (array.shape() != item.shape || array.dtype() != item.dtype)
      throw RunError(fmt::format("{} changed while it was read", path().string()));
    arrays.push_back(variable.rule ? transposed(std::move(array), variable.rule->perm)
                                   : std::move(array));
  }
  if (arrays.size() == 1 && !variable.range.axis && arrays.front().shape() == variable.wanted.shape)
    return std::move(arrays.front());
  Array made(arrays.front().dtype(), variable.wanted.shape);
  if (variable.range.axis)
    copy_range(arrays.front(), variable.range, made.bytes());
  else
    join_arrays(arrays, variable.rule->concat.value_or(0), made.bytes());
  return made;
}

void copy_range(const Array& array, const AxisRange& range, std::span<std::byte> out) {
  const auto axis = static_cast<int>(*range.axis);
  const Shape& shape = array.shape();
  const size_t slice =
      static_cast<size_t>(shape.elements(axis + 1, shape.rank())) * size_of(array.dtype());
  const size_t row = static_cast<size_t>(shape[axis]) * slice;
  const size_t part = static_cast<size_t>(range.size) * slice;
  const std::byte* from = array.bytes().data() + static_cast<size_t>(range.begin) * slice;
  for (size_t at = 0; at < out.size(); at += part, from += row)
    std::memcpy(out.data() + at, from, part);
}

void join_arrays(const std::vector<Array>& arrays, int64_t axis, std::span<std::byte> out) {
  const auto row_of = [&](const Array& array) {
    const Shape& shape = array.shape();
    return static_cast<size_t>(shape.elements(static_cast<int>(axis), shape.rank())) *
           size_of(array.dtype());
  };
  size_t row = 0, begin = 0;
  for (const Array& array : arrays) row += row_of(array);
  for (const Array& array : arrays) {
    const size_t part = row_of(array);
    const std::byte* from = array.bytes().data();
    for (size_t at = begin; at < out.size(); at += row, from += part)
      std::memcpy(out.data() + at, from, part);
    begin += part;
  }
}

Array transposed(Array array, const std::vector<int64_t>& perm) {
  if (perm.empty()) return array;
  Array made(array.dtype(), io::permuted(array.shape(), perm));
  io::copy_permuted(array.bytes().data(), array.shape(), perm, size_of(array.dtype()),
                    made.bytes().data());
  return made;
}

}  // namespace flow::exec
