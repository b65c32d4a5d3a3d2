// A part of a tensor, taken as NumPy's basic indexing does.
#include "compiler/ops/axes.h"
#include "compiler/ops/families.h"
#include "ops/index_text.h"

namespace flow::defs {
namespace {

using Integers = std::vector<int64_t>;

/// The attribute `index` replaced by what it means for operand 0.
bool normalise_index(Inference& inference) {
  if (!inference.has("index")) return true;
  const auto bad = [&](const std::string& complaint) {
    inference.bad_attribute("index", Diagnosis::kBadAttribute, "`index`: " + complaint);
    return false;
  };
  const auto items = ops::parse_index(inference.attribute<std::string>("index"));
  if (!items.value) return bad(items.complaint);
  const auto taken = ops::select(*items.value, inference.shape(0));
  if (!taken.value) return bad(taken.complaint);
  inference.replace("index", "starts", taken.value->starts);
  inference.normalise("steps", taken.value->steps);
  inference.normalise("counts", taken.value->counts);
  inference.normalise("shape", taken.value->shape.extents());
  return true;
}

/// The row axis is kept where all of it is taken, in its order.
void infer_slice(Inference& inference) {
  if (!normalise_index(inference)) return;
  const ir::Value& x = inference.operand(0);
  const Shape counts(inference.attribute<Integers>("counts"));
  const Shape shape(inference.attribute<Integers>("shape"));
  int rows = x.rows;
  if (rows >= 0) {
    const bool whole = counts[rows] == x.shape[rows] &&
                       inference.attribute<Integers>("steps")[static_cast<size_t>(rows)] == 1;
    rows = whole ? reshaped_rows(counts, rows, shape, inference.batch()) : ir::kMixedRows;
  }
  inference.result(x.dtype, shape, rows);
}

void infer_slice_grad(Inference& inference) {
  const ir::Value& dy = inference.operand(0);
  const Shape counts(inference.attribute<Integers>("counts"));
  const Shape dx(inference.attribute<Integers>("input_shape"));
  int rows = reshaped_rows(dy.shape, dy.rows, counts, inference.batch());
  if (rows >= 0 && counts[rows] != dx[rows]) rows = ir::kMixedRows;
  inference.result(dy.dtype, dx, rows);
}

std::vector<ir::ValueId> slice_gradient(GradientContext& context) {
  const ir::Attributes& taken = context.node.attributes;
  const Shape x = context.value_of(context.operand(0)).shape;
  return {context.add("slice_grad", 0, {context.gradient()},
                      {{"starts", *taken.find("starts")},
                       {"steps", *taken.find("steps")},
                       {"counts", *taken.find("counts")},
                       {"input_shape", x.extents()}})};
}

}  // namespace

std::span<const OpDef> slice() {
  static const OpDef kOps[] = {
      {
          .name = "slice",
          .doc = "Takes part of a tensor by NumPy basic indexing.",
          .formula = "y = x[index]",
          .operands = {{"in", "any shape", Accepts::kAny}},
          .attributes =
              {{"index", AttributeType::kIndex, "",
                "index in quotes, such as \"[:, 0, 1:-1]\"; supports steps, `...` and `None`"}},
          .infer = infer_slice,
          .gradient = slice_gradient,
          .examples = {"slice(f32[4,5]) index=[1:3,::2]", "slice(f32[4,5]) index=[...,0]",
                       "slice(f32[4,5]) index=[::-1,4:0:-2]", "slice(f32[2,3,4]) index=[1,None]",
                       "slice(f32[7]) index=[-3]", "slice(i64[2,3,4]) index=[:,1:,-2]",
                       "slice(f32[]) index=[None]"},
      },
      {
          .name = "slice_grad",
          .doc = "Gradient of slice: zero outside the slice.",
          .formula = "dx[index] = dy",
          .operands = {{"dy", "shape of the slice"}},
          .attributes = {{"starts", AttributeType::kIntegers, "", "first index on each axis"},
                         {"steps", AttributeType::kIntegers, "", "step on each axis"},
                         {"counts", AttributeType::kIntegers, "",
                          "number of elements on each axis"},
                         {"input_shape", AttributeType::kIntegers, "", "shape of the result"}},
          .infer = infer_slice_grad,
          .internal = true,
          .examples = {"slice_grad(f32[2,3]) starts=[1,0] steps=[1,2] counts=[2,3] "
                       "input_shape=[4,5]"},
      },
  };
  return kOps;
}

}  // namespace flow::defs
