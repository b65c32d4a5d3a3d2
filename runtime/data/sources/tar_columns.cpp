// Reads the fields of samples.
#include "runtime/data/sources/tar_columns.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "runtime/base/text.h"
#include "runtime/data/files/tar.h"
#include "runtime/data/files/tar_field.h"
#include "runtime/data/sources/array_rows.h"
#include "runtime/data/sources/category_rows.h"
#include "runtime/data/sources/column_files.h"
#include "runtime/data/sources/image_rows.h"
#include "runtime/data/sources/number_rows.h"
#include "runtime/data/sources/text_rows.h"
#include "runtime/data/text/tokenizer.h"

namespace flow::data {
namespace {

/// The shards of a dataset and their samples as one stream of rows.
class Shards {
 public:
  explicit Shards(const std::vector<fs::path>& files) {
    for (const fs::path& file : files) {
      starts_.push_back(rows_);
      names_.push_back(file.string());
      shards_.emplace_back(file);
      rows_ += static_cast<int64_t>(shards_.back().index().size());
    }
  }

  int64_t rows() const { return rows_; }
  const std::vector<int64_t>& starts() const { return starts_; }
  /// Returns "SHARD KEY".
  std::string row_text(int64_t row) const {
    const auto [shard, sample] = find(row);
    return fmt::format("{} {}", names_[shard], shards_[shard].index().key(sample));
  }
  /// A field of a sample, or null if the sample has none of these fields.
  struct Found {
    const std::string* name = nullptr;
    std::span<const std::byte> bytes;
  };
  Found field(int64_t row, std::span<const std::string> names) const {
    const auto [shard, sample] = find(row);
    const TarField* field = shards_[shard].index().find(sample, names);
    if (!field) return {};
    return {&shards_[shard].index().name_of(*field), shards_[shard].bytes(*field)};
  }
  void recovering(const std::function<void()>& read) const { recover_from(0, read); }

 private:
  std::pair<size_t, size_t> find(int64_t row) const {
    const auto shard =
        static_cast<size_t>(std::ranges::upper_bound(starts_, row) - starts_.begin() - 1);
    return {shard, static_cast<size_t>(row - starts_[shard])};
  }
  void recover_from(size_t shard, const std::function<void()>& read) const {
    if (shard == shards_.size()) return read();
    shards_[shard].recovering([&] { recover_from(shard + 1, read); });
  }

  std::vector<TarShard> shards_;
  std::vector<std::string> names_;
  std::vector<int64_t> starts_;
  int64_t rows_ = 0;
};
using SharedShards = std::shared_ptr<const Shards>;

/// The errors of rows that were found while the fields were read.
using Errors = std::map<int64_t, RunError>;

std::vector<int64_t> rows_of(const Errors& errors) {
  std::vector<int64_t> rows;
  for (const auto& [row, error] : errors) rows.push_back(row);
  return rows;
}

/// A column and the field that it reads.
struct FieldReader {
  const plan::Column& column;
  SharedShards shards;
  JsonPointer pointer;
  Errors errors = {};

  /// Calls use(row, name of the field, bytes) for each sample that has the field, and notes the
  /// errors that `use` throws.
  template <typename Use>
  void each(const Use& use) {
    shards->recovering([&] {
      for (int64_t row = 0; row < shards->rows(); ++row) {
        try {
          const Shards::Found found = shards->field(row, column.tar->field);
          if (!found.name)
            throw RunError(
                fmt::format("the sample has no field `{}`", join(column.tar->field, "` or `")),
                "name a field that all samples have, or leave the sample out with "
                "`options: {on_bad_row: skip}`");
          use(row, *found.name, found.bytes);
        } catch (const RunError& error) {
          errors.emplace(row, RunError(fmt::format("{}: {} (column {})", shards->row_text(row),
                                                   error.what(), column.name),
                                       error.hint()));
        }
      }
    });
  }

