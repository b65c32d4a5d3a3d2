// Maps categories to ids.
#include "runtime/data/sources/category_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "runtime/base/display.h"
#include "runtime/base/text.h"
#include "runtime/data/files/unpack.h"
#include "runtime/data/text/tokenizer.h"
#include "runtime/data/text/utf8.h"

namespace flow::data {
namespace {

using Kind = plan::Replacement::Kind;

/// The ids of categories by their texts.
std::map<std::string_view, int32_t> ids_of(const std::vector<std::string>& categories) {
  std::map<std::string_view, int32_t> ids;
  for (const std::string& category : categories)
    if (!ids.emplace(category, static_cast<int32_t>(ids.size())).second)
      throw RequestError(fmt::format("category `{}` is listed twice", category));
  return ids;
}

}  // namespace

CategoryRows::CategoryRows(CategoryCells cells, const plan::CellRules& rules,
                           std::optional<std::vector<std::string>> listed, CellPlace place,
                           std::function<RunError(int64_t)> bad_row,
                           std::vector<std::string> always)
    : cells_(std::move(cells)),
      rules_(rules),
      always_(std::move(always)),
      is_listed_(listed.has_value()),
      place_(std::move(place)),
      bad_row_(std::move(bad_row)) {
  if (listed) use(*listed);
}

StoredElement CategoryRows::element() const {
  return {rules_.one_hot > 0 ? DType::kUInt8 : DType::kInt32};
}

int32_t CategoryRows::replacement_id(const plan::Replacement& replacement,
                                     const std::vector<std::string>& categories) const {
  if (replacement.kind == Kind::kError) return kBad;
  if (replacement.kind == Kind::kExtra) return static_cast<int32_t>(categories.size());
  const auto found = std::ranges::find(categories, replacement.category);
  if (found == categories.end())
    throw RequestError(
        fmt::format("the replacement `{}` is not one of the categories", replacement.category),
        "use a category, or `extra` for an id of its own");
  return static_cast<int32_t>(found - categories.begin());
}

/// Sets the ids of all rows.
void CategoryRows::use(const std::vector<std::string>& categories) {
  const auto ids = ids_of(categories);
  const int32_t unknown = replacement_id(rules_.unknown, categories);
  const int32_t missing = replacement_id(rules_.missing, categories);
  std::vector<int32_t> by_text;
  for (const std::string& text : cells_.texts) {
    const auto found = ids.find(text);
    by_text.push_back(found == ids.end() ? unknown : found->second);
  }
  ids_.resize(cells_.ids.size());
  for (size_t row = 0; row < ids_.size(); ++row)
    ids_[row] = is_missing_cell(row) ? missing
                : by_text.empty()    ? kBad
                                     : by_text[static_cast<size_t>(cells_.ids[row])];
  const int32_t largest = ids_.empty() ? 0 : std::ranges::max(ids_);
  if (rules_.one_hot > 0 && largest >= rules_.one_hot)
    throw RunError(fmt::format("there are more categories than `one_hot: {}`: the largest id is {}",
                               rules_.one_hot, largest),
                   fmt::format("write `one_hot: {}`", largest + 1));
}

std::vector<int64_t> CategoryRows::rows_with_bad_ids() const {
  std::vector<int64_t> bad;
  for (size_t row = 0; row < ids_.size(); ++row)
    if (ids_[row] == kBad) bad.push_back(static_cast<int64_t>(row));
  return bad;
}

std::vector<int64_t> CategoryRows::bad_rows() const {
  if (!is_listed_) return cells_.bad_rows;
  std::vector<int64_t> bad;
  std::ranges::set_union(cells_.bad_rows, rows_with_bad_ids(), std::back_inserter(bad));
  return bad;
}

RunError CategoryRows::bad_row(int64_t row) const {
  if (std::ranges::binary_search(cells_.bad_rows, row)) return bad_row_(row);
  const auto at = static_cast<size_t>(row);
  if (is_missing_cell(at))
    return RunError(
        place_(row) + ": missing category",
        "add `missing: extra`, or leave the row out with `options: {on_bad_row: skip}`");
  const std::string& text = cells_.texts[static_cast<size_t>(cells_.ids[at])];
  return RunError(fmt::format("{}: unknown category `{}`", place_(row), shortened(text)),
                  "add it to `categories`, or add `unknown: extra`");
}

std::span<const std::byte> CategoryRows::in_place(int64_t row, int64_t count) const {
  if (rules_.one_hot > 0) return {};
  return std::as_bytes(
      std::span(ids_).subspan(static_cast<size_t>(row), static_cast<size_t>(count)));
}

std::span<const std::byte> CategoryRows::read(int64_t row, const RowDraws&,
                                              Scratch& scratch) const {
  if (rules_.one_hot == 0) return in_place(row, 1);
  scratch.bytes.assign(static_cast<size_t>(rules_.one_hot), std::byte{0});
  scratch.bytes[static_cast<size_t>(ids_[static_cast<size_t>(row)])] = std::byte{1};
  return scratch.bytes;
}

void CategoryRows::learn(std::span<const int64_t> rows, LearnedColumn& learned) const {
  std::vector<int64_t> counts(cells_.texts.size());
  for (const int64_t row : rows)
    if (!is_missing_cell(static_cast<size_t>(row)))
      ++counts[static_cast<size_t>(cells_.ids[static_cast<size_t>(row)])];
  std::vector<std::pair<int64_t, std::string>> seen;
  for (size_t i = 0; i < counts.size(); ++i)
    if (counts[i] > 0) seen.emplace_back(-counts[i], cells_.texts[i]);
  std::ranges::sort(seen);  // the most frequent first, and equally frequent ones by their bytes
  const auto most = static_cast<size_t>(rules_.max_categories);
  if (most > 0 && seen.size() > most) seen.resize(most);
  std::vector<std::string>& kept = learned.categories.emplace(always_);
  for (auto& [count, text] : seen) kept.push_back(std::move(text));
  std::ranges::sort(kept);
  kept.erase(std::unique(kept.begin(), kept.end()), kept.end());
}

std::vector<int64_t> CategoryRows::class_ids(std::span<const int64_t> rows) const {
  std::vector<int64_t> ids;
  if (is_listed_) {
    for (const int64_t row : rows) ids.push_back(ids_[static_cast<size_t>(row)]);
    return ids;
  }
  std::vector<std::string> order = cells_.texts;
  std::ranges::sort(order);
  for (const int64_t row : rows) {
    const auto at = static_cast<size_t>(row);
    const auto rank_of = [&](int32_t id) -> int64_t {
      const std::string& text = cells_.texts[static_cast<size_t>(id)];
      return std::ranges::lower_bound(order, text) - order.begin();
    };
    ids.push_back(is_missing_cell(at) ? static_cast<int64_t>(order.size())
                                      : rank_of(cells_.ids[at]));
  }
  return ids;
}

std::vector<int64_t> CategoryRows::apply(const LearnedColumn& learned) {
  if (is_listed_) return {};
  use(learned.categories.value());
  return rows_with_bad_ids();
}

namespace {

/// Reads the lines of a file of categories.
std::vector<std::string> read_categories(const fs::path& path) {
  constexpr uint64_t kLargest = uint64_t{1} << 30;
  std::string text = read_all(*open_stream(path), kLargest, path.string());
  if (const auto problem = utf8_problem(text))
    throw RunError(fmt::format("{}: byte {}: {}", path.string(), problem->offset, problem->message),
                   problem->hint);
  std::vector<std::string> categories;
  for (std::string_view rest = without_byte_order_mark(text); !rest.empty();) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    categories.emplace_back(line);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  if (categories.empty()) throw RunError(path.string() + " has no categories");
  return categories;
}

}  // namespace

std::optional<std::vector<std::string>> listed_categories(const plan::Column& column,
                                                          const fs::path& root) {
  const plan::Categories& categories = *column.cell->categories;
  if (categories.kind == plan::Categories::Kind::kListed) return categories.names;
  if (categories.kind == plan::Categories::Kind::kFile)
    return read_categories(root / categories.file);
  return std::nullopt;
}

}  // namespace flow::data
