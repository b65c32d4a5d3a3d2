// The records of ops that join arrays, split them or take parts of them.
#include "ops/core/families.h"
#include "ops/core/index_text.h"
#include "runtime/base/text.h"

namespace flow::ops {
namespace {

using Integers = std::vector<int64_t>;

/// Reports the first operand whose dtype differs from that of operand 0, or whose shape `fits`
/// rejects.
template <typename Fits>
bool operands_fit(Call& call, Fits fits, std::string_view rule) {
  const Operand& first = call.operand(0);
  for (size_t i = 1; i < call.operands(); ++i) {
    const Operand& other = call.operand(i);
    if (other.dtype != first.dtype) {
      call.bad_operand(i, Reason::kDTypeMismatch,
                       fmt::format("the operands are {} and {}; expected one dtype",
                                   name_of(first.dtype), name_of(other.dtype)))
          .with_hint(fmt::format("convert with `{{op: cast, dtype: {}}}`", name_of(first.dtype)));
      return false;
    }
    if (fits(other.shape)) continue;
    call.bad_operand(i, Reason::kShapeMismatch,
                     fmt::format("{} and {} {}", first.shape.str(), other.shape.str(), rule));
    return false;
  }
  return true;
}

int common_batch_of_operands(const Call& call) {
  int batch_axis = call.operand(0).batch_axis;
  for (size_t i = 1; i < call.operands(); ++i)
    batch_axis = common_batch(batch_axis, call.operand(i).batch_axis);
  return batch_axis;
}

void infer_concat(Call& call) {
  const auto axis = axis_of(call);
  if (!axis) return;
  const Shape& first = call.shape(0);
  const auto fits = [&](const Shape& other) {
    if (other.rank() != first.rank()) return false;
    for (int i = 0; i < first.rank(); ++i)
      if (i != *axis && other[i] != first[i]) return false;
    return true;
  };
  if (!operands_fit(
          call, fits,
          fmt::format("cannot be concatenated; expected equal sizes except along axis {}", *axis)))
    return;
  Shape out = first;
  // Call::result reports a sum that is too large to count.
  for (size_t i = 1; i < call.operands() && out.checked_elements(); ++i)
    out[*axis] += call.shape(i)[*axis];
  const int batch_axis = common_batch_of_operands(call);
  const bool joined = batch_axis == *axis && call.operands() > 1;
  call.result(call.dtype(0), std::move(out), joined ? kBatchReduced : batch_axis);
}

/// Returns the attribute `axis` as an axis of the stacked result; reports an axis that is out of
/// range.
std::optional<int> stacked_axis(Call& call) {
  const int rank = call.shape(0).rank() + 1;
  const auto given = call.attribute<int64_t>("axis");
  const auto axis = axis_in(given, rank);
  if (!axis)
    call.bad_attribute(
        "axis", Reason::kBadAttribute,
        fmt::format("the result has no axis {}; expected {} to {}", given, -rank, rank - 1));
  return axis;
}

void normalize_stack(Call& call, Attributes& attributes) {
  if (const auto axis = stacked_axis(call)) attributes.set("axis", int64_t{*axis});
}

void infer_stack(Call& call) {
  const auto axis = stacked_axis(call);
  if (!axis) return;
  const Shape& first = call.shape(0);
  if (!operands_fit(
          call, [&](const Shape& other) { return other == first; },
          "cannot be stacked; expected equal shapes"))
    return;
  const int batch_axis = common_batch_of_operands(call);
  call.result(call.dtype(0),
              replaced_axes(first, *axis, 0, {static_cast<int64_t>(call.operands())}),
              batch_axis >= *axis ? batch_axis + 1 : batch_axis);
}

constexpr int64_t kMostParts = 4096;

/// Returns true if the sizes in the attribute named `attribute` add up to the extent of operand 0
/// along `axis`; otherwise reports an error.
bool add_up_to_axis(Call& call, const Integers& sizes, std::string_view attribute, int axis) {
  const Shape& x = call.shape(0);
  int64_t left = x[axis];
  for (const int64_t size : sizes) left = size > left ? -1 : left - size;
  if (left == 0) return true;
  call.bad_attribute(attribute, Reason::kShapeMismatch,
                     fmt::format("axis {} of {} has size {}; the parts {} do not add up to it",
                                 axis, x.str(), x[axis], Shape(sizes).str()));
  return false;
}

/// Returns the extents along `axis` that the attribute `parts` requests, or nothing after an error.
std::optional<Integers> sizes_of_parts(Call& call, int axis) {
  const Shape& x = call.shape(0);
  const auto bad = [&](std::string message) -> std::optional<Integers> {
    call.bad_attribute("parts", Reason::kShapeMismatch, std::move(message));
    return {};
  };
  Integers sizes;
  if (const auto* count = std::get_if<int64_t>(&call.attribute("parts"))) {
    if (x[axis] % *count != 0)
      return bad(fmt::format("axis {} of {} has size {}; it does not split into {} equal parts",
                             axis, x.str(), x[axis], *count));
    if (*count <= kMostParts) sizes.assign(static_cast<size_t>(*count), x[axis] / *count);
  } else {
    sizes = call.integers("parts");
    if (!add_up_to_axis(call, sizes, "parts", axis)) return {};
  }
  if (sizes.empty() || std::ssize(sizes) > kMostParts)
    return bad(fmt::format("too many parts; at most {} are supported", kMostParts));
  return sizes;
}

/// Replaces the attribute `parts` by `sizes`, the extents of the parts along the axis.
void normalize_split(Call& call, Attributes& attributes) {
  const auto axis = axis_in_range(call, call.attribute<int64_t>("axis"), call.shape(0));
  auto sizes = axis ? sizes_of_parts(call, *axis) : std::nullopt;
  if (!sizes) return;
  attributes.set("axis", int64_t{*axis});
  attributes.erase("parts");
  attributes.set("sizes", std::move(*sizes));
}

void infer_split(Call& call) {
  const auto axis = axis_of(call);
  const Integers& sizes = call.integers("sizes");
  if (!axis || !add_up_to_axis(call, sizes, "sizes", *axis)) return;
  const Operand& x = call.operand(0);
  // The size of a single part counts the rows of the whole batch, not those of one shard.
  const bool whole = sizes.size() == 1 && call.job().shards == 1;
  const int batch_axis = whole ? x.batch_axis : batch_beside(x.batch_axis, *axis);
  for (const int64_t size : sizes) {
    Shape part = x.shape;
    part[*axis] = size;
    call.result(x.dtype, std::move(part), batch_axis);
  }
}

/// Replaces the attribute `index` by starts, steps and counts for operand 0.
void normalize_slice(Call& call, Attributes& attributes) {
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

/// Returns true if `count` elements starting with `first` lie within an axis of n elements.
bool lie_on_axis(int64_t n, int64_t first, int64_t step, int64_t count) {
  if (first < 0 || first >= n || step < -n || step > n || count > n) return false;
  if (step == 0 && count != 1) return false;
  // Both factors are at most n, so for an axis of 2^31 elements or more their integer product may
  // overflow.
  const double last =
      static_cast<double>(first) + static_cast<double>(count - 1) * static_cast<double>(step);
  return 0 <= last && last < static_cast<double>(n) && n <= int64_t{1} << 52;
}

/// Returns true if `starts`, `steps` and `counts` select elements inside `x`, and as many as
/// `taken` has; otherwise reports an error.
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

/// Returns true if an axis of `x` is taken completely and in its original order.
bool takes_whole(const Call& call, const Shape& x, int axis) {
  const auto i = static_cast<size_t>(axis);
  return call.integers("counts")[i] == x[axis] && call.integers("steps")[i] == 1;
}

/// The result keeps the batch axis if that axis is taken completely and in its original order.
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

std::vector<OpSpec> parts() {
  return {
      {.name = "concat",
       .doc = "Concatenates tensors along an existing axis.",
       .formula = "y = x0, x1, ... joined along axis",
       .operands = {{"in", "equal shapes except along `axis`", Accepts::kAny, true}},
       .attributes = {axis_attribute("", "axis to concatenate along")},
       .normalize = normalize_axis,
       .infer = infer_concat,
       .linear_in_all = true,
       .moves_elements = true,
       .flops = {0},
       .numpy = "np.concatenate(x, axis)",
       .examples = {"concat(f32[2,3], f32[2,4]) axis=1", "concat(f32[2,3], f32[1,3]) axis=0",
                    "concat(f32[2,1,3], f32[2,2,3], f32[2,1,3]) axis=-2",
                    "concat(i32[3], i32[2]) axis=0", "concat(f32[2,3]) axis=0"}},
      {.name = "stack",
       .doc = "Stacks tensors of equal shape along a new axis.",
       .formula = "y[..., i, ...] = xi",
       .operands = {{"in", "equal shapes", Accepts::kAny, true}},
       .attributes = {axis_attribute("0", "position of the new axis in the result")},
       .normalize = normalize_stack,
       .infer = infer_stack,
       .linear_in_all = true,
       .moves_elements = true,
       .flops = {0},
       .numpy = "np.stack(x, axis)",
       .examples = {"stack(f32[2,3], f32[2,3])", "stack(f32[2,3], f32[2,3]) axis=-1",
                    "stack(f32[4], f32[4], f32[4]) axis=1", "stack(f32[], f32[])",
                    "stack(bool[3], bool[3])"}},
      {.name = "split",
       .doc = "Splits a tensor into parts along an axis.",
       .formula = "out0, out1, ... = x",
       .operands = {{"in", "any shape except a scalar", Accepts::kAny}},
       .attributes = {axis_attribute("", "axis to split"),
                      {.name = "parts",
                       .type = AttributeType::kIntegerOrList,
                       .fallback = "",
                       .doc = "number of equal parts, or a list of part sizes",
                       .min = 1}},
       .plan_attributes = {{"sizes", Kind::kParts}},
       .results = {{.name = "out", .variadic = true}},
       .normalize = normalize_split,
       .infer = infer_split,
       .secondary_gradients = true,
       .linear = {0},
       .moves_elements = true,
       .flops = {0},
       .examples = {"split(f32[4,3]) axis=0 parts=2", "split(f32[2,6]) axis=-1 parts=[1,3,2]",
                    "split(f32[3,5]) axis=1 parts=1", "split(i64[6]) axis=0 parts=3"}},
      {.name = "slice",
       .doc = "Takes part of a tensor by NumPy basic indexing.",
       .formula = "y = x[index]",
       .operands = {{"in", "any shape", Accepts::kAny}},
       .attributes =
           {{"index", AttributeType::kIndex, "",
             "index in quotes, such as \"[:, 0, 1:-1]\"; supports steps, `...` and `None`"}},
       .plan_attributes = {{.name = "counts", .kind = Kind::kShape, .of_operand = true},
                           extents_of_result("shape"),
                           {"starts", Kind::kIntegers},
                           {"steps", Kind::kIntegers}},
       .normalize = normalize_slice,
       .infer = infer_slice,
       .linear = {0},
       .moves_elements = true,
       .flops = {0},
       .numpy = "x[index]",
       .examples = {"slice(f32[4,5]) index=[1:3,::2]", "slice(f32[4,5]) index=[...,0]",
                    "slice(f32[4,5]) index=[::-1,4:0:-2]", "slice(f32[2,3,4]) index=[1,None]",
                    "slice(f32[7]) index=[-3]", "slice(i64[2,3,4]) index=[:,1:,-2]",
                    "slice(f32[]) index=[None]"}},
      {.name = "slice_grad",
       .doc = "Gradient of slice: zero outside the slice.",
       .formula = "dx[index] = dy",
       .operands = {{"dy", "shape of the slice"}},
       .attributes = {{"starts", AttributeType::kIntegers, "", "first index on each axis"},
                      {"steps", AttributeType::kIntegers, "", "step on each axis"},
                      {"counts", AttributeType::kIntegers, "", "number of elements on each axis"},
                      {"input_shape", AttributeType::kIntegers, "", "shape of the result"}},
       .plan_attributes = {extents_of_result("counts"), extents_of_result("input_shape")},
       .infer = infer_slice_grad,
       .linear = {0},
       .flops = {0},
       .internal = true,
       .examples = {"slice_grad(f32[2,3]) starts=[1,0] steps=[1,2] counts=[2,3] "
                    "input_shape=[4,5]"}},
  };
}

}  // namespace flow::ops