  CellPlace place() const {
    return [shards = shards](int64_t row) { return shards->row_text(row); };
  }
  std::function<RunError(int64_t)> bad_row() const {
    return [errors = errors](int64_t row) { return errors.at(row); };
  }
};

std::string_view field_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Returns the text of a category: the field itself, or the value in a JSON field.
std::string category_of(const FieldReader& reader, const std::string& field,
                        std::span<const std::byte> bytes) {
  if (kind_of_field(field) != FieldKind::kJson) {
    std::string text = trimmed(field_text(bytes));
    if (const auto problem = utf8_problem(text)) throw RunError(problem->message, problem->hint);
    return text;
  }
  const JsonValue value = decode_json(bytes, reader.pointer).value();
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (const auto* number = std::get_if<int64_t>(&value)) return std::to_string(*number);
  throw RunError(fmt::format("the value at {} is not a text", reader.pointer.text()));
}

double number_of(const FieldReader& reader, const std::string& field,
                 std::span<const std::byte> bytes) {
  if (kind_of_field(field) != FieldKind::kJson)
    return static_cast<double>(decode_integer(bytes).value());
  return std::visit(
      [&](const auto& value) -> double {
        if constexpr (std::is_arithmetic_v<std::decay_t<decltype(value)>>)
          return static_cast<double>(value);
        else
          throw RunError(fmt::format("the value at {} is not a number", reader.pointer.text()));
      },
      decode_json(bytes, reader.pointer).value());
}

int64_t integer_of(const FieldReader& reader, const std::string& field,
                   std::span<const std::byte> bytes) {
  if (kind_of_field(field) != FieldKind::kJson) return decode_integer(bytes).value();
  const JsonValue value = decode_json(bytes, reader.pointer).value();
  if (const auto* integer = std::get_if<int64_t>(&value)) return *integer;
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? 1 : 0;
  throw RunError(fmt::format("the value at {} is not an integer", reader.pointer.text()));
}

std::shared_ptr<SourceRows> open_numbers(FieldReader& reader) {
  const auto rows = static_cast<size_t>(reader.shards->rows());
  NumberCells cells;
  if (reader.column.cell->type == plan::CellType::kNumber) {
    std::vector<double> numbers(rows);
    reader.each([&](int64_t row, const std::string& field, std::span<const std::byte> bytes) {
      numbers[static_cast<size_t>(row)] = number_of(reader, field, bytes);
    });
    cells.values = std::move(numbers);
  } else {
    std::vector<int64_t> integers(rows);
    reader.each([&](int64_t row, const std::string& field, std::span<const std::byte> bytes) {
      integers[static_cast<size_t>(row)] = integer_of(reader, field, bytes);
    });
    cells.values = std::move(integers);
  }
  cells.bad_rows = rows_of(reader.errors);
  cells.file_starts = reader.shards->starts();
  return std::make_shared<NumberRows>(std::move(cells), *reader.column.cell, reader.place(),
                                      reader.bad_row());
}

std::shared_ptr<SourceRows> open_categories(FieldReader& reader, const fs::path& root) {
  CategoryCells cells;
  cells.ids.resize(static_cast<size_t>(reader.shards->rows()));
  std::map<std::string, int32_t> ids;
  reader.each([&](int64_t row, const std::string& field, std::span<const std::byte> bytes) {
    const auto [at, fresh] =
        ids.emplace(category_of(reader, field, bytes), static_cast<int32_t>(cells.texts.size()));
    if (fresh) cells.texts.push_back(at->first);
    cells.ids[static_cast<size_t>(row)] = at->second;
  });
  cells.bad_rows = rows_of(reader.errors);
  cells.file_starts = reader.shards->starts();
  return std::make_shared<CategoryRows>(std::move(cells), *reader.column.cell,
                                        listed_categories(reader.column, root), reader.place(),
                                        reader.bad_row());
}

std::shared_ptr<SourceRows> open_texts(FieldReader& reader, const fs::path& root) {
  std::vector<std::string> texts(static_cast<size_t>(reader.shards->rows()));
  reader.each([&](int64_t row, const std::string& field, std::span<const std::byte> bytes) {
    texts[static_cast<size_t>(row)] = kind_of_field(field) == FieldKind::kJson
                                          ? category_of(reader, field, bytes)
                                          : std::string(field_text(bytes));
  });
  const auto visit = [&](const auto& use) {
    for (const std::string& text : texts) use(text);
  };
  return open_text_cells(reader.column, root, visit, reader.place(), rows_of(reader.errors),
                         reader.bad_row(), reader.shards->starts());
}

/// The arrays of `npy` fields, which all have the dtype and shape of the first one.
class ArrayFields : public SourceRows {
 public:
  explicit ArrayFields(FieldReader& reader)
      : shards_(reader.shards), fields_(reader.column.tar->field) {
    arrays_.resize(static_cast<size_t>(shards_->rows()));
    reader.each([&](int64_t row, const std::string&, std::span<const std::byte> bytes) {
      add(row, bytes, reader.column.source_row_shape());
    });
    errors_ = std::move(reader.errors);
  }

