// Finds the fields that requests name.
#include "runtime/data/csv/fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "runtime/base/names.h"
#include "runtime/base/text.h"

namespace flow::data {

namespace {

/// Adds fields to the requests, in the order of their cells.
class FieldList {
 public:
  explicit FieldList(size_t requests) { fields_.widths.resize(requests); }

  void add(size_t field, size_t request) {
    if (fields_.targets.size() <= field) fields_.targets.resize(field + 1);
    const auto position = static_cast<size_t>(fields_.widths[request]++);
    fields_.targets[field].push_back({request, position});
  }
  CsvFields take() { return std::move(fields_); }

 private:
  CsvFields fields_;
};

class Header {
 public:
  Header(std::span<const std::string> names, const std::string& place)
      : names_(names), place_(place) {
    for (size_t i = 0; i < names.size(); ++i) indices_.emplace(names[i], i);
  }

  /// Returns the index of a name, or nothing if there is no such name. Throws if it occurs twice.
  std::optional<size_t> find(std::string_view name) const {
    const size_t count = indices_.count(name);
    if (count > 1)
      throw RunError(
          fmt::format("{}: column \"{}\" occurs {} times", place_, shortened(name), count),
          "rename the columns in the file");
    return count == 0 ? std::nullopt : std::optional(indices_.find(name)->second);
  }

  std::vector<size_t> matches(const std::string& glob) const {
    std::vector<size_t> found;
    for (const std::string& name : names_)
      if (glob_match(glob, name)) found.push_back(*find(name));
    if (found.empty())
      throw RunError(fmt::format("{}: {}", place_, no_match("column", glob)), hint_for(glob));
    return found;
  }

  [[noreturn]] void fail_missing(const std::string& name) const {
    throw RunError(fmt::format("{}: no column is named \"{}\"", place_, shortened(name)),
                   hint_for(name));
  }

 private:
  std::string hint_for(const std::string& name) const {
    constexpr ptrdiff_t kMostNames = 10;
    std::vector<std::string> shown = suggest(name, names_);
    const char* const before = shown.empty() ? "the file has columns such as" : "did you mean";
    const char* const after = shown.empty() ? "" : "?";
    if (shown.empty())
      shown.assign(names_.begin(), names_.begin() + std::min(kMostNames, std::ssize(names_)));
    for (std::string& one : shown) one = shortened(one);
    return fmt::format("{} {}{}", before, quoted_alternatives(shown), after);
  }

  std::span<const std::string> names_;
  const std::string& place_;
  std::multimap<std::string_view, size_t> indices_;
};

struct IndexRange {
  size_t first = 0, end = 0;
};

[[noreturn]] void fail_index(const std::string& text) {
  throw RequestError(
      fmt::format("\"{}\" is not the index of a column, but `header` is false", shortened(text)),
      fmt::format("use an index from 0 to {}, or a range such as `4..8` in `columns`",
                  kMostCsvFields - 1));
}

IndexRange index_range(const std::string& text, bool list) {
  const auto index = [&](std::string_view digits, size_t most) {
    const auto value = is_digits(digits) ? whole_number(digits) : std::nullopt;
    if (!value || static_cast<size_t>(*value) > most) fail_index(text);
    return static_cast<size_t>(*value);
  };
  const size_t dots = list ? text.find("..") : text.npos;
  if (dots == text.npos) {
    const size_t only = index(text, kMostCsvFields - 1);
    return {only, only + 1};
  }
  const IndexRange range = {index(std::string_view(text).substr(0, dots), kMostCsvFields),
                            index(std::string_view(text).substr(dots + 2), kMostCsvFields)};
  if (range.first >= range.end) fail_index(text);
  return range;
}

}  // namespace

CsvFields fields_by_name(std::span<const std::string> header, std::span<const CsvRequest> requests,
                         const std::string& place) {
  const Header names(header, place);
  FieldList fields(requests.size());
  for (size_t request = 0; request < requests.size(); ++request) {
    for (const std::string& text : requests[request].columns) {
      if (const auto field = names.find(text))
        fields.add(*field, request);
      else if (!requests[request].list || !is_glob(text))
        names.fail_missing(text);
      else
        for (const size_t match : names.matches(text)) fields.add(match, request);
    }
  }
  return fields.take();
}

CsvFields fields_by_index(std::span<const CsvRequest> requests) {
  FieldList fields(requests.size());
  for (size_t request = 0; request < requests.size(); ++request) {
    for (const std::string& text : requests[request].columns) {
      const auto [first, end] = index_range(text, requests[request].list);
      for (size_t field = first; field < end; ++field) fields.add(field, request);
    }
  }
  return fields.take();
}

}  // namespace flow::data
