// A part of a tensor, taken as NumPy's basic indexing does.
#include <fmt/format.h>

#include "ops/core/axes.h"
#include "ops/core/families.h"
#include "ops/core/index_text.h"
#include "runtime/base/text.h"

namespace flow::ops {
namespace {

/// The attribute `index` is replaced by what it means for operand 0.
void normalise_slice(Call& call, Attributes& attributes) {
  const auto bad = [&](const std::string& complaint) {
    call.bad_attribute("index", Reason::kBadAttribute, "`index`: " + complaint);
  };
  const auto items = parse_index(call.attribute<std::string>("index"));
  if (!items.value) return bad(items.complaint);
  const auto taken = select(*items.value, call.shape(0));
  if (!taken.value) return bad(taken.complaint);
  attributes.erase("index");
  attributes.set("starts", taken.value->starts);
  attributes.set("steps", taken.value->steps);
  attributes.set("counts", taken.value->counts);
  attributes.set("shape", taken.value->shape.extents());
}

/// Whether `count` elements, the first of them at `first`, lie on an axis of n.
bool lie_on_axis(int64_t n, int64_t first, int64_t step, int64_t count) {
  if (first < 0 || first >= n || step < -n || step > n || count > n) return false;
  if (step == 0 && count != 1) return false;
  // Both factors are at most n: of an axis of 2^31 elements and more the product may overflow.
  const double last =
      static_cast<double>(first) + static_cast<double>(count - 1) * static_cast<double>(step);
  return 0 <= last && last < static_cast<double>(n) && n <= int64_t{1} << 52;
}

/// Whether what `starts`, `steps` and `counts` take lies inside `x`, and fills `taken`; reports if
/// not.
bool is_inside(Call& call, const Shape& x, const Shape& taken) {
  for (const std::string_view name : {"starts", "steps", "counts"}) {
    const size_t given = call.integers(name).size();
    if (given == static_cast<size_t>(x.rank())) continue;
    call.bad_attribute(name, Reason::kRankMismatch,
                       fmt::format("{} in `{}` for {}; expected one per axis",
                                   counted(given, "number"), name, x.str()));
    return false;
  }
  for (int axis = 0; axis < x.rank(); ++axis) {
    const auto i = static_cast<size_t>(axis);
    const int64_t first = call.integers("starts")[i], step = call.integers("steps")[i];
    const int64_t count = call.integers("counts")[i];
    if (lie_on_axis(x[axis], first, step, count)) continue;
    call.bad_attribute("starts", Reason::kOutOfRange,
                       fmt::format("{} elements from {} with step {} exceed axis {} of {}", count,
                                   first, step, axis, x.str()));
    return false;
  }
  const Shape counts(call.integers("counts"));
  if (counts.elements() == taken.elements()) return true;
  call.bad_attribute("counts", Reason::kShapeMismatch,
                     fmt::format("a slice of {} does not fill {}", counts.str(), taken.str()));
  return false;
}

/// Is all of an axis of `x` taken, in its order?
bool takes_whole(const Call& call, const Shape& x, int axis) {
  const auto i = static_cast<size_t>(axis);
  return call.integers("counts")[i] == x[axis] && call.integers("steps")[i] == 1;
}

/// The batch axis is kept where all of it is taken, in its order.
void infer_slice(Call& call) {
  const Operand& x = call.operand(0);
  const Shape counts(call.integers("counts")), shape(call.integers("shape"));
  if (!is_inside(call, x.shape, shape)) return;
  int batch_axis = x.batch_axis;
  if (batch_axis >= 0)
    batch_axis = takes_whole(call, x.shape, batch_axis)
                     ? reshaped_batch(counts, batch_axis, shape, call.job().batch)
                     : kBatchReduced;
  call.result(x.dtype, shape, batch_axis);
}

void infer_slice_grad(Call& call) {
  const Operand& dy = call.operand(0);
  const Shape counts(call.integers("counts")), dx(call.integers("input_shape"));
  if (!is_inside(call, dx, dy.shape)) return;
  int batch_axis = reshaped_batch(dy.shape, dy.batch_axis, counts, call.job().batch);
  if (batch_axis >= 0 && !takes_whole(call, dx, batch_axis)) batch_axis = kBatchReduced;
  call.result(dy.dtype, dx, batch_axis);
}

}  // namespace

std::span<const OpSpec> slice() {
  static const OpSpec kOps[] = {
      {
          .name = "slice",
          .doc = "Takes part of a tensor by NumPy basic indexing.",
          .formula = "y = x[index]",
          .operands = {{"in", "any shape", Accepts::kAny}},
          .attributes =
              {{"index", AttributeType::kIndex, "",
                "index in quotes, such as \"[:, 0, 1:-1]\"; supports steps, `...` and `None`"}},
          .plan_attributes = {{.name = "counts", .kind = Kind::kShape, .of_operand = true},
                              {.name = "shape", .kind = Kind::kShape, .of_result = true},
                              {"starts", Kind::kIntegers},
                              {"steps", Kind::kIntegers}},
          .normalise = normalise_slice,
          .infer = infer_slice,
          .linear = {0},
          .moves_elements = true,
          .flops = {0},
          .numpy = "x[index]",
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
          .plan_attributes = {{.name = "counts", .kind = Kind::kShape, .of_result = true},
                              {.name = "input_shape", .kind = Kind::kShape, .of_result = true},
                              {"starts", Kind::kIntegers},
                              {"steps", Kind::kIntegers}},
          .infer = infer_slice_grad,
          .linear = {0},
          .flops = {0},
          .internal = true,
          .examples = {"slice_grad(f32[2,3]) starts=[1,0] steps=[1,2] counts=[2,3] "
                       "input_shape=[4,5]"},
      },
  };
  return kOps;
}

}  // namespace flow::ops