  int64_t rows() const override { return shards_->rows(); }
  StoredElement element() const override { return {dtype_}; }
  int64_t row_elements() const override { return elements_; }
  std::string row_text(int64_t row) const override { return shards_->row_text(row); }
  std::vector<int64_t> file_starts() const override { return shards_->starts(); }
  std::vector<int64_t> bad_rows() const override { return rows_of(errors_); }
  RunError bad_row(int64_t row) const override { return errors_.at(row); }
  std::span<const std::byte> read(int64_t row, const RowDraws&, Scratch&) const override {
    return arrays_[static_cast<size_t>(row)].bytes();
  }

 private:
  void add(int64_t row, std::span<const std::byte> bytes, const Shape& shape) {
    Array array = io::parse_npy(bytes, "the array");
    if (shape.rank() > 0 && array.shape() != shape)
      throw RunError(
          fmt::format("the array has shape {}; expected {}", array.shape().str(), shape.str()));
    if (elements_ == 0) {
      dtype_ = array.dtype();
      elements_ = array.shape().elements();
    }
    if (array.dtype() != dtype_ || array.shape().elements() != elements_)
      throw RunError(fmt::format("the array has {} values of {}; expected {} of {}",
                                 array.shape().elements(), name_of(array.dtype()), elements_,
                                 name_of(dtype_)));
    arrays_[static_cast<size_t>(row)] = std::move(array);
  }

  SharedShards shards_;
  std::vector<std::string> fields_;
  DType dtype_ = DType::kFloat32;
  int64_t elements_ = 0;
  std::vector<Array> arrays_;
  Errors errors_;
};

class ShardImages : public ImageFiles {
 public:
  explicit ShardImages(FieldReader& reader)
      : shards_(reader.shards), fields_(reader.column.tar->field) {
    reader.each([](int64_t, const std::string&, std::span<const std::byte>) {});
    errors_ = std::move(reader.errors);
  }

  int64_t rows() const override { return shards_->rows(); }
  std::span<const std::byte> bytes(int64_t row, std::vector<std::byte>&) const override {
    return shards_->field(row, fields_).bytes;
  }
  std::string row_text(int64_t row) const override { return shards_->row_text(row); }
  std::vector<int64_t> file_starts() const override { return shards_->starts(); }
  std::vector<int64_t> bad_rows() const override { return rows_of(errors_); }
  RunError bad_row(int64_t row) const override { return errors_.at(row); }
  void recovering(const std::function<void()>& read) const override { shards_->recovering(read); }

 private:
  SharedShards shards_;
  std::vector<std::string> fields_;
  Errors errors_;
};

std::shared_ptr<SourceRows> open_field(FieldReader reader, const fs::path& root) {
  switch (reader.column.cell->type) {
    case plan::CellType::kImage:
      return std::make_shared<ImageRows>(*reader.column.image,
                                         std::make_unique<ShardImages>(reader));
    case plan::CellType::kNpy:
      return std::make_shared<ArrayFields>(reader);
    case plan::CellType::kText:
      return open_texts(reader, root);
    case plan::CellType::kCategory:
      return open_categories(reader, root);
    default:
      return open_numbers(reader);
  }
}

}  // namespace

std::vector<std::shared_ptr<SourceRows>> open_tar_columns(
    std::span<const plan::Column* const> columns, const fs::path& root) {
  const auto shards = std::make_shared<const Shards>(files_of(*columns.front(), root));
  std::vector<std::shared_ptr<SourceRows>> rows;
  for (const plan::Column* column : columns)
    rows.push_back(open_field({*column, shards, JsonPointer(column->tar->pointer)}, root));
  return rows;
}

}  // namespace flow::data
