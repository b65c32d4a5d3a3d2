// Datasets, whose columns are rows in files.
#include "runtime/io/dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "runtime/base/text.h"
#include "runtime/io/convert.h"
#include "runtime/io/gunzip.h"

namespace flow::io {

namespace {

/// The end of a range of rows that includes the last row of the file.
constexpr int64_t kToTheLast = std::numeric_limits<int64_t>::max();

/// Returns the products of the leading extents without duplicates: {1, 3, 84, 2352} for [3, 28,
/// 28].
std::vector<int64_t> leading_products(const Shape& shape) {
  std::vector<int64_t> products = {1};
  for (const int64_t extent : shape)
    if (extent != 1) products.push_back(products.back() * extent);
  return products;
}

/// Returns true if merging or splitting neighboring axes turns one row shape into the other. In
/// this case the elements have the same order and meaning; [28, 28, 3] and [3, 28, 28] do not.
bool same_order(const Shape& a, const Shape& b) {
  if (a.elements() != b.elements()) return false;
  const auto of_a = leading_products(a), of_b = leading_products(b);
  return a.elements() == 0 || std::ranges::includes(of_a, of_b) ||
         std::ranges::includes(of_b, of_a);
}

class FileColumn : public ColumnReader {
 public:
  FileColumn(const plan::Column& column, const fs::path& path, Rows file)
      : where_(column.where),
        path_(path),
        row_shape_(column.row_shape),
        file_(std::move(file)),
        row_bytes_(static_cast<size_t>(row_shape_.elements()) *
                   stored_size(file_.dtype, file_.narrow)),
        converter_(file_.dtype, file_.big_endian, {column.scale, column.mean, column.std},
                   static_cast<size_t>(row_shape_.elements()), file_.narrow) {
    if (column.rows.empty()) add_part(0, file_.shape[0]);
    for (const auto& [first, end] : column.rows)
      add_part(first, end == kToTheLast ? file_.shape[0] : end);
  }

  int64_t rows() const override { return rows_; }
  const Shape& row_shape() const override { return row_shape_; }
  std::string row_text(int64_t row) const override {
    return fmt::format("row {} of {}", row_in_file(row), path_.string());
  }

  void read(std::span<const int64_t> rows, DType dtype, std::span<std::byte> out) override {
    if (!file_.file) return convert(rows, dtype, out);
    file_.file->recovering([&] { convert(rows, dtype, out); });
  }

  std::optional<ByteRows> byte_rows(DType dtype) override {
    const std::span<const std::byte> table = converter_.table(dtype);
    if (table.empty()) return std::nullopt;
    ByteRows rows{{}, converter_.channels(), table};
    for (size_t i = 0; i < parts_.size(); ++i) {
      const int64_t end = i + 1 < parts_.size() ? parts_[i + 1].begin : rows_;
      rows.parts.push_back(
          file_.data.subspan(static_cast<size_t>(parts_[i].first) * row_bytes_,
                             static_cast<size_t>(end - parts_[i].begin) * row_bytes_));
    }
    return rows;
  }

  Nonfinite nonfinite() override {
    if (!is_float(file_.dtype)) return {};
    if (!file_.file) return count_nonfinite();
    Nonfinite found;
    file_.file->recovering([&] { found = count_nonfinite(); });
    return found;
  }

 private:
  /// A range of rows: row `first` of the file is row `begin` of the column.
  struct Part {
    int64_t first, begin;
  };

  void add_part(int64_t first, int64_t end) {
    parts_.push_back({first, rows_});
    rows_ += end - first;
  }

  Nonfinite count_nonfinite() const {
    Nonfinite found;
    for (size_t i = 0; i < parts_.size(); ++i) {
      const int64_t end = i + 1 < parts_.size() ? parts_[i + 1].begin : rows_;
      const int64_t first = parts_[i].first, last = first + end - parts_[i].begin;
      const int64_t count = count_in_rows(first, last);
      if (count > 0 && found.count == 0)
        for (found.row = first; count_in_rows(found.row, found.row + 1) == 0;) ++found.row;
      found.count += count;
    }
    return found;
  }

  int64_t count_in_rows(int64_t first, int64_t end) const {
    return io::count_nonfinite(file_.dtype, file_.big_endian,
                               file_.data.subspan(static_cast<size_t>(first) * row_bytes_,
                                                  static_cast<size_t>(end - first) * row_bytes_));
  }

  size_t row_in_file(int64_t row) const {
    const Part& part = *std::prev(std::ranges::upper_bound(parts_, row, {}, &Part::begin));
    return static_cast<size_t>(part.first + (row - part.begin));
  }

  void convert(std::span<const int64_t> rows, DType dtype, std::span<std::byte> out) {
    const size_t bytes = bytes_of(row_shape_, dtype);
    FLOW_CHECK(out.size() == rows.size() * bytes, "{} bytes for {} rows", out.size(), rows.size());
    for (size_t i = 0; i < rows.size(); ++i) {
      FLOW_CHECK(rows[i] >= 0 && rows[i] < rows_, "row {} of {}", rows[i], rows_);
      const size_t row = row_in_file(rows[i]);
      const auto misfit =
          converter_.convert(file_.data.data() + row * row_bytes_, dtype, out.data() + i * bytes);
      if (misfit)
        throw RunError(fmt::format("{}: {} contains {} (element {}), which is not a valid {}",
                                   where_, row_text(rows[i]), shortest(misfit->value),
                                   misfit->element, name_of(dtype)),
                       is_float(dtype)
                           ? "scale it to the range of that dtype"
                           : "read it as float32, or scale it to whole numbers in range");
    }
  }

