// The columns of a cache while it is written: their types, and their rows, which are decoded by
// several threads and written in order.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/data/dataset/dataset_cache.h"
#include "runtime/data/sources/category_rows.h"

namespace flow::data {

/// The ending of the name of an array with 1 for each missing cell of a column.
inline constexpr const char* kMissingMarks = ".missing";

/// The kinds of columns that are cached, and kNone for others.
enum class CachedKind { kNone, kNumbers, kCategories, kImages };
CachedKind cached_kind(const plan::Column& column);

/// Returns a digest of the keys on which the cached values of a column depend.
std::string cache_keys(const plan::Dataset& dataset, plan::Column column);

/// The columns to write.
class CachedColumnsWriting {
 public:
  /// `pool` may be null. REQUIRES: the arguments outlive this object.
  CachedColumnsWriting(const plan::Dataset& dataset, std::span<const SelectedRows> columns,
                       DecodePool* pool);

  /// Adds all columns that can be cached. Returns false if none of a column's images can be
  /// decoded, so that their size is unknown.
  bool add_all();
  /// The arrays that the cache gets.
  std::vector<CacheColumn> arrays() const;
  /// Appends all rows, and returns what the record says about each column. Throws RunError if
  /// images have different sizes or the disk is full.
  Json write(CacheWriter& writer);

 private:
  /// An array to write.
  struct Part {
    size_t index;  // of its column
    CacheColumn array;
    bool is_missing_marks = false;
  };
  /// The values of a row, or nothing if it cannot be decoded.
  using Row = std::optional<std::vector<std::byte>>;

  CachedKind kind(size_t index) const { return cached_kind(dataset_.columns[index]); }
  const CategoryCells& categories(size_t index) const;
  std::vector<int64_t> own_bad_rows(size_t index) const;
  int64_t cells_of_row(size_t index) const;
  bool is_missing(size_t index, int64_t source_row, int64_t cell) const;
  bool has_missing(size_t index) const;
  bool add(size_t index);
  std::optional<Shape> shape_of_images(size_t index);
  Json facts_of(size_t index) const;
  void write_missing(CacheWriter& writer, size_t part) const;
  std::vector<int64_t> write_values(CacheWriter& writer, size_t part);
  void read_chunk(const Part& part, int64_t first, std::vector<Row>& chunk);
  Row values_of(const Part& part, int64_t row, Scratch& scratch) const;
  std::vector<std::byte> values_of_image(const Part& part, int64_t source_row,
                                         const Image& image) const;

  const plan::Dataset& dataset_;
  std::span<const SelectedRows> columns_;
  DecodePool* pool_;
  std::vector<Scratch> scratch_;
  std::vector<Part> parts_;
};

}  // namespace flow::data
