// Random graphs of jobs, written as YAML, for tests of what shards compute.
#pragma once

#include <optional>
#include <random>
#include <string>
#include <vector>

#include "runtime/base/array.h"

namespace flow::test {

struct GraphValue {
  static constexpr int kNoRows = -1;

  std::string name;
  Shape shape;
  int rows = kNoRows;  // the axis along which the rows of the batch lie

  bool has_rows() const { return rows != kNoRows; }
  bool operator==(const GraphValue&) const = default;
};

/// The shape that both broadcast to; nothing where they do not fit.
std::optional<Shape> broadcast_shape(const Shape& a, const Shape& b);

/// Entries of a graph, one after another, and random choices. Elements stay of the order of 1.
class RandomGraph {
 public:
  explicit RandomGraph(unsigned seed) : random_(seed) {}

  int64_t below(int64_t count) {
    return std::uniform_int_distribution<int64_t>(0, count - 1)(random_);
  }
  bool coin() { return below(2) == 0; }
  template <typename T>
  T one_of(const std::vector<T>& all) {
    return all[static_cast<size_t>(below(static_cast<int64_t>(all.size())))];
  }

  /// "v3: {op: OP, in: [...], MORE}", with that shape and those rows.
  GraphValue add(const std::string& op, const std::vector<GraphValue>& in, Shape shape, int rows,
                 const std::string& more = "");
  GraphValue variable(const Shape& shape);
  /// An elementwise op.
  GraphValue unary(const GraphValue& x);
  GraphValue transposed(const GraphValue& x);
  /// A mean, sum, maximum or minimum along an axis that the rows do not lie along.
  GraphValue reduced(const GraphValue& x, int axis, const std::string& more = "");
  /// An op on both, whose shapes have to fit. `rows`: of the result.
  GraphValue binary(const GraphValue& a, const GraphValue& b, int rows);
  /// A product of the last two axes with a new variable; of rank 2 at least, rows not last.
  GraphValue product(const GraphValue& x);

  /// All entries, as they stand below `graph:`.
  const std::string& text() const { return text_; }

 private:
  std::string next_name() { return "v" + std::to_string(count_++); }

  std::mt19937 random_;
  std::string text_;
  int count_ = 0;
};

}  // namespace flow::test
