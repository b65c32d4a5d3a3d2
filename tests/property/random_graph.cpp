// Random graphs of jobs, written as YAML.
#include "tests/property/random_graph.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "runtime/base/error.h"

namespace flow::test {

std::optional<Shape> broadcast_shape(const Shape& a, const Shape& b) {
  if (a.rank() < b.rank()) return broadcast_shape(b, a);
  Shape made = a;
  for (int i = 1; i <= b.rank(); ++i) {
    int64_t& extent = made[a.rank() - i];
    const int64_t other = b[b.rank() - i];
    if (extent != other && extent != 1 && other != 1) return {};
    extent = std::max(extent, other);
  }
  return made;
}

GraphValue RandomGraph::add(const std::string& op, const std::vector<GraphValue>& in, Shape shape,
                            int rows, const std::string& more) {
  std::vector<std::string> names;
  for (const GraphValue& value : in) names.push_back(value.name);
  GraphValue made{next_name(), std::move(shape), rows};
  text_ += fmt::format("      {}: {{op: {}{}{}}}\n", made.name, op,
                       names.empty() ? "" : fmt::format(", in: [{}]", fmt::join(names, ", ")),
                       more.empty() ? "" : ", " + more);
  return made;
}

GraphValue RandomGraph::variable(const Shape& shape) {
  return add("variable", {}, shape, GraphValue::kNoRows,
             fmt::format("shape: [{}], initializer: {{type: random_normal}}",
                         fmt::join(shape.extents(), ", ")));
}

GraphValue RandomGraph::unary(const GraphValue& x) {
  return add(one_of<std::string>({"tanh", "sin", "sigmoid", "erf"}), {x}, x.shape, x.rows);
}

GraphValue RandomGraph::transposed(const GraphValue& x) {
  std::vector<int> perm(static_cast<size_t>(x.shape.rank()));
  std::iota(perm.begin(), perm.end(), 0);
  std::ranges::shuffle(perm, random_);
  Shape shape = x.shape;
  int rows = x.rows;
  for (int i = 0; i < x.shape.rank(); ++i) {
    const int from = perm[static_cast<size_t>(i)];
    shape[i] = x.shape[from];
    if (from == x.rows) rows = i;
  }
  return add("transpose", {x}, shape, rows, fmt::format("perm: [{}]", fmt::join(perm, ", ")));
}

GraphValue RandomGraph::reduced(const GraphValue& x, int axis, const std::string& more) {
  FLOW_CHECK(axis != x.rows);
  const bool keeps = coin();
  std::vector<int64_t> extents(x.shape.begin(), x.shape.end());
  if (keeps)
    extents[static_cast<size_t>(axis)] = 1;
  else
    extents.erase(extents.begin() + axis);
  const GraphValue made =
      add(one_of<std::string>({"reduce_mean", "reduce_sum", "reduce_max", "reduce_min"}), {x},
          Shape(extents), !keeps && axis < x.rows ? x.rows - 1 : x.rows,
          fmt::format("axis: {}, keepdims: {}{}", axis, keeps, more));
  return made;
}

GraphValue RandomGraph::binary(const GraphValue& a, const GraphValue& b, int rows) {
  const std::vector<GraphValue> in = coin() ? std::vector{a, b} : std::vector{b, a};
  const auto shape = broadcast_shape(a.shape, b.shape);
  FLOW_CHECK(shape);
  return add(one_of<std::string>({"add", "subtract", "multiply", "maximum"}), in, *shape, rows);
}

GraphValue RandomGraph::product(const GraphValue& x) {
  const int last = x.shape.rank() - 1;
  FLOW_CHECK(last > 0 && x.rows != last);
  const int64_t columns = 1 + below(4);
  const GraphValue w = variable({x.shape[last], columns});
  Shape shape = x.shape;
  shape[last] = columns;
  return add("matmul", {x, w}, shape, x.rows);
}

}  // namespace flow::test
