// Nodes that move elements: other shapes, parts, copies, and elements by index.
#include <algorithm>
#include <limits>
#include <numeric>

#include "ops/core/axes.h"
#include "runtime/base/element_types.h"
#include "runtime/onnx/step_export.h"

namespace flow::onnx {
namespace {

using Integers = std::vector<int64_t>;
using Strings = std::vector<std::string>;

/// The extents of the result are known only where rows of the batch are one of them.
void needs_batch_axis(StepExport& step, const Value& x, int batch_axis) {
  if (x.batch_axis == ops::kBatchReduced || (x.batch_axis >= 0 && batch_axis < 0)) step.fix_batch();
}

void reshape(StepExport& step) {
  const Value &x = step.in(), &y = step.out();
  needs_batch_axis(step, x, y.batch_axis);
  step.result("Reshape", {x.name, step.reshaping(y.shape, y.batch_axis)});
}

void transpose(StepExport& step) {
  step.result("Transpose", step.names(), {{"perm", step.integers("perm")}});
}

/// Rows of the batch beside rows that are not.
bool mixes_rows(const StepExport& step) {
  for (size_t i = 1; i < step.operands(); ++i)
    if (step.in(i).batch_axis != step.in(0).batch_axis) return true;
  return false;
}

void concat(StepExport& step) {
  if (mixes_rows(step)) step.fix_batch();
  step.result("Concat", step.names(), {{"axis", step.attribute<int64_t>("axis")}});
}

void stack(StepExport& step) {
  if (mixes_rows(step)) step.fix_batch();
  const auto axis = step.attribute<int64_t>("axis");
  Strings parts;
  for (const std::string& name : step.names())
    parts.push_back(step.node("Unsqueeze", {name, step.vector({axis})}));
  step.result("Concat", parts, {{"axis", axis}});
}

void split(StepExport& step) {
  const auto axis = step.attribute<int64_t>("axis");
  const Integers& sizes = step.integers("sizes");
  if (step.in().batch_axis == axis || step.in().batch_axis == ops::kBatchReduced) step.fix_batch();
  step.results("Split", {step.in().name, step.vector(sizes)}, sizes.size(), {{"axis", axis}});
}

/// The inputs of Slice; axes that are taken whole are left out.
struct Cut {
  Integers starts, ends, axes, steps;
  bool empty() const { return axes.empty(); }
};

/// ONNX says by a number below all indices that a slice with a negative step reaches the first
/// element.
constexpr int64_t kBelowAll = std::numeric_limits<int32_t>::min();

Cut cut_of(const StepExport& step) {
  const Value& x = step.in();
  Cut cut;
  for (int axis = 0; axis < x.shape.rank(); ++axis) {
    const auto i = static_cast<size_t>(axis);
    const int64_t start = step.integers("starts")[i], count = step.integers("counts")[i];
    const int64_t stride = step.integers("steps")[i] == 0 ? 1 : step.integers("steps")[i];
    if (start == 0 && stride == 1 && count == x.shape[axis]) continue;
    const int64_t end = start + stride * count;
    cut.starts.push_back(start);
    cut.ends.push_back(end < 0 ? kBelowAll : end);
    cut.axes.push_back(axis);
    cut.steps.push_back(stride);
  }
  return cut;
}

void slice(StepExport& step) {
  const Value &x = step.in(), &y = step.out();
  const Cut cut = cut_of(step);
  const bool rows = x.batch_axis >= 0 && std::ranges::count(cut.axes, int64_t{x.batch_axis}) > 0;
  if (rows || x.batch_axis == ops::kBatchReduced) step.fix_batch();
  const Shape counts(step.integers("counts"));
  const auto inputs = [&] {
    return Strings{x.name, step.vector(cut.starts), step.vector(cut.ends), step.vector(cut.axes),
                   step.vector(cut.steps)};
  };
  if (counts == y.shape)
    return cut.empty() ? step.result("Identity", {x.name}) : step.result("Slice", inputs());
  const std::string taken = cut.empty() ? x.name : step.node("Slice", inputs());
  step.result("Reshape", {taken, step.reshaping(y.shape, y.batch_axis)});
}

void pad(StepExport& step) {
  const Integers& pairs = step.integers("paddings");
  Integers pads;
  for (const size_t side : {0, 1})
    for (size_t i = side; i < pairs.size(); i += 2) pads.push_back(pairs[i]);
  const auto& mode = step.attribute<std::string>("mode");
  Strings inputs = {step.in().name, step.vector(pads)};
  if (mode == "constant") inputs.push_back(step.number(step.attribute<double>("value")));
  step.result("Pad", inputs, {{"mode", std::string_view(mode)}});
}

void tile(StepExport& step) {
  step.result("Tile", {step.in().name, step.vector(step.integers("multiples"))});
}

void flip(StepExport& step) {
  const Integers& axes = step.integers("axes");
  if (axes.empty()) return step.result("Identity", step.names());
  const Integers last(axes.size(), -1), below(axes.size(), kBelowAll);
  step.result("Slice", {step.in().name, step.vector(last), step.vector(below), step.vector(axes),
                        step.vector(last)});
}

/// Indices are int32 or int64.
std::string indices_of(StepExport& step, const Value& indices) {
  return indices.dtype == DType::kInt32 ? indices.name
                                        : step.cast(indices.name, indices.dtype, DType::kInt64);
}

void gather(StepExport& step) {
  step.result("Gather", {step.in(0).name, indices_of(step, step.in(1))},
              {{"axis", step.attribute<int64_t>("axis")}});
}

/// Which indices of bags are less than the lengths.
std::string in_bags(StepExport& step) {
  const Value &indices = step.in(0), &lengths = step.in(1);
  if (lengths.batch_axis != indices.batch_axis) step.fix_batch();
  std::vector<double> numbers(static_cast<size_t>(indices.shape[indices.shape.rank() - 1]));
  std::iota(numbers.begin(), numbers.end(), 0);
  const std::string ends = step.node(
      "Unsqueeze",
      {step.cast(lengths.name, lengths.dtype, DType::kInt64), step.vector({lengths.shape.rank()})});
  return step.node("Less", {step.numbers(numbers, DType::kInt64), ends});
}

void bag_indices(StepExport& step) {
  const Value& in = step.in(0);
  const std::string none = step.number(-1, DType::kInt64);
  std::string indices = step.cast(in.name, in.dtype, DType::kInt64);
  if (step.has("padding")) {
    const auto padding = static_cast<double>(step.attribute<int64_t>("padding"));
    const std::string padded = step.node("Equal", {indices, step.number(padding, DType::kInt64)});
    indices = step.node("Where", {padded, none, indices});
  }
  if (step.operands() > 1)
    step.result("Where", {in_bags(step), indices, none});
  else
    step.result("Identity", {indices});
}

/// Rows of a table by indices of bags, `neutral` in place of those that do not count.
std::string rows_of_bags(StepExport& step, double neutral) {
  const Value& indices = step.in(1);
  const std::string last = step.vector({-1}), zero = step.number(0, DType::kInt64);
  const std::string places = step.cast(indices.name, indices.dtype, DType::kInt64);
  std::string rows = step.node("Gather", {step.in(0).name, step.node("Max", {places, zero})},
                               {{"axis", int64_t{0}}});
  if (step.operands() > 2)
    rows = step.node("Mul", {rows, step.node("Unsqueeze", {step.in(2).name, last})});
  const std::string counted = step.node("GreaterOrEqual", {places, zero});
  return step.node("Where", {step.node("Unsqueeze", {counted, last}), rows, step.number(neutral)});
}

void bag_sum(StepExport& step) {
  step.result("ReduceSum", {rows_of_bags(step, 0), step.vector({-2})}, {{"keepdims", int64_t{0}}});
}

/// Only an empty bag has no index, whose largest element is below all numbers.
void bag_max(StepExport& step) {
  const std::string rows = rows_of_bags(step, -std::numeric_limits<double>::infinity());
  const std::string largest =
      step.node("ReduceMax", {rows}, {{"axes", Integers{-2}}, {"keepdims", int64_t{0}}});
  const std::string last =
      step.node("ReduceMax", {step.in(1).name}, {{"axes", Integers{-1}}, {"keepdims", int64_t{1}}});
  const std::string empty = step.node("Less", {last, step.number(0, step.in(1).dtype)});
  step.result("Where", {empty, step.number(0), largest});
}

/// `axes` moved to the front, in order, and the inverse of that.
std::pair<Integers, Integers> axes_first(int rank, int first, int count) {
  Integers perm(static_cast<size_t>(rank)), inverse(static_cast<size_t>(rank));
  std::iota(perm.begin(), perm.end(), 0);
  std::rotate(perm.begin(), perm.begin() + first, perm.begin() + first + count);
  for (size_t i = 0; i < perm.size(); ++i)
    inverse[static_cast<size_t>(perm[i])] = static_cast<int64_t>(i);
  return {perm, inverse};
}

/// An index for each element of the result.
void take_along_axis(StepExport& step) {
  if (mixes_rows(step)) step.fix_batch();
  step.result("GatherElements", {step.in(0).name, indices_of(step, step.in(1))},
              {{"axis", step.attribute<int64_t>("axis")}});
}

/// An index for each element that is written.
void write_along_axis(StepExport& step) {
  if (mixes_rows(step)) step.fix_batch();
  step.result("ScatterElements", {step.in(0).name, indices_of(step, step.in(1)), step.in(2).name},
              {{"axis", step.attribute<int64_t>("axis")}, {"reduction", step.type()}});
}

/// ScatterND writes or adds slices along the first axes.
void scatter(StepExport& step) {
  const Value &x = step.in(0), &indices = step.in(1), &updates = step.in(2);
  const auto axis = static_cast<int>(step.attribute<int64_t>("axis"));
  const std::string places = step.node(
      "Unsqueeze",
      {step.cast(indices.name, indices.dtype, DType::kInt64), step.vector({indices.shape.rank()})});
  const NodeAttributes reduction = {{"reduction", step.type()}};
  if (axis == 0) return step.result("ScatterND", {x.name, places, updates.name}, reduction);
  const auto [perm, inverse] = axes_first(x.shape.rank(), axis, 1);
  const Integers first = axes_first(updates.shape.rank(), axis, indices.shape.rank()).first;
  const std::string moved = step.node("ScatterND",
                                      {step.node("Transpose", {x.name}, {{"perm", perm}}), places,
                                       step.node("Transpose", {updates.name}, {{"perm", first}})},
                                      reduction);
  step.result("Transpose", {moved}, {{"perm", inverse}});
}

/// Bools as integers first: runtimes know no OneHot of bools.
void one_hot(StepExport& step) {
  const Value& indices = step.in();
  const bool is_bool = step.out().dtype == DType::kBool;
  const std::string both =
      step.numbers({step.attribute<double>("off_value"), step.attribute<double>("on_value")},
                   is_bool ? DType::kInt64 : step.out().dtype);
  const Strings inputs = {
      step.cast(indices.name, indices.dtype, DType::kInt64),
      step.number(static_cast<double>(step.attribute<int64_t>("depth")), DType::kInt64), both};
  const NodeAttributes last = {{"axis", int64_t{-1}}};
  if (!is_bool) return step.result("OneHot", inputs, last);
  step.result("Cast", {step.node("OneHot", inputs, last)},
              {{"to", int64_t{data_type_of(DType::kBool)}}});
}

/// Runtimes have no integers other than int64 here.
void triangle(StepExport& step) {
  const Value& x = step.in();
  const DType dtype = is_float(x.dtype) ? x.dtype : DType::kInt64;
  const auto diagonal = static_cast<double>(step.attribute<int64_t>("diagonal"));
  const std::string made =
      step.node("Trilu", {step.cast(x.name, x.dtype, dtype), step.number(diagonal, DType::kInt64)},
                {{"upper", int64_t{step.type() == "upper"}}});
  step.result("Identity", {step.cast(made, dtype, x.dtype)});
}

void top_k(StepExport& step) {
  step.results("TopK", {step.in().name, step.vector({step.attribute<int64_t>("k")})}, 2,
               {{"axis", step.attribute<int64_t>("axis")}});
}

void arg_extreme(StepExport& step) {
  step.result(step.type(), step.names(),
              {{"axis", step.attribute<int64_t>("axis")}, {"keepdims", int64_t{0}}});
}

/// An extent of 1 keeps that of the operand: the batch stays what it is.
void broadcast_to(StepExport& step) {
  const Value &x = step.in(), &y = step.out();
  if (x.batch_axis == ops::kBatchReduced) step.fix_batch();
  Integers extents = y.shape.extents();
  if (y.batch_axis >= 0) extents[static_cast<size_t>(y.batch_axis)] = 1;
  step.result("Expand", {x.name, step.vector(extents)});
}

void fill(StepExport& step) {
  const std::string value =
      step.number(step.attribute<double>("value"), step.attribute<DType>("dtype"));
  if (step.out().shape.rank() == 0) return step.result("Identity", {value});
  step.result("Expand", {value, step.vector(step.out().shape.extents())});
}

void evenly_spaced(StepExport& step) {
  const auto first = step.attribute<double>("first"), last = step.attribute<double>("last");
  const auto count = step.attribute<int64_t>("count");
  std::vector<double> values(static_cast<size_t>(count), last);
  for (int64_t i = 0; i + 1 < count; ++i)
    values[static_cast<size_t>(i)] =
        first + static_cast<double>(i) * (last - first) / static_cast<double>(count - 1);
  step.result("Identity", {step.numbers(values, step.attribute<DType>("dtype"))});
}

/// Windows of unfold and fold along height, axis 0, or width, axis 1, of images.
struct Places {
  int64_t size, stride, dilation, before, count;  // `before`: padding; `count`: of windows

