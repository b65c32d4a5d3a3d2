// NumPy's basic indexing, written as text: "[:, 0, 1:-1]".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/array.h"

namespace flow::ops {

/// One item between the commas.
struct IndexItem {
  enum class Kind { kRange, kInteger, kNewAxis, kEllipsis };
  Kind kind = Kind::kRange;
  std::optional<int64_t> start = {}, stop = {}, step = {};  // of a range; start: the integer
};

/// What an index takes of an array. The first three have an extent for each axis of the array.
struct Selection {
  std::vector<int64_t> starts, steps, counts;
  Shape shape;  // of what is taken: axes with an integer dropped, new ones added
};

/// A value, or what is wrong.
template <typename T>
struct Understood {
  std::optional<T> value;
  std::string complaint;
};

/// The items of "[:, 0, 1:-1]". The complaint names the item that cannot be read.
Understood<std::vector<IndexItem>> parse_index(std::string_view text);

/// What the items take of an array of that shape: at least one element.
Understood<Selection> select(const std::vector<IndexItem>& items, const Shape& shape);

/// The text that takes [begin, end) of one axis and all of the others.
std::string index_of_range(int rank, int axis, int64_t begin, int64_t end);
/// The text that takes one place of an axis, and drops it.
std::string index_of_place(int rank, int axis, int64_t place);

}  // namespace flow::ops
