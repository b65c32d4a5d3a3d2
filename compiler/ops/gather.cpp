// Elements picked by indices, and indices as vectors.
#include <fmt/format.h>

#include "compiler/ops/axes.h"
#include "compiler/ops/families.h"
#include "compiler/ops/initializers.h"
#include "runtime/base/representable.h"
#include "runtime/base/text.h"

namespace flow::defs {
namespace {

using Integers = std::vector<int64_t>;

/// Extents of `outside` but for axes [axis, axis + dropped), with `inside` in their place.
Shape replaced(const Shape& outside, int axis, int dropped, const Shape& inside) {
  Integers extents = outside.extents();
  const auto at = extents.erase(extents.begin() + axis, extents.begin() + axis + dropped);
  extents.insert(at, inside.begin(), inside.end());
  return Shape(std::move(extents));
}

void infer_gather(Inference& inference) {
  const auto axis = normalise_axis(inference, 0);
  if (!axis) return;
  const ir::Value &params = inference.operand(0), &indices = inference.operand(1);
  int rows = params.rows;
  if (rows == *axis) rows = ir::kMixedRows;
  if (rows > *axis) rows += indices.shape.rank() - 1;
  const int picked = indices.rows >= 0 ? *axis + indices.rows : indices.rows;
  inference.result(params.dtype, replaced(params.shape, *axis, 1, indices.shape),
                   common_rows(rows, picked));
}

void infer_gather_grad(Inference& inference) {
  const ir::Value &indices = inference.operand(0), &dy = inference.operand(1);
  const auto axis = static_cast<int>(inference.attribute<int64_t>("axis"));
  const Shape picked{inference.attribute<int64_t>("extent")};
  const bool inside = dy.rows >= axis && dy.rows < axis + indices.shape.rank();
  int rows = inside ? ir::kMixedRows : dy.rows;
  if (rows >= axis) rows -= indices.shape.rank() - 1;
  inference.result(dy.dtype, replaced(dy.shape, axis, indices.shape.rank(), picked), rows);
}

std::vector<ir::ValueId> gather_gradient(GradientContext& context) {
  std::vector<ir::ValueId> gradients(2);
  const auto axis = context.node.attributes.get<int64_t>("axis");
  const int64_t extent = context.value_of(context.operand(0)).shape[static_cast<int>(axis)];
  gradients[0] = context.add("gather_grad", 0, {context.operand(1), context.gradient()},
                             {{"axis", axis}, {"extent", extent}});
  return gradients;
}

ir::ValueId expand_embedding(LayerContext& context) {
  const Shape shape{context.attributes.get<int64_t>("vocab_size"),
                    context.attributes.get<int64_t>("units")};
  const ir::ValueId weight = context.add_variable("weight", "embeddings_initializer",
                                                  context.number(), shape, fans_of(shape));
  return context.add("gather", "gather", {weight, context.operands[0]}, {});
}

void infer_one_hot(Inference& inference) {
  const ir::Value& indices = inference.operand(0);
  const auto dtype = inference.attribute<DType>("dtype");
  for (const char* name : {"on_value", "off_value"}) {
    const double value = inference.attribute<double>(name);
    if (is_representable(value, dtype)) continue;
    inference.bad_attribute(name, Diagnosis::kBadAttribute,
                            fmt::format("cannot store {} as {}", shortest(value), name_of(dtype)));
    return;
  }
  Integers extents = indices.shape.extents();
  extents.push_back(inference.attribute<int64_t>("depth"));
  inference.result(dtype, Shape(std::move(extents)), indices.rows);
}

AttributeDef size(std::string_view name, std::string_view doc) {
  return {.name = name,
          .type = AttributeType::kInteger,
          .fallback = "",
          .doc = doc,
          .min = 1,
          .max = INT32_MAX};
}

}  // namespace

std::span<const OpDef> gather() {
  static const OpDef kOps[] = {
      {
          .name = "embedding",
          .doc = "Looks up one vector per integer in a weight (vocab_size, units).",
          .formula = "y[...] = W[x[...]]",
          .operands = {{"in", "integers of any shape", Accepts::kInteger}},
          .attributes = {size("vocab_size", "number of vectors; integers are in [0, vocab_size)"),
                         size("units", "size of each vector"),
                         {"embeddings_initializer", AttributeType::kInitializer,
                          "random_normal(0.02)", "initial value of the weight"},
                         {"embeddings_regularizer", AttributeType::kRegularizer, "none",
                          "L1 or L2 penalty on the weight"}},
          .expand = expand_embedding,
          .takes_variables = true,
      },
      {
          .name = "gather",
          .doc = "Gathers slices along an axis by index.",
          .formula = "y[..., i, ...] = params[..., indices[i], ...]",
          .operands = {{"params", "any shape except a scalar", Accepts::kAny},
                       {"indices", "integers of any shape, in [0, size of the axis)",
                        Accepts::kInteger}},
          .attributes = {{"axis", AttributeType::kInteger, "0", "axis to gather along"}},
          .infer = infer_gather,
          .gradient = gather_gradient,
          .examples = {"gather(f32[10,3], i32[4])", "gather(f32[10,3], i64[2,3])",
                       "gather(f32[2,10,3], i32[5]) axis=1", "gather(f32[2,10], u8[2,2]) axis=-1",
                       "gather(f32[10], i32[])", "gather(i64[10,2], i8[3])"},
      },
      {
          .name = "gather_grad",
          .doc = "Gradient of gather: adds up the gradients of repeated indices.",
          .formula = "dx[..., j, ...] = sum of dy[..., i, ...] with indices[i] = j",
          .operands = {{"indices", "indices of the forward op", Accepts::kInteger},
                       {"dy", "same shape as the gathered result"}},
          .attributes = {{"axis", AttributeType::kInteger, "", "axis of the slices"},
                         {"extent", AttributeType::kInteger, "", "size of the axis"}},
          .infer = infer_gather_grad,
          .internal = true,
          .examples = {"gather_grad(i32[6], f32[6,3]) axis=0 extent=10",
                       "gather_grad(i64[2,3], f32[4,2,3,2]) axis=1 extent=10"},
      },
      {
          .name = "one_hot",
          .doc = "One-hot encodes integers along a new last axis.",
          .formula = "y[..., i] = on_value where x[...] = i, else off_value",
          .operands = {{"in", "integers of any shape, in [0, depth)", Accepts::kInteger}},
          .attributes = {size("depth", "size of the new last axis"),
                         {"on_value", AttributeType::kNumber, "1", "value at the index"},
                         {"off_value", AttributeType::kNumber, "0", "value elsewhere"},
                         {"dtype", AttributeType::kDType, "float32", "dtype of the result"}},
          .infer = infer_one_hot,
          .examples = {"one_hot(i32[4]) depth=10", "one_hot(i64[2,3]) depth=10 on_value=0.9",
                       "one_hot(u8[3]) depth=10 dtype=bool",
                       "one_hot(i32[]) depth=10 on_value=5 off_value=-1 dtype=int64"},
      },
  };
  return kOps;
}

}  // namespace flow::defs