  std::string where_;
  fs::path path_;
  Shape row_shape_;
  Rows file_;
  size_t row_bytes_;
  std::vector<Part> parts_;
  int64_t rows_ = 0;
  RowConverter converter_;
};

void check_shape(const plan::Column& column, const fs::path& path, const Shape& shape) {
  const Shape found = shape.from(1);
  if (!same_order(found, column.row_shape))
    throw RunError(
        fmt::format("{} has rows of {}; expected {}", path.string(), found.str(),
                    column.row_shape.str()),
        found.rank() == 3 && column.row_shape == Shape{found[2], found[0], found[1]}
            ? "the images are channels-last; give the input that shape and apply `{op: transpose, "
              "perm: [0, 3, 1, 2]}`"
            : "set the shape of the column and of the input to that of a row in the file");
  for (const auto& [first, end] : column.rows)
    if (end == kToTheLast ? first >= shape[0] : end > shape[0])
      throw RunError(fmt::format("{} has {} rows; the column selects rows {}..{}", path.string(),
                                 shape[0], first, end == kToTheLast ? "" : std::to_string(end)));
  for (const std::vector<double>& values : {column.mean, column.std}) {
    const size_t leading =
        column.row_shape.rank() > 0 ? static_cast<size_t>(column.row_shape[0]) : 1;
    if (values.size() > 1 && values.size() != leading)
      throw RunError(fmt::format("column `{}` has {} values of mean or std for {} channels",
                                 column.name, values.size(), leading));
  }
}

Rows open_rows(const plan::Column& column, const fs::path& path) {
  const CheckShape check = [&](const Shape& shape) { check_shape(column, path, shape); };
  if (column.format == "idx") return read_idx_rows(path, check);
  if (column.format == "npz") return read_npz_rows(path, column.array.value_or(""), check);
  FLOW_CHECK(column.format == "npy", "format {}", column.format);
  return read_npy_rows(path, check);
}

/// Returns the hint for the decompressed content of a gzip file.
std::string hint_for_packed(const MappedFile& file, const fs::path& path) {
  std::array<std::byte, 64> start{};
  const size_t length = Gunzip(file.bytes(), path.string()).read(start);
  return hint_for_text(std::span(start).first(length));
}

/// Returns a hint for a file that could not be read in the column's format, based on the format
/// that its first bytes indicate.
std::string hint_for_bytes(const plan::Column& column, const fs::path& path) try {
  const MappedFile file(path);
  if (std::string hint = hint_for_text(file.bytes()); !hint.empty()) return hint;
  const std::string_view text(reinterpret_cast<const char*>(file.bytes().data()),
                              std::min<size_t>(file.bytes().size(), 6));
  const auto is = [&](const char* format, std::string_view magic) {
    return column.format != format && text.starts_with(magic);
  };
  if (is("npy", "\x93NUMPY"))
    return fmt::format("the file is a .npy; write `{{npy: {}}}`", column.path);
  if (is("npz", "PK"))
    return fmt::format("the file is an .npz or another zip; write `{{npz: {}, array: NAME}}`",
                       column.path);
  if (column.format == "idx" && text.starts_with("\x1f\x8b")) return hint_for_packed(file, path);
  if (is("idx", "\x1f\x8b")) return "decompress the file; only idx files can be gzipped";
  if (!text.empty() && std::ranges::all_of(text, [](unsigned char c) { return std::isprint(c); }))
    return "convert the text file with numpy.loadtxt and numpy.save";
  return {};
} catch (const RunError&) {
  return {};  // The file cannot be read at all, which the caller already reports.
}

std::string hint_for(const plan::Column& column, const fs::path& path, const fs::path& root,
                     const RunError& error) {
  std::error_code unknown;
  if (!fs::exists(path, unknown) && !unknown)
    return fmt::format("check the path: `{}` is relative to {}", column.path,
                       root.empty() ? "." : root.string());
  return error.hint().empty() && fs::is_regular_file(path, unknown) ? hint_for_bytes(column, path)
                                                                    : error.hint();
}

}  // namespace

std::unique_ptr<ColumnReader> ColumnReader::open(const plan::Column& column, const fs::path& root) {
  const fs::path path = (root / column.path).lexically_normal();
  try {
    return std::make_unique<FileColumn>(column, path, open_rows(column, path));
  } catch (const RunError& error) {
    throw RunError(fmt::format("{}: {}", column.where, error.what()),
                   hint_for(column, path, root, error), error.exit_status());
  }
}

Dataset::Dataset(const plan::Dataset& dataset, const fs::path& root) : name_(dataset.name) {
  FLOW_CHECK(!dataset.columns.empty(), "dataset {}", name_);
  std::vector<std::string> lengths;
  bool equal = true;
  for (const plan::Column& column : dataset.columns) {
    columns_.emplace_back(column.name, ColumnReader::open(column, root));
    const int64_t rows = columns_.back().second->rows();
    lengths.push_back(fmt::format("`{}` has {} rows", column.name, rows));
    if (columns_.size() == 1) rows_ = rows;
    equal &= rows == rows_;
  }
  if (!equal)
    throw RunError(fmt::format("{}: the columns of dataset `{}` have different lengths: {}",
                               dataset.where, name_, join(lengths, ", ")),
                   "select part of a column with `rows: a..b`");
}

ColumnReader& Dataset::column(std::string_view name) {
  for (auto& [column_name, reader] : columns_)
    if (column_name == name) return *reader;
  FLOW_CHECK(false, "dataset {} has no column {}", name_, name);
}

}  // namespace flow::io
