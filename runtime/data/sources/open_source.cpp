// Opens data files by the source of their column.
#include "runtime/data/sources/open_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "runtime/data/files/raw_rows.h"
#include "runtime/data/sources/array_rows.h"
#include "runtime/data/sources/augmented_rows.h"
#include "runtime/data/sources/column_files.h"
#include "runtime/data/sources/csv_columns.h"
#include "runtime/data/sources/image_folder.h"
#include "runtime/data/sources/tar_columns.h"
#include "runtime/data/sources/text_rows.h"
#include "runtime/io/gunzip.h"
#include "runtime/plan/model/enum_names.h"

namespace flow::data {
namespace {

using Source = std::shared_ptr<SourceRows>;

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

void check_row_shape(const plan::Column& column, const fs::path& path, const Shape& shape) {
  const Shape found = shape.from(1), expected = column.source_row_shape();
  if (same_order(found, expected)) return;
  throw RunError(
      fmt::format("{} has rows of {}; expected {}", path.string(), found.str(), expected.str()),
      found.rank() == 3 && expected == Shape{found[2], found[0], found[1]}
          ? "the images are channels-last; give the input that shape and apply `{op: transpose, "
            "perm: [0, 3, 1, 2]}`"
          : "set the shape of the column and of the input to that of a row in the file");
}

BinFormat bin_format_of(const plan::BinFormat& format) {
  const std::optional<ElementType> type = parse_element_type(format.dtype);
  FLOW_CHECK(type.has_value(), "element type {}", format.dtype);
  return {*type, format.endian == plan::BinFormat::Endian::kBig,
          static_cast<uint64_t>(format.offset)};
}

/// Reads one file of a column of arrays. The shape of rows is only checked if a job reads them.
io::Rows read_rows(const plan::Column& column, bool is_read, const fs::path& path) {
  const io::CheckShape check = [&](const Shape& shape) {
    if (is_read) check_row_shape(column, path, shape);
  };
  switch (column.source) {
    case plan::SourceKind::kIdx:
      return io::read_idx_rows(path, check);
    case plan::SourceKind::kNpy:
      return io::read_npy_rows(path, check);
    case plan::SourceKind::kNpz:
      return io::read_npz_rows(path, column.array.value_or(""), check);
    case plan::SourceKind::kBin:
      return read_bin_rows(path, bin_format_of(*column.bin), column.source_row_shape(), check);
    case plan::SourceKind::kSafetensors:
      return read_safetensors_rows(path, column.array.value_or(""), check);
    default:
      FLOW_CHECK(false, "source {}", plan::enum_name(column.source));
  }
}

Source open_arrays(const plan::Column& column, bool is_read, const fs::path& root) {
  std::vector<io::Rows> files;
  std::vector<std::string> names;
  for (const fs::path& path : files_of(column, root)) {
    files.push_back(read_rows(column, is_read, path));
    names.push_back(path.string());
  }
  return std::make_shared<ArrayRows>(std::move(files), std::move(names));
}

Source open_text(const plan::Column& column, const fs::path& root) {
  const std::vector<fs::path> files = files_of(column, root);
  return column.text->lines ? open_text_lines(column, root, files)
                            : open_text_stream(column, root, files);
}

/// Returns the hint for the decompressed content of a gzip file.
std::string hint_for_packed(const MappedFile& file, const fs::path& path) {
  std::array<std::byte, 64> start{};
  const size_t length = io::Gunzip(file.bytes(), path.string()).read(start);
  return hint_for_text(std::span(start).first(length));
}

/// Returns a hint for a file that could not be read in the column's format, based on the format
/// that its first bytes indicate.
std::string hint_for_bytes(const plan::Column& column, const fs::path& path,
                           const std::string& written) try {
  const MappedFile file(path);
  if (std::string hint = hint_for_text(file.bytes()); !hint.empty()) return hint;
  const std::string_view text(reinterpret_cast<const char*>(file.bytes().data()),
                              std::min<size_t>(file.bytes().size(), 6));
  const auto is = [&](plan::SourceKind source, std::string_view magic) {
    return column.source != source && text.starts_with(magic);
  };
  if (is(plan::SourceKind::kNpy, "\x93NUMPY"))
    return fmt::format("the file is a .npy; write `{{npy: {}}}`", written);
  if (is(plan::SourceKind::kNpz, "PK"))
    return fmt::format("the file is an .npz or another zip; write `{{npz: {}, array: NAME}}`",
                       written);
  if (column.source == plan::SourceKind::kIdx && text.starts_with("\x1f\x8b"))
    return hint_for_packed(file, path);
  if (is(plan::SourceKind::kIdx, "\x1f\x8b"))
    return "decompress the file; only csv, text and idx files can be compressed";
  if (!text.empty() && std::ranges::all_of(text, [](unsigned char c) { return std::isprint(c); }))
    return fmt::format("the file is text; read it with `{{csv: {}}}`", written);
  return {};
} catch (const RunError&) {
  return {};  // The file cannot be read at all, which the caller already reports.
}

std::string hint_for(const plan::Column& column, const fs::path& root, const RunError& error) {
  for (const std::string& file : column.files) {
    const fs::path path = (root / file).lexically_normal();
    std::error_code unknown;
    if (!fs::exists(path, unknown) && !unknown)
      return fmt::format("check the path: `{}` is relative to {}", file,
                         root.empty() ? "." : root.string());
    if (error.hint().empty() && fs::is_regular_file(path, unknown))
      return hint_for_bytes(column, path, file);
  }
  return error.hint();
}

/// Returns true if both columns read the same files in the same way, so that they are opened
/// together.
bool share_files(const plan::Column& a, const plan::Column& b) {
  return a.source == b.source && a.files == b.files &&
         (a.source == plan::SourceKind::kTar || same_csv(a, b));
}

/// Opens columns that share their files, or one column.
std::vector<Source> open_together(std::span<const plan::Column* const> columns, bool is_read,
                                  const fs::path& root) {
  const plan::Column& first = *columns.front();
  switch (first.source) {
    case plan::SourceKind::kCsv:
      return open_csv_columns(columns, root);
    case plan::SourceKind::kTar:
      return open_tar_columns(columns, root);
    case plan::SourceKind::kText:
      return {open_text(first, root)};
    case plan::SourceKind::kImages:
      return {open_image_folder(first, root)};
    default:
      return {open_arrays(first, is_read, root)};
  }
}

/// Opens columns and names the place in the job file in errors.
std::vector<Source> open_at_place(std::span<const plan::Column* const> columns, bool is_read,
                                  const fs::path& root) {
  const plan::Column& first = *columns.front();
  try {
    return open_together(columns, is_read, root);
  } catch (const RunError& error) {
    throw RunError(fmt::format("{}: {}", first.where, error.what()), hint_for(first, root, error),
                   error.exit_status());
  }
}

}  // namespace

Source augmented(const plan::Column& column, Source source) {
  if (!column.image || column.image->augment.empty()) return source;
  return std::make_shared<AugmentedRows>(std::move(source), column.image->augment,
                                         column.source_row_shape());
}

Source open_source(const plan::Column& column, const fs::path& root) {
  const plan::Column* const one = &column;
  return augmented(column, open_at_place({&one, 1}, true, root).front());
}

std::vector<Source> open_sources(const plan::Dataset& dataset, const std::vector<std::string>& read,
                                 const fs::path& root) {
  std::vector<Source> sources(dataset.columns.size());
  for (size_t i = 0; i < sources.size(); ++i) {
    if (sources[i]) continue;
    std::vector<const plan::Column*> together;
    std::vector<size_t> indices;
    for (size_t k = i; k < sources.size(); ++k)
      if (k == i || share_files(dataset.columns[i], dataset.columns[k])) {
        together.push_back(&dataset.columns[k]);
        indices.push_back(k);
      }
    const bool is_read = std::ranges::count(read, dataset.columns[i].name) > 0;
    std::vector<Source> opened = open_at_place(together, is_read, root);
    for (size_t k = 0; k < indices.size(); ++k)
      sources[indices[k]] = augmented(*together[k], std::move(opened[k]));
  }
  return sources;
}

}  // namespace flow::data
