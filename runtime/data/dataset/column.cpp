// Reads rows of a column: finds them in the source, decodes and converts them.
#include "runtime/data/dataset/column.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "runtime/base/text.h"
#include "runtime/data/dataset/open_columns.h"
#include "runtime/data/sources/open_source.h"

namespace flow::data {
namespace {

size_t elements_of(const Shape& shape) { return static_cast<size_t>(shape.elements()); }

}  // namespace

Column::Column(const plan::Column& column, const std::string& dataset,
               std::shared_ptr<SourceRows> source, RowRanges ranges, RowSet rows,
               std::vector<double> mean, std::vector<double> std, ReadOptions options)
    : where_(column.where),
      dataset_(options.draws + dataset),
      row_shape_(column.row_shape),
      source_(std::move(source)),
      ranges_(std::move(ranges)),
      rows_(std::move(rows)),
      window_(column.window),
      options_(std::move(options)),
      affine_{column.scale, std::move(mean), std::move(std)},
      // The leading axis of a window counts its rows, and each of these rows has the channels.
      converted_(elements_of(row_shape_) /
                 (window_ && affine_.channels() > 1 ? static_cast<size_t>(window_->length) : 1)),
      converter_(source_->element().dtype, source_->element().big_endian, affine_, converted_,
                 source_->element().narrow),
      rounder_(DType::kFloat64, false, {}, elements_of(row_shape_)),
      workers_(static_cast<size_t>(options_.pool ? options_.pool->size() : 1)) {
  const int64_t found = source_->row_elements(), expected = column.source_row_shape().elements();
  if (found != 0 && found != expected)
    throw RunError(fmt::format("{}: rows of column `{}` have {}; expected {}", where_, column.name,
                               counted(static_cast<uint64_t>(found), "value"), expected),
                   "set the shape of the input to that of a row");
}

int64_t windows_in(const plan::Window& window, int64_t rows) {
  const int64_t room = rows - window.shift - window.length;
  return room < 0 ? 0 : room / window.stride + 1;
}

std::unique_ptr<Column> Column::open(const plan::Column& column, const fs::path& root) {
  std::shared_ptr<SourceRows> source = open_source(column, root);
  check_ranges(column, source->rows());
  check_channels(column);
  RowRanges ranges(column.rows, source->rows());
  const RowSet all(0, ranges.size());
  return std::make_unique<Column>(column, "", std::move(source), std::move(ranges), all,
                                  column.mean.values, column.std.values, ReadOptions{});
}

int64_t Column::rows() const { return window_ ? windows_in(*window_, rows_.size()) : rows_.size(); }

int64_t Column::source_row(int64_t row, int64_t offset) const {
  if (window_) row = row * window_->stride + window_->shift + offset;
  return ranges_[rows_[row]];
}

std::string Column::row_text(int64_t row) const { return source_->row_text(source_row(row, 0)); }

RowDraws Column::draws_of(const BatchRows& batch, size_t i) const {
  return {options_.seed,
          dataset_,
          batch.rows[i],
          batch.epoch,
          batch.attempts.empty() ? 0 : batch.attempts[i],
          options_.training};
}

void Column::read(const BatchRows& batch, DType dtype, std::span<std::byte> out) {
  const size_t bytes = bytes_of(row_shape_, dtype);
  FLOW_CHECK(out.size() == batch.rows.size() * bytes, "{} bytes for {} rows", out.size(),
             batch.rows.size());
  converter_.table(dtype);  // made here, so that threads only read it
  const auto read_one = [&](int64_t i, int thread) {
    const auto at = static_cast<size_t>(i);
    FLOW_CHECK(batch.rows[at] >= 0 && batch.rows[at] < rows(), "row {} of {}", batch.rows[at],
               rows());
    read_row(batch, at, dtype, out.data() + at * bytes, workers_[static_cast<size_t>(thread)]);
  };
  const auto n = static_cast<int64_t>(batch.rows.size());
  const std::function<void(int64_t, int)> work = std::ref(read_one);
  const auto read_all = [&] {
    if (options_.pool && source_->is_decoded()) return options_.pool->for_each(n, work);
    for (int64_t i = 0; i < n; ++i) read_one(i, 0);
  };
  source_->recovering(std::ref(read_all));
}

void Column::read_row(const BatchRows& batch, size_t i, DType dtype, std::byte* out,
                      Worker& worker) {
  const RowDraws draws = draws_of(batch, i);
  const int64_t row = batch.rows[i];
  const std::span<const std::byte> read = checked_elements(row, draws, worker);
  if (!source_->has_final_pass()) return convert(read, row, dtype, out);
  worker.scratch.numbers.resize(elements_of(row_shape_));
  convert(read, row, DType::kFloat64, reinterpret_cast<std::byte*>(worker.scratch.numbers.data()));
  finish(draws, dtype, out, worker);
}

/// Returns the elements of a row. Throws BadRowError if the shape of an image is not row_shape_.
std::span<const std::byte> Column::checked_elements(int64_t row, const RowDraws& draws,
                                                    Worker& worker) const try {
  const std::span<const std::byte> read = elements(row, draws, worker);
  if (source_->row_elements() == 0) {
    const Image& image = worker.scratch.image;
    const Shape shape{image.channels, image.height, image.width};
    if (shape != row_shape_)
      throw BadRowError(fmt::format("{}: the image has shape {}; expected {}", row_text(row),
                                    shape.str(), row_shape_.str()),
                        "add `size: [HEIGHT, WIDTH]` to the column");
  }
  FLOW_CHECK(read.size() == elements_of(row_shape_) * source_->element().bytes());
  return read;
} catch (const BadRowError& error) {
  throw error.at(where_);
}

/// Returns the elements of a row or a window before conversion.
std::span<const std::byte> Column::elements(int64_t row, const RowDraws& draws,
                                            Worker& worker) const {
  if (!window_) return source_->read(source_row(row, 0), draws, worker.scratch);
  const int64_t first = row * window_->stride + window_->shift;
  const int64_t begin = rows_[first];
  if (rows_.run(first, window_->length) == window_->length && ranges_.run(begin) >= window_->length)
    if (const auto all = source_->in_place(ranges_[begin], window_->length); !all.empty())
      return all;
  worker.gathered.clear();
  for (int64_t i = 0; i < window_->length; ++i) {
    const auto one = source_->read(source_row(row, i), draws, worker.scratch);
    worker.gathered.insert(worker.gathered.end(), one.begin(), one.end());
  }
  return worker.gathered;
}

void Column::convert(std::span<const std::byte> elements, int64_t row, DType dtype,
                     std::byte* out) {
  const size_t from = converted_ * source_->element().bytes(), to = converted_ * size_of(dtype);
  for (size_t i = 0; i * from < elements.size(); ++i) {
    auto misfit = converter_.convert(elements.data() + i * from, dtype, out + i * to);
    if (!misfit) continue;
    misfit->element += i * converted_;
    refuse(*misfit, row, dtype);
  }
}

/// Augments normalized values and rounds them.
void Column::finish(const RowDraws& draws, DType dtype, std::byte* out, Worker& worker) {
  std::vector<double>& numbers = worker.scratch.numbers;
  source_->finish(draws, row_shape_, numbers);
  const auto misfit =
      rounder_.convert(reinterpret_cast<const std::byte*>(numbers.data()), dtype, out);
  if (misfit) refuse(*misfit, draws.row, dtype);
}

void Column::refuse(const io::Misfit& misfit, int64_t row, DType dtype) const {
  throw RunError(fmt::format("{}: {} contains {} (element {}), which is not a valid {}", where_,
                             row_text(row), shortest(misfit.value), misfit.element, name_of(dtype)),
                 is_float(dtype) ? "scale it to the range of that dtype"
                                 : "read it as float32, or scale it to whole numbers in range");
}

std::optional<ByteRows> Column::byte_rows(DType dtype) {
  if (window_ || !rows_.is_range() || source_->element().bytes() != 1) return std::nullopt;
  const std::span<const std::byte> table = converter_.table(dtype);
  if (table.empty()) return std::nullopt;
  ByteRows rows{{}, converter_.channels(), table};
  for (int64_t i = 0; i < rows_.size();) {
    const int64_t count = std::min(ranges_.run(rows_[i]), rows_.size() - i);
    rows.parts.push_back(source_->in_place(ranges_[rows_[i]], count));
    if (rows.parts.back().empty() && row_shape_.elements() > 0) return std::nullopt;
    i += count;
  }
  return rows;
}

Nonfinite Column::nonfinite() const {
  Nonfinite found;
  const StoredElement type = source_->element();
  if (!is_float(type.dtype) || source_->is_decoded()) return found;
  const auto count = [&](int64_t row) {
    const auto elements = source_->in_place(ranges_[rows_[row]], 1);
    return io::count_nonfinite(type.dtype, type.big_endian, elements);
  };
  source_->recovering([&] {
    for (int64_t row = 0; row < rows_.size(); ++row) {
      const int64_t here = count(row);
      if (here > 0 && found.count == 0) found.row = ranges_[rows_[row]];
      found.count += here;
    }
  });
  return found;
}

std::string Column::nonfinite_text(const Nonfinite& found) const {
  return fmt::format("{} {} NaN or infinite, first in {}",
                     counted(static_cast<uint64_t>(found.count), "value"),
                     found.count == 1 ? "is" : "are", source_->row_text(found.row));
}

bool Column::is_long() const {
  constexpr double kLong = 256 << 20;
  const double row = static_cast<double>(elements_of(row_shape_) * source_->element().bytes());
  return source_->is_decoded() || row * static_cast<double>(rows()) > kLong;
}

}  // namespace flow::data
