// Opens data files by the source of their column.
#include "runtime/data/sources/open_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "runtime/data/sources/array_rows.h"
#include "runtime/data/sources/column_files.h"
#include "runtime/io/gunzip.h"
#include "runtime/plan/model/enum_names.h"

namespace flow::data {
namespace {

using Source = std::unique_ptr<SourceRows>;

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

/// Reads one file of a column of arrays.
io::Rows read_rows(const plan::Column& column, const fs::path& path) {
  const io::CheckShape check = [&](const Shape& shape) { check_row_shape(column, path, shape); };
  switch (column.source) {
    case plan::SourceKind::kIdx:
      return io::read_idx_rows(path, check);
    case plan::SourceKind::kNpy:
      return io::read_npy_rows(path, check);
    case plan::SourceKind::kNpz:
      return io::read_npz_rows(path, column.array.value_or(""), check);
    default:
      FLOW_CHECK(false, "source {}", plan::enum_name(column.source));
  }
}

Source open_arrays(const plan::Column& column, const std::vector<fs::path>& paths) {
  std::vector<io::Rows> files;
  std::vector<std::string> names;
  for (const fs::path& path : paths) {
    files.push_back(read_rows(column, path));
    names.push_back(path.string());
  }
  return std::make_unique<ArrayRows>(std::move(files), std::move(names), column.source_row_shape());
}

/// Returns the hint for the decompressed content of a gzip file.
std::string hint_for_packed(const MappedFile& file, const fs::path& path) {
  std::array<std::byte, 64> start{};
  const size_t length = io::Gunzip(file.bytes(), path.string()).read(start);
  return hint_for_text(std::span(start).first(length));
}

/// Returns a hint for a file that could not be read in the column's format, based on the format
/// that its first bytes indicate.
std::string hint_for_bytes(const plan::Column& column, const fs::path& path) try {
  const MappedFile file(path);
  if (std::string hint = hint_for_text(file.bytes()); !hint.empty()) return hint;
  const std::string_view text(reinterpret_cast<const char*>(file.bytes().data()),
                              std::min<size_t>(file.bytes().size(), 6));
  const auto is = [&](plan::SourceKind source, std::string_view magic) {
    return column.source != source && text.starts_with(magic);
  };
  if (is(plan::SourceKind::kNpy, "\x93NUMPY"))
    return fmt::format("the file is a .npy; write `{{npy: {}}}`", path.string());
  if (is(plan::SourceKind::kNpz, "PK"))
    return fmt::format("the file is an .npz or another zip; write `{{npz: {}, array: NAME}}`",
                       path.string());
  if (column.source == plan::SourceKind::kIdx && text.starts_with("\x1f\x8b"))
    return hint_for_packed(file, path);
  if (is(plan::SourceKind::kIdx, "\x1f\x8b"))
    return "decompress the file; only csv, text and idx files can be packed";
  if (!text.empty() && std::ranges::all_of(text, [](unsigned char c) { return std::isprint(c); }))
    return fmt::format("the file is text; read it with `{{csv: {}}}`", path.string());
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
      return hint_for_bytes(column, path);
  }
  return error.hint();
}

}  // namespace

Source open_source(const plan::Column& column, const fs::path& root) {
  try {
    return open_arrays(column, files_of(column, root));
  } catch (const RunError& error) {
    throw RunError(fmt::format("{}: {}", column.where, error.what()), hint_for(column, root, error),
                   error.exit_status());
  }
}

std::vector<std::shared_ptr<SourceRows>> open_sources(const plan::Dataset& dataset,
                                                      const fs::path& root) {
  std::vector<std::shared_ptr<SourceRows>> sources;
  for (const plan::Column& column : dataset.columns) sources.push_back(open_source(column, root));
  return sources;
}

}  // namespace flow::data
