// The extents of an array. Row-major order everywhere.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

namespace flow {

/// Extents of an array, outermost first; [] is a scalar. Extents may be 0, never negative.
class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<int64_t> extents) : extents_(extents) {}
  explicit Shape(std::vector<int64_t> extents) : extents_(std::move(extents)) {}

  int rank() const { return static_cast<int>(extents_.size()); }
  int64_t operator[](int axis) const { return extents_[static_cast<size_t>(axis)]; }
  int64_t& operator[](int axis) { return extents_[static_cast<size_t>(axis)]; }
  const std::vector<int64_t>& extents() const { return extents_; }
  auto begin() const { return extents_.begin(); }
  auto end() const { return extents_.end(); }
  friend bool operator==(const Shape&, const Shape&) = default;

  /// Number of elements. REQUIRES: checked_elements() has a value (true for every shape that
  /// passed the compiler or the plan check).
  int64_t elements() const;
  /// Number of elements, or nothing where it (or 16 bytes for each) overflows 63 bits.
  std::optional<int64_t> checked_elements() const;
  /// Product of the extents in [first, last).
  int64_t elements(int first, int last) const;
  /// The first extents, so many.
  Shape first(int count) const { return Shape(std::vector<int64_t>(begin(), begin() + count)); }
  /// The extents from this axis on.
  Shape from(int axis) const { return Shape(std::vector<int64_t>(begin() + axis, end())); }
  /// "[100, 1, 28, 28]"
  std::string str() const;
  /// "[3, 0]": where the element stands that has this number in C order. REQUIRES: it is one.
  std::string index_str(int64_t number) const;

 private:
  std::vector<int64_t> extents_;
};

}  // namespace flow
