// What random calls are drawn from.
#include "tests/property/cases/draw.h"

#include <algorithm>
#include <iterator>

namespace flow::test {

int64_t extent(Random& random, int64_t largest) {
  constexpr int64_t kExtents[] = {1, 2, 3, 5, 7, 8, 16, 17, 31, 32, 33, 64, 65, 100, 127};
  const auto end = std::upper_bound(std::begin(kExtents), std::end(kExtents), largest);
  return kExtents[random_between(random, 0, end - std::begin(kExtents) - 1)];
}

void draw_extents(Random& random, Integers& extents) {
  for (int64_t& e : extents) e = extent(random, 17);
  if (!extents.empty() && random_between(random, 0, 3) == 0) {
    int64_t others = 1;
    for (int64_t& e : extents) others *= e = random_between(random, 1, 3);
    extents[static_cast<size_t>(random_between(random, 0, std::ssize(extents) - 1))] =
        random_between(random, 20000, 60000) / others;
  }
}

Shape any_shape(Random& random, int least_rank) {
  Integers extents(static_cast<size_t>(random_between(random, least_rank, 4)));
  draw_extents(random, extents);
  return Shape(extents);
}

Shape image_shape(Random& random) {
  return {extent(random, 5), extent(random, 65), extent(random, 17), extent(random, 17)};
}

int64_t pick_axis(Random& random, const Shape& shape) {
  return random_between(random, 0, shape.rank() - 1);
}

Shape repeated(Random& random, const Shape& out) {
  Integers extents = out.extents();
  for (int64_t& e : extents)
    if (random_between(random, 0, 2) == 0) e = 1;
  if (random_between(random, 0, 2) == 0)
    extents.erase(extents.begin(),
                  extents.begin() + random_between(random, 0, std::ssize(extents)));
  return Shape(extents);
}

Shape with_few_rows(Shape shape, int64_t first, int64_t end) {
  constexpr int64_t kMany = 1000, kFew = 50;
  const auto from = static_cast<int>(first), to = static_cast<int>(end);
  if (shape.elements(from, to) <= kMany) return shape;
  for (int axis = from; axis < to; ++axis) shape[axis] = std::min(shape[axis], kFew);
  return shape;
}

DType pick_integer(Random& random) {
  constexpr DType kIntegers[] = {DType::kInt8, DType::kInt32, DType::kInt64, DType::kUInt8};
  return kIntegers[random_between(random, 0, 3)];
}

Windows Windows::draw(Random& random, int64_t input, bool dilate) {
  const int64_t size = random_between(random, 1, std::min<int64_t>(input, 5));
  const bool room = dilate && size > 1 && (input - 1) / (size - 1) > 1;
  return {size, random_between(random, 1, 3), random_between(random, 0, size - 1),
          random_between(random, 0, size - 1), room ? random_between(random, 1, 2) : 1};
}

int64_t Windows::count(int64_t input) const {
  return (input + before + after - dilation * (size - 1) - 1) / stride + 1;
}

}  // namespace flow::test
