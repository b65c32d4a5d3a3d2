// The layer embedding_bag, and the gradients of the sum and the maximum of a bag: a row for each
// index, added into the table like the gradient of gather.
#include "compiler/grad/shared_parts.h"
#include "runtime/base/array.h"

namespace flow::grad {
namespace {

using ir::ValueId;
using Integers = std::vector<int64_t>;

/// Returns the extents of `shape` with `extent` inserted `from_end` axes before the end.
Integers with_axis(const Shape& shape, int64_t extent, int from_end) {
  Integers extents = shape.extents();
  extents.insert(extents.end() - from_end, extent);
  return extents;
}

/// Reshapes a value that is needed for the gradient of operand i: inserts an axis of size 1
/// `from_end` axes before the end.
ValueId beside(GradientContext& context, size_t i, ValueId value, int from_end,
               std::string_view part) {
  return context.reshape(i, value, with_axis(context.value_of(value).shape, 1, from_end), part);
}

/// Returns the gradients of the weights. The gradient of weight i of a bag is the dot product of
/// row i with the gradient of the bag.
ValueId weights_gradient(GradientContext& context, ValueId dy) {
  const DType dtype = context.value_of(context.operand(1)).dtype;
  const ValueId zero = context.fill(2, 0, Shape{}, dtype, "first");
  const ValueId known = context.add("greater_equal", 2, {context.operand(1), zero}, {}, "known");
  const ValueId indices = context.add("maximum", 2, {context.operand(1), zero}, {}, "indices");
  const ValueId rows =
      context.add("gather", 2, {context.operand(0), indices}, {{"axis", int64_t{0}}}, "gather");
  const ValueId products = context.add("multiply", 2, {rows, dy}, {}, "products");
  const ValueId sums = context.add("reduce_sum", 2, {products},
                                   {{"axis", Integers{-1}}, {"keepdims", false}}, "sums");
  const ValueId none = context.fill(2, 0, Shape{}, context.value_of(sums).dtype, "none");
  return context.add("where", 2, {known, sums, none});
}

std::vector<ValueId> bag_sum_gradient(GradientContext& context) {
  const bool weighted = context.node.operands.size() > 2;
  std::vector<ValueId> gradients(context.node.operands.size());
  const Shape indices = context.value_of(context.operand(1)).shape;
  if (context.wanted[0]) {
    const ValueId dy = beside(context, 0, context.gradient(), 1, "dy");
    const int64_t units = context.value_of(context.operand(0)).shape[1];
    const ValueId rows =
        weighted
            ? context.add("multiply", 0, {dy, beside(context, 0, context.operand(2), 0, "weights")},
                          {}, "rows")
            : context.add("broadcast_to", 0, {dy}, {{"shape", with_axis(indices, units, 0)}},
                          "rows");
    gradients[0] = context.add_picked(context.operand(1), rows);
  }
  if (weighted && context.wanted[2])
    gradients[2] = weights_gradient(context, beside(context, 2, context.gradient(), 1, "dy"));
  return gradients;
}

/// Adds the gradient of bag_max. Each index receives the gradient of the elements for which its row
/// is the maximum of the bag.
std::vector<ValueId> bag_max_gradient(GradientContext& context) {
  const Shape indices = context.value_of(context.operand(1)).shape;
  const int64_t count = indices[indices.rank() - 1];
  const ValueId numbers = context.add("evenly_spaced", 0, {},
                                      {{"first", 0.0},
                                       {"last", static_cast<double>(count - 1)},
                                       {"count", count},
                                       {"dtype", DType::kInt64}},
                                      "numbers");
  const ValueId column = context.reshape(0, numbers, Integers{count, 1}, "column");
  const ValueId places = beside(context, 0, context.result(1), 1, "places");
  const ValueId largest = context.add("equal", 0, {column, places}, {}, "largest");
  const ValueId dy = beside(context, 0, context.gradient(), 1, "dy");
  const ValueId zero = context.fill(0, 0, Shape{}, context.value_of(dy).dtype, "zero");
  const ValueId rows = context.add("where", 0, {largest, dy, zero}, {}, "rows");
  return {context.add_picked(context.operand(1), rows), {}};
}

/// A layer of bags. Its operands are indices, lengths and weights; lengths and weights are invalid
/// if the job omits them.
class BagLayer {
 public:
  explicit BagLayer(LayerContext& context) : context_(context) {}

  ValueId expand() {
    if (!fits()) return {};
    const ValueId table = context_.add_table();
    const ValueId indices = marked_indices();
    if (mode() == "max") return context_.add("bag_max", "bag_max", {table, indices});
    std::vector<ValueId> operands{table, indices};
    if (has(2)) operands.push_back(context_.operands[2]);
    const ValueId sum = context_.add("bag_sum", "bag_sum", std::move(operands));
    return mode() == "mean" ? context_.add("divide", "mean", {sum, counts(indices)}) : sum;
  }

 private:
  const std::string& mode() const { return context_.attributes.get<std::string>("mode"); }
  bool has(size_t i) const { return i < context_.operands.size() && context_.operands[i].valid(); }

  /// Returns true unless there are weights without `mode: sum`, or the padding is not representable
  /// in the dtype of the indices; reports both.
  bool fits() const {
    if (has(2) && mode() != "sum") {
      context_.site()
          .bad_operand(2, Diagnosis::kBadAttribute,
                       fmt::format("`weights` with `mode: {}`; only sums have weights", mode()))
          .with_hint("write `mode: sum`, or remove the weights");
      return false;
    }
    const ir::Attribute* padding = context_.attributes.find("padding");
    const DType dtype = context_.operand(0).dtype;
    if (!padding || is_representable(static_cast<double>(std::get<int64_t>(*padding)), dtype))
      return true;
    context_.site().bad_attribute("padding", Diagnosis::kOutOfRange,
                                  fmt::format("`padding` is {}, which no {} index can be",
                                              std::get<int64_t>(*padding), name_of(dtype)));
    return false;
  }

  /// Returns the indices, with those that do not count replaced by -1.
  ValueId marked_indices() {
    std::vector<ValueId> operands{context_.operands[0]};
    if (has(1)) operands.push_back(context_.operands[1]);
    ir::Attributes attributes = {{"extent", context_.attributes.get<int64_t>("vocab_size")}};
    if (const ir::Attribute* padding = context_.attributes.find("padding"))
      attributes.set("padding", *padding);
    return context_.add("bag_indices", "indices", std::move(operands), std::move(attributes));
  }

  /// Returns the number of indices that count in each bag, as a divisor: 1 for an empty bag.
  ValueId counts(ValueId indices) {
    const DType dtype = context_.compute_dtype();
    const ValueId counted = context_.add("greater_equal", "counted",
                                         {indices, context_.number("first", 0, DType::kInt64)});
    const ValueId ones = context_.add("cast", "ones", {counted}, {{"dtype", dtype}});
    const ValueId sums =
        context_.add("reduce_sum", "sums", {ones}, {{"axis", Integers{-1}}, {"keepdims", true}});
    return context_.add("maximum", "counts", {sums, context_.number("one", 1, dtype)});
  }

  LayerContext& context_;
};

ValueId expand_embedding_bag(LayerContext& context) { return BagLayer(context).expand(); }

}  // namespace

std::vector<Rules> embedding_bag() {
  return {{"embedding_bag", nullptr, expand_embedding_bag},
          {"bag_sum", bag_sum_gradient},
          {"bag_max", bag_max_gradient}};
}

}  // namespace flow::grad
