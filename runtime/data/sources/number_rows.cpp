// Reads number cells and replaces those that are missing.
#include "runtime/data/sources/number_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "runtime/data/sources/chunked_sum.h"

namespace flow::data {
namespace {

double mean_of(const std::vector<double>& values) {
  ChunkedSum sum;
  for (const double value : values) sum.add(value);
  return sum.total() / static_cast<double>(values.size());
}

double median_of(std::vector<double> values) {
  std::ranges::sort(values);
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

/// Rounds to the nearest whole number, ties to even, within int64.
int64_t whole(double value) {
  constexpr double kLimit = 0x1p63;
  const double rounded = std::nearbyint(value);
  if (rounded >= kLimit) return std::numeric_limits<int64_t>::max();
  return rounded < -kLimit ? std::numeric_limits<int64_t>::min() : static_cast<int64_t>(rounded);
}

}  // namespace

NumberRows::NumberRows(NumberCells cells, const plan::CellRules& rules, CellPlace place,
                       std::function<RunError(int64_t)> bad_row)
    : cells_(std::move(cells)),
      rows_(std::visit([](const auto& values) { return static_cast<int64_t>(values.size()); },
                       cells_.values) /
            cells_.width),
      one_hot_(rules.one_hot),
      type_(rules.type),
      missing_(rules.missing),
      place_(std::move(place)),
      bad_row_(std::move(bad_row)) {}

StoredElement NumberRows::element() const {
  if (one_hot_ > 0) return {DType::kUInt8};
  return {cells_.values.index() == 0 ? DType::kFloat64 : DType::kInt64};
}

/// Returns the integer of which `row` is the one-hot row.
int64_t NumberRows::integer(int64_t row) const {
  return std::get<std::vector<int64_t>>(cells_.values)[static_cast<size_t>(row)];
}

bool NumberRows::has_place(int64_t row) const {
  return integer(row) >= 0 && integer(row) < one_hot_;
}

std::vector<int64_t> NumberRows::bad_rows() const {
  if (one_hot_ == 0) return cells_.bad_rows;
  std::vector<int64_t> bad;
  for (int64_t row = 0; row < rows_; ++row)
    if (std::ranges::binary_search(cells_.bad_rows, row) ||
        (!is_missing(row, 0) && !has_place(row)))
      bad.push_back(row);
  return bad;
}

RunError NumberRows::bad_row(int64_t row) const {
  if (std::ranges::binary_search(cells_.bad_rows, row)) return bad_row_(row);
  return RunError(
      fmt::format("{}: `one_hot: {}` has no place for {}", place_(row), one_hot_, integer(row)),
      "use integers from 0, or write a larger `one_hot`");
}

std::span<const std::byte> NumberRows::in_place(int64_t row, int64_t count) const {
  if (one_hot_ > 0) return {};
  return std::visit(
      [&](const auto& values) {
        return std::as_bytes(std::span(values).subspan(static_cast<size_t>(row * cells_.width),
                                                       static_cast<size_t>(count * cells_.width)));
      },
      cells_.values);
}

std::span<const std::byte> NumberRows::read(int64_t row, const RowDraws&, Scratch& scratch) const {
  if (one_hot_ == 0) return in_place(row, 1);
  scratch.bytes.assign(static_cast<size_t>(one_hot_), std::byte{0});
  if (has_place(row)) scratch.bytes[static_cast<size_t>(integer(row))] = std::byte{1};
  return scratch.bytes;
}

std::vector<int64_t> NumberRows::class_ids(std::span<const int64_t> rows) const {
  if (one_hot_ == 0) return SourceRows::class_ids(rows);
  std::vector<int64_t> ids;
  for (const int64_t row : rows) ids.push_back(integer(row));
  return ids;
}

bool NumberRows::is_missing(int64_t row, int64_t element) const {
  if (one_hot_ > 0) element = 0;
  return !cells_.missing.empty() &&
         cells_.missing[static_cast<size_t>(row * cells_.width + element)] != 0;
}

double NumberRows::value(size_t cell) const {
  return std::visit([&](const auto& values) { return static_cast<double>(values[cell]); },
                    cells_.values);
}

std::vector<double> NumberRows::present(std::span<const int64_t> rows, int64_t position) const {
  std::vector<double> values;
  for (const int64_t row : rows)
    if (!is_missing(row, position))
      values.push_back(value(static_cast<size_t>(row * cells_.width + position)));
  if (values.empty())
    throw RunError("all values of the column are missing, so nothing can replace them",
                   "write the value as `missing: NUMBER`");
  return values;
}

void NumberRows::learn(std::span<const int64_t> rows, LearnedColumn& learned) const {
  learned.fill.emplace();
  for (int64_t position = 0; position < cells_.width; ++position) {
    std::vector<double> values = present(rows, position);
    learned.fill->push_back(missing_.kind == plan::Replacement::Kind::kMean
                                ? mean_of(values)
                                : median_of(std::move(values)));
  }
}

void NumberRows::replace(size_t cell, double value) {
  if (auto* numbers = std::get_if<std::vector<double>>(&cells_.values))
    (*numbers)[cell] = value;
  else
    std::get<std::vector<int64_t>>(cells_.values)[cell] =
        type_ == plan::CellType::kBool ? (value >= 0.5 ? 1 : 0) : whole(value);
}

bool NumberRows::learns_fill() const {
  return missing_.kind == plan::Replacement::Kind::kMean ||
         missing_.kind == plan::Replacement::Kind::kMedian;
}

std::vector<int64_t> NumberRows::apply(const LearnedColumn& learned) {
  if (cells_.missing.empty()) return {};
  const auto width = static_cast<size_t>(cells_.width);
  const bool learns = learns_fill();
  if (learns && learned.fill.value().size() != width)
    throw RequestError("the loaded checkpoint has replacements for another number of values",
                       "load a checkpoint of a job with this column");
  for (size_t cell = 0; cell < cells_.missing.size(); ++cell)
    if (cells_.missing[cell] != 0)
      replace(cell, learns ? (*learned.fill)[cell % width] : missing_.number);
  for (int64_t row = 0; one_hot_ > 0 && row < rows_; ++row)
    if (is_missing(row, 0) && !has_place(row)) throw bad_row(row);
  cells_.missing.clear();
  return {};
}

}  // namespace flow::data