  Places(const StepExport& step, const Shape& images, size_t axis)
      : size(step.integers("kernel_size")[axis]),
        stride(step.integers("strides")[axis]),
        dilation(step.integers("dilation_rate")[axis]),
        before(step.integers("padding")[2 * axis]),
        count((padded(step, images, axis) - reach()) / stride + 1) {}

  /// Elements that a window spans.
  int64_t reach() const { return dilation * (size - 1) + 1; }
  static int64_t padded(const StepExport& step, const Shape& images, size_t axis) {
    const Integers& padding = step.integers("padding");
    return images[2 + static_cast<int>(axis)] + padding[2 * axis] + padding[2 * axis + 1];
  }
  /// Elements of the padded images behind the last window.
  int64_t left_over(const StepExport& step, const Shape& images, size_t axis) const {
    return padded(step, images, axis) - ((count - 1) * stride + reach());
  }
};

/// Gathers the places of windows along an axis: [..., H, ...] becomes [..., kernel, windows, ...].
std::string gather_windows(StepExport& step, const std::string& images, const Places& places,
                           int64_t axis) {
  Array indices(DType::kInt64, Shape{places.size, places.count});
  for (int64_t place = 0; place < places.size; ++place)
    for (int64_t window = 0; window < places.count; ++window)
      indices.as<int64_t>()[static_cast<size_t>(place * places.count + window)] =
          window * places.stride + place * places.dilation;
  return step.node("Gather", {images, step.constant(indices.view())}, {{"axis", axis}});
}

/// ONNX has no operator for it. Elements by index, since products with a kernel of zeros and ones
/// would make NaN of infinite ones.
void unfold(StepExport& step) {
  const Value &x = step.in(), &y = step.out();
  needs_batch_axis(step, x, y.batch_axis);
  std::string images = x.name;
  const Integers pads = step.pads();
  if (std::ranges::count(pads, 0) < std::ssize(pads))
    images =
        step.node("Pad", {images, step.vector({0, 0, pads[0], pads[1], 0, 0, pads[2], pads[3]})},
                  {{"mode", "constant"}});
  const std::string rows = gather_windows(step, images, Places(step, x.shape, 0), 2);
  const std::string columns = gather_windows(step, rows, Places(step, x.shape, 1), 4);
  const std::string by_window =
      step.node("Transpose", {columns}, {{"perm", Integers{0, 1, 2, 4, 3, 5}}});
  step.result("Reshape", {by_window, step.reshaping(y.shape, y.batch_axis)});
}

/// Col2Im is of opset 18. Here a transposed convolution of each channel adds up the places of
/// windows, which are channels of its input: its kernel has a 1 at the place of each.
void fold(StepExport& step) {
  const Value &x = step.in(), &y = step.out();
  needs_batch_axis(step, x, y.batch_axis);
  const Places rows(step, y.shape, 0), columns(step, y.shape, 1);
  const int64_t places = rows.size * columns.size;
  Array kernel(x.dtype, Shape{places, 1, rows.size, columns.size});
  visit_float(x.dtype, [&]<typename T>(T) {
    for (int64_t place = 0; place < places; ++place)
      kernel.as<T>()[static_cast<size_t>(place * places + place)] = 1;
  });
  const std::string windows = step.reshape(
      x.name, {y.shape[0] * y.shape[1], places, rows.count, columns.count}, y.batch_axis);
  const std::string images = step.node(
      "ConvTranspose", {windows, step.constant(kernel.view())},
      {{"kernel_shape", step.integers("kernel_size")},
       {"strides", step.integers("strides")},
       {"pads", step.pads()},
       {"dilations", step.integers("dilation_rate")},
       {"output_padding",
        Integers{rows.left_over(step, y.shape, 0), columns.left_over(step, y.shape, 1)}}});
  step.result("Reshape", {images, step.reshaping(y.shape, y.batch_axis)});
}

/// By sizes, whose first are those of the images, unless a factor says where pixels are.
void resize(StepExport& step) {
  const Value& x = step.in();
  const auto& mode = step.attribute<std::string>("mode");
  const auto scale = step.attribute<double>("scale");
  Strings inputs = {x.name, ""};
  if (scale != 0) {
    inputs.push_back(step.numbers({1, 1, scale, scale}, DType::kFloat32));
  } else {
    const std::string shape = step.node("Shape", {x.name}, {{"end", int64_t{2}}});
    inputs.emplace_back("");
    inputs.push_back(
        step.node("Concat", {shape, step.vector(step.integers("size"))}, {{"axis", int64_t{0}}}));
  }
  const std::string_view named = mode == "bilinear"  ? "linear"
                                 : mode == "bicubic" ? "cubic"
                                                     : std::string_view(mode);
  NodeAttributes attributes = {{"mode", named},
                               {"coordinate_transformation_mode",
                                std::string_view(step.attribute<std::string>("coordinates"))}};
  if (mode == "nearest")
    attributes.push_back(
        {"nearest_mode", std::string_view(step.attribute<std::string>("rounding"))});
  if (mode == "bicubic") {
    attributes.push_back(
        {"cubic_coeff_a", static_cast<float>(step.attribute<double>("cubic_coefficient"))});
    attributes.push_back({"exclude_outside", int64_t{step.attribute<bool>("exclude_outside")}});
  }
  step.result("Resize", inputs, attributes);
}

constexpr ExportRule kShapes[] = {
    {"reshape", reshape},
    {"transpose", transpose},
    {"concat", concat},
    {"stack", stack},
    {"split", split},
    {"slice", slice},
    {"pad", pad},
    {"tile", tile},
    {"flip", flip},
    {"gather", gather},
    {"bag_indices", bag_indices},
    {"bag_sum", bag_sum},
    {"bag_max", bag_max},
    {"scatter_add", scatter, "add"},
    {"scatter_update", scatter, "none"},
    {"take_along_axis", take_along_axis},
    {"put_along_axis", write_along_axis, "none"},
    {"add_along_axis", write_along_axis, "add"},
    {"one_hot", one_hot},
    {"tril", triangle, "lower"},
    {"triu", triangle, "upper"},
    {"top_k", top_k, "", !kBroadcasts, kWidens},
    {"argmax", arg_extreme, "ArgMax"},
    {"argmin", arg_extreme, "ArgMin"},
    {"broadcast_to", broadcast_to},
    {"fill", fill},
    {"evenly_spaced", evenly_spaced},
    {"unfold", unfold},
    {"fold", fold},
    {"resize", resize},
};

}  // namespace

std::span<const ExportRule> shape_rules() { return kShapes; }

}  // namespace flow::onnx
