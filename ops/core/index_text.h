// NumPy's basic indexing in text form: "[:, 0, 1:-1]".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/array.h"

namespace flow::ops {

/// One item between commas.
struct IndexItem {
  enum class Kind { kRange, kInteger, kNewAxis, kEllipsis };
  Kind kind = Kind::kRange;
  // bounds of a range; a plain integer is stored in `start`
  std::optional<int64_t> start = {}, stop = {}, step = {};
};

/// The elements that an index selects from an array. The three lists have one entry for each axis
/// of the array.
struct Selection {
  std::vector<int64_t> starts, steps, counts;
  Shape shape;  // the selection's shape, without integer axes and with new axes
};

/// A value, or a description of what is wrong.
template <typename T>
struct Understood {
  std::optional<T> value;
  std::string complaint;
};

/// Reads the items of "[:, 0, 1:-1]". The complaint names the item that cannot be read.
Understood<std::vector<IndexItem>> parse_index(std::string_view text);

/// Returns the selection of the items from an array of that shape. It has at least one element.
Understood<Selection> select(const std::vector<IndexItem>& items, const Shape& shape);

/// Returns the text of the index that selects [begin, end) of one axis and all of the other axes.
std::string index_of_range(int rank, int axis, int64_t begin, int64_t end);
/// Returns the text of the index that selects one position of an axis and drops that axis.
std::string index_of_place(int rank, int axis, int64_t place);

}  // namespace flow::ops
