// The records of bags of indices, whose vectors are summed or reduced to their maximum.
#include "ops/core/families.h"

namespace flow::ops {
namespace {

/// Returns the limit of lengths: a bag has at most as many indices as the last axis.
int64_t limit_of_bag_lengths(std::span<const Shape> operands, const Attributes&) {
  return operands[0][operands[0].rank() - 1] + 1;
}

/// Returns the operations for all elements that are looked up: `each` is 2 for a multiply-add and 1
/// for a comparison.
double flops_of_bags(double each, std::span<const Shape> operands) {
  return each * static_cast<double>(operands[1].elements()) * static_cast<double>(operands[0][1]);
}
double flops_of_sums(std::span<const Shape> operands, const Shape&, const Attributes&) {
  return flops_of_bags(2, operands);
}
double flops_of_maxima(std::span<const Shape> operands, const Shape&, const Attributes&) {
  return flops_of_bags(1, operands);
}

int64_t rows_of_table(std::span<const Shape> operands, const Attributes&) { return operands[0][0]; }

/// Returns the axis along which the indices of a bag are; reports indices without such an axis.
std::optional<int> axis_of_bags(Call& call, size_t i) {
  if (call.shape(i).rank() > 0) return call.shape(i).rank() - 1;
  call.bad_operand(i, Reason::kRankMismatch,
                   "the indices are a scalar; expected bags along the last axis");
  return {};
}

void infer_bag_indices(Call& call) {
  const auto axis = axis_of_bags(call, 0);
  if (!axis) return;
  const Operand& indices = call.operand(0);
  int batch_axis = indices.batch_axis;
  if (call.operands() > 1) {
    const Shape bags = indices.shape.first(*axis);
    if (call.shape(1) != bags) {
      call.bad_operand(1, Reason::kShapeMismatch,
                       fmt::format("the lengths are {} for indices {}; expected {}: one length per "
                                   "bag",
                                   call.shape(1).str(), indices.shape.str(), bags.str()));
      return;
    }
    batch_axis = common_batch(batch_beside(batch_axis, *axis), call.operand(1).batch_axis);
  }
  call.result(DType::kInt64, indices.shape, batch_axis);
}

/// The type of a result that contains one vector of table elements for each bag.
struct Bags {
  Shape shape;
  int batch_axis;
};

/// Returns the type of the result for a table (V, U) and indices (..., n). Reports operands that do
/// not fit.
std::optional<Bags> bags_of(Call& call) {
  const Operand &table = call.operand(0), &indices = call.operand(1);
  if (table.shape.rank() != 2) {
    call.bad_operand(0, Reason::kRankMismatch,
                     fmt::format("the table is {}; expected 2 dimensions", table.shape.str()));
    return {};
  }
  const auto axis = axis_of_bags(call, 1);
  if (!axis) return {};
  const int of_table = table.batch_axis == 1 ? *axis : batch_beside(table.batch_axis, 0);
  return Bags{replaced_axes(indices.shape, *axis, 1, {table.shape[1]}),
              common_batch(of_table, batch_beside(indices.batch_axis, *axis))};
}

/// Returns true if operand 2, the weights, is absent or has the shape of the indices; otherwise
/// reports it.
bool weights_fit(Call& call) {
  if (call.operands() < 3 || call.shape(2) == call.shape(1)) return true;
  call.bad_operand(2, Reason::kShapeMismatch,
                   fmt::format("the weights are {} for indices {}; expected equal shapes",
                               call.shape(2).str(), call.shape(1).str()));
  return false;
}

void infer_bag_sum(Call& call) {
  const auto bags = bags_of(call);
  if (!bags || !weights_fit(call)) return;
  int batch_axis = bags->batch_axis;
  if (call.operands() > 2)
    batch_axis = common_batch(batch_axis,
                              batch_beside(call.operand(2).batch_axis, call.shape(1).rank() - 1));
  call.result(call.dtype(0), bags->shape, batch_axis);
}

void infer_bag_max(Call& call) {
  const auto bags = bags_of(call);
  if (!bags) return;
  call.result(call.dtype(0), bags->shape, bags->batch_axis);
  call.result(DType::kInt64, bags->shape, bags->batch_axis);
}

OperandSpec bag_indices_operand() {
  return integers("indices", "bags along the last axis; an index outside the table is left out",
                  rows_of_table);
}

AttributeSpec bag_padding_attribute() {
  return offset_attribute("padding", "none", "integer that fills up bags; it never counts");
}

OperandSpec bag_lengths() {
  return optional_integers("lengths", "(...), how many indices of each bag count; default: all",
                           limit_of_bag_lengths);
}

}  // namespace

std::vector<OpSpec> embedding_bag() {
  return {
      {.name = "embedding_bag",
       .doc = "Looks up one vector per integer in a weight (vocab_size, units), and reduces "
              "those of each bag: their sum, mean or largest elements. An empty bag gives 0.",
       .formula = "y[..., :] = sum of weights[..., i] W[x[..., i], :] over the indices i that "
                  "count; mean: divided by their count; max: the largest elements",
       .operands = {{"in", "integers (..., n): bags along the last axis", Accepts::kInteger},
                    optional_integers("lengths",
                                      "(...), how many indices of each bag count; default: all"),
                    optional_floats("weights",
                                    "shape of x, factor on each vector of a sum; default: 1")},
       .attributes = embedding_attributes(
           {choice_attribute("mode", "mean", "how the vectors of a bag are reduced",
                             {"sum", "mean", "max"}),
            bag_padding_attribute()}),
       .takes_variables = true,
       .optional_by_dtype = true},
      {.name = "bag_indices",
       .doc = "Marks the indices of bags that do not count by -1.",
       .formula = "y[..., i] = -1 where i >= lengths[...] or x[..., i] = padding, else x[..., i]",
       .operands = {integers("in", "bags along the last axis; those that count are in [0, extent)",
                             limit_of_extent),
                    bag_lengths()},
       .attributes = {count_attribute("extent", "rows of the table"), bag_padding_attribute()},
       .infer = infer_bag_indices,
       .flops = {0},
       .internal = true,
       .examples = {"bag_indices(i32[4,3]) extent=10", "bag_indices(i64[4,3]) extent=10 padding=2",
                    "bag_indices(u8[2,5], i32[2]) extent=10",
                    "bag_indices(i8[2,3,4], i64[2,3]) extent=4 padding=0",
                    "bag_indices(i32[6], i32[]) extent=10"}},
      {.name = "bag_sum",
       .doc = "Adds up the rows of a table whose indices are in a bag.",
       .formula = "y[..., :] = sum of weights[..., i] params[indices[..., i], :] over i",
       .operands = {{"params", "(V, U)"},
                    bag_indices_operand(),
                    optional_floats("weights", "shape of the indices; default: 1")},
       .infer = infer_bag_sum,
       .linear = {0, 2},
       .layer = "embedding_bag",
       .flops = {.product = flops_of_sums},
       .internal = true,
       .examples = {"bag_sum(f32[10,3], i32[4,5])", "bag_sum(f32[10,3], i64[4,5], f32[4,5])",
                    "bag_sum(f32[10,20], u8[2,3,4], f32[2,3,4])", "bag_sum(f32[5,7], i64[6])"}},
      {.name = "bag_max",
       .doc = "Largest elements of the rows of a table whose indices are in a bag; 0 where it is "
              "empty.",
       .formula = "y[..., k] = max of params[indices[..., i], k] over i; places: the i that has "
                  "it, the first on ties, or -1",
       .operands = {{"params", "(V, U)"}, bag_indices_operand()},
       .results = {{"out"}, {.name = "places", .optional = true}},
       .infer = infer_bag_max,
       .layer = "embedding_bag",
       .flops = {.product = flops_of_maxima},
       .internal = true,
       .examples = {"bag_max(f32[10,3], i32[4,5])", "bag_max(f32[10,20], i64[2,3,4])",
                    "bag_max(f32[5,7], u8[6])"}},
  };
}

}  // namespace flow::ops
