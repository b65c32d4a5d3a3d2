// The extents of an array.
#include "runtime/base/shape.h"

#include <limits>

#include "runtime/base/check.h"

namespace flow {

std::optional<int64_t> Shape::checked_elements() const {
  constexpr int64_t kLimit = std::numeric_limits<int64_t>::max() / 16;
  int64_t count = 1;
  bool empty = false;
  for (const int64_t extent : extents_) {
    if (extent == 0) empty = true;
    if (extent < 0 || (extent > 0 && count > kLimit / extent)) return std::nullopt;
    if (extent > 0) count *= extent;
  }
  return empty ? 0 : count;
}

int64_t Shape::elements() const { return elements(0, rank()); }

int64_t Shape::elements(int first, int last) const {
  FLOW_CHECK(0 <= first && first <= last && last <= rank());
  int64_t count = 1;
  for (int axis = first; axis < last; ++axis) count *= (*this)[axis];
  return count;
}

std::string Shape::str() const {
  std::string text = "[";
  for (const int64_t extent : extents_) {
    if (text.size() > 1) text += ", ";
    text += std::to_string(extent);
  }
  return text + "]";
}

std::string Shape::index_str(int64_t number) const {
  std::vector<int64_t> index;
  for (int axis = 0; axis < rank(); ++axis) {
    const int64_t inner = elements(axis + 1, rank());
    index.push_back(number / inner);
    number %= inner;
  }
  return Shape(std::move(index)).str();
}

}  // namespace flow
