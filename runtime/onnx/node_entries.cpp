// Adds the entries that a node becomes, and computes the sizes of their results.
#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "ops/core/check.h"
#include "runtime/onnx/node_import.h"

namespace flow::onnx {
namespace {

/// Returns true if both contain the same arrays and are not empty.
bool are_equal(const std::map<std::string, Array>& a, const std::map<std::string, Array>& b) {
  return !a.empty() && std::ranges::equal(a, b, [](const auto& one, const auto& other) {
    return one.first == other.first && one.second.shape() == other.second.shape() &&
           std::ranges::equal(one.second.bytes(), other.second.bytes());
  });
}

}  // namespace

size_t NodeImport::add_entry(std::string_view op, const std::vector<Tensor>& operands,
                             const ops::Attributes& attributes, const Texts& texts) {
  const std::string& output = node_.output_size() > 0 ? node_.output(0) : node_.op_type();
  JobEntry entry{
      .name = output, .op = ops::find_spec(op), .operands = {}, .attributes = attributes};
  entry.texts = texts;
  for (const Tensor& operand : operands) entry.operands.push_back(operand.reference);
  state_.job.entries.push_back(std::move(entry));
  return state_.job.entries.size() - 1;
}

namespace {

/// Returns the types of the results. Throws Unsupported if the op rejects its operands.
std::vector<ops::Result> inferred(const ops::OpSpec& spec, std::vector<ops::Operand> types,
                                  ops::Attributes attributes, const ops::JobTypes& job) {
  ops::Call call(std::move(types), attributes, job);
  const auto refused = [&] {
    if (call.failed()) throw Unsupported(call.refusals().front().text);
  };
  if (spec.normalize) spec.normalize(call, attributes);
  refused();
  ops::check_types(spec, call);
  refused();
  spec.infer(call);
  refused();
  return call.results();
}

std::vector<ops::Operand> types_of(const std::vector<Tensor>& operands,
                                   const std::vector<Shape>& shapes) {
  std::vector<ops::Operand> types;
  for (size_t i = 0; i < operands.size(); ++i)
    if (operands[i].reference.kind != Reference::Kind::kNone)
      types.push_back({operands[i].dtype, shapes[i], operands[i].batch_axis});
  return types;
}

enum class Probe { kSame, kUnknown, kOther };

/// Sets `shapes` to the shapes of the operands at a probe.
Probe shapes_at(const std::vector<Tensor>& operands, size_t probe, std::vector<Shape>& shapes) {
  Probe found = Probe::kSame;
  for (size_t i = 0; i < operands.size(); ++i)
    for (int axis = 0; axis < shapes[i].rank(); ++axis) {
      const int64_t extent = at_probe(operands[i].size(axis), probe);
      if (extent == kUnknown || extent < 1) return Probe::kUnknown;
      if (extent != operands[i].shape[axis]) found = Probe::kOther;
      shapes[i][axis] = extent;
    }
  return found;
}

/// Returns true if a size changes with a variable. If the probes do not determine this, it counts
/// as changing. Probes that change several variables are used only if there are no other probes.
bool depends_on(const Size& size, const std::string& variable,
                const std::vector<std::set<std::string>>& probes) {
  for (const bool alone : {true, false}) {
    bool any = false, differs = false;
    for (size_t i = 0; i < size.probes.size(); ++i) {
      if (!probes[i].contains(variable) || (probes[i].size() == 1) != alone) continue;
      any |= size.probes[i] != kUnknown;
      differs |= size.probes[i] != kUnknown && size.probes[i] != size.value;
    }
    if (any) return differs;
  }
  return true;
}

/// Returns true if `known` has the same value as `size` at all probes where `size` is known, and at
/// least one of them has another value than the import. Returns false if `size` may depend on
/// variables that `known` does not.
bool agrees(const Size& size, const Size& known) {
  bool any = false;
  if (!std::ranges::includes(known.variables, size.variables)) return false;
  for (size_t i = 0; i < size.probes.size(); ++i) {
    if (size.probes[i] == kUnknown) continue;
    if (at_probe(known, i) != size.probes[i]) return false;
    any |= size.probes[i] != size.value;
  }
  return any && known.value == size.value && !known.is_fixed() && known.has_text();
}

}  // namespace

void NodeImport::follow(const ops::OpSpec& spec, const std::vector<Tensor>& operands,
                        const ops::Attributes& attributes, std::vector<Tensor>& results) const {
  Sizes all;
  std::vector<Shape> shapes;
  for (const Tensor& operand : operands) {
    all.insert(all.end(), operand.sizes.begin(), operand.sizes.end());
    shapes.push_back(operand.shape);
  }
  std::set<std::string> variables;
  add_variables(variables, all);
  if (variables.empty()) return;
  for (Tensor& result : results) result.sizes = fixed(result.shape.extents());
  for (size_t probe = 0; probe < state_.probes.size(); ++probe) {
    const Probe found = shapes_at(operands, probe, shapes);
    std::vector<ops::Result> there;
    ops::JobTypes types = state_.types;
    types.batch = at_probe(state_.batch, probe);
    if (found == Probe::kOther && types.batch != kUnknown) try {
        there = inferred(spec, types_of(operands, shapes), attributes, types);
      } catch (const Unsupported&) {
        there.clear();  // These sizes are also an error in a job.
      }
    for (size_t i = 0; i < results.size(); ++i)
      for (int axis = 0; axis < results[i].shape.rank(); ++axis) {
        const bool known = i < there.size() && there[i].shape.rank() == results[i].shape.rank();
        results[i].sizes[static_cast<size_t>(axis)].probes.push_back(found == Probe::kSame
                                                                         ? results[i].shape[axis]
                                                                     : known ? there[i].shape[axis]
                                                                             : kUnknown);
      }
  }
  for (Tensor& result : results)
    for (Size& size : result.sizes) {
      for (const std::string& variable : variables)
        if (depends_on(size, variable, state_.probes)) size.variables.insert(variable);
      if (size.is_fixed()) {
        size = fixed(size.value);
        continue;
      }
      size.least = 1;
      const auto same =
          std::ranges::find_if(all, [&](const Size& known) { return agrees(size, known); });
      if (same != all.end()) size = *same;
    }
}

std::vector<Tensor> NodeImport::calls(std::string_view op, const std::vector<Tensor>& operands,
                                      const ops::Attributes& attributes, size_t count,
                                      const Texts& texts) {
  const ops::OpSpec& spec = *ops::find_spec(op);
  std::vector<Shape> shapes;
  for (const Tensor& operand : operands) shapes.push_back(operand.shape);
  const auto types = inferred(spec, types_of(operands, shapes), attributes, state_.types);
  const size_t at = add_entry(op, operands, attributes, texts);
  std::vector<Tensor> results;
  for (size_t i = 0; i < types.size(); ++i)
    results.push_back({.dtype = types[i].dtype,
                       .shape = types[i].shape,
                       .batch_axis = types[i].batch_axis,
                       .reference = {.kind = Reference::Kind::kEntry,
                                     .index = at,
                                     .text = count > 1 ? spec.result_name(i) : ""}});
  if (results.size() < count) refuse("{} outputs; `{}` has {}", count, op, results.size());
  follow(spec, operands, attributes, results);
  return results;
}

Tensor NodeImport::call(std::string_view op, const std::vector<Tensor>& operands,
                        const ops::Attributes& attributes, const Texts& texts) {
  return calls(op, operands, attributes, 1, texts)[0];
}

Tensor NodeImport::fill(double value, const Sizes& extents, DType dtype) {
  Texts texts;
  add_text(texts, "shape", extents);
  const std::vector<int64_t> values = values_of(extents);
  const size_t at =
      add_entry("constant", {}, {{"value", value}, {"shape", values}, {"dtype", dtype}}, texts);
  Tensor made{.dtype = dtype,
              .shape = Shape(values),
              .reference = {.kind = Reference::Kind::kEntry, .index = at}};
  if (!are_fixed(extents)) made.sizes = extents;
  return made;
}

namespace {

/// The layers whose result has the axes of their operand. The last axis may change; that of the
/// operand then has to match the weights.
constexpr std::array kKeepSizes = {"group_norm",
                                   "rms_norm",
                                   "dense",
                                   "layer_norm",
                                   "batch_normalization",
                                   "instance_norm",
                                   "local_response_norm",
                                   "embedding",
                                   "prelu",
                                   "scatter_nd"};

}  // namespace

Sizes NodeImport::sizes_of_layer(std::string_view op, const std::vector<Tensor>& operands,
                                 const Shape& shape) const {
  std::set<std::string> variables;
  for (const Tensor& operand : operands) add_variables(variables, operand.sizes);
  if (variables.empty()) return {};
  Sizes sizes = fixed(shape.extents());
  const bool keeps = std::ranges::find(kKeepSizes, op) != kKeepSizes.end();
  for (int axis = 0; axis < shape.rank(); ++axis) {
    Size& size = sizes[static_cast<size_t>(axis)];
    const bool same =
        keeps && axis < operands[0].shape.rank() && operands[0].shape[axis] == size.value;
    if (same)
      size = operands[0].size(axis);
    else if (!keeps)
      size = unknown(size.value, variables);
  }
  return sizes;
}

Tensor NodeImport::layer(std::string_view op, const std::vector<Tensor>& operands,
                         const ops::Attributes& attributes, Shape shape, int batch_axis,
                         std::map<std::string, Array> weights, const std::vector<int>& weights_of) {
  if (std::ranges::any_of(shape, [](int64_t extent) { return extent < 1; }) ||
      !shape.checked_elements())
    refuse("a result of shape {}", shape.str());
  const size_t at = add_entry(op, operands, attributes);
  JobEntry& entry = state_.job.entries[at];
  for (auto& [name, array] : weights) array = converted(array, compute_dtype());
  std::vector<std::string> key = {std::string(op)};
  for (const int i : weights_of) key.push_back(has(i) ? node_.input(i) : "");
  const size_t first = state_.layers.try_emplace(key, at).first->second;
  if (first != at && are_equal(state_.job.entries[first].variables, weights))
    entry.shares = first;
  else
    entry.variables = std::move(weights);
  Tensor made{.dtype = operands.empty() ? compute_dtype() : operands[0].dtype,
              .shape = std::move(shape),
              .batch_axis = batch_axis,
              .reference = {.kind = Reference::Kind::kEntry, .index = at}};
  made.sizes = sizes_of_layer(op, operands, made.shape);
  return made;
}

Tensor NodeImport::range(double start, double stop, double step, DType dtype) {
  const double count = std::ceil((stop - start) / step);
  if (!(count >= 1 && count <= static_cast<double>(ops::kMaxSize)))
    refuse("a range from {} to {} by {}", start, stop, step);
  Tensor result =
      layer("range", {}, {{"start", start}, {"stop", stop}, {"step", step}, {"dtype", dtype}},
            Shape{static_cast<int64_t>(count)}, ops::kNoBatch);
  result.dtype = dtype;
  return result;
}

void NodeImport::write(std::string_view attribute, const Size& size) {
  if (!size.is_fixed()) state_.job.entries.back().texts.emplace(attribute, text(size));
}

Tensor NodeImport::range(const Size& start, const Size& stop, const Size& step, DType dtype) {
  Tensor made = range(static_cast<double>(start.value), static_cast<double>(stop.value),
                      static_cast<double>(step.value), dtype);
  if (are_fixed({start, stop, step})) return made;
  write("start", start);
  write("stop", stop);
  write("step", step);
  const auto length = computed("Sub", stop, start);
  if (length && step.is_fixed() && step.value == 1)
    made.sizes = {*length};
  else
    made.sizes = {*without_text({start, stop, step}, [](const Integers& values) {
      const double count =
          std::ceil(static_cast<double>(values[1] - values[0]) / static_cast<double>(values[2]));
      return std::optional(static_cast<int64_t>(count));
    })};
  return made;
}

namespace {

/// Returns true if both have the same sizes in any order, except for one axis of each. A -1 can
/// then stand for that axis.
bool have_same_others(Sizes asked, size_t axis, Sizes x, size_t x_axis) {
  asked.erase(asked.begin() + static_cast<std::ptrdiff_t>(axis));
  x.erase(x.begin() + static_cast<std::ptrdiff_t>(x_axis));
  const Size rest = quotient(x, asked);
  return rest.is_fixed() && rest.value == 1 && product(x).value == product(asked).value;
}

/// Returns the axis of a shape that is the batch, if its other axes match those of x.
std::optional<size_t> batch_axis_in(const Tensor& x, const Sizes& shape) {
  if (x.batch_axis < 0 || x.size(x.batch_axis).is_fixed()) return {};
  for (size_t axis = 0; axis < shape.size(); ++axis)
    if (are_same(shape[axis], x.size(x.batch_axis)) &&
        have_same_others(shape, axis, x.all_sizes(), static_cast<size_t>(x.batch_axis)))
      return axis;
  return {};
}

}  // namespace

Tensor NodeImport::reshape(const Tensor& x, const Sizes& asked) {
  Sizes shape = asked, written = asked;
  const auto open = std::ranges::find_if(
      asked, [](const Size& size) { return size.is_fixed() && size.value == -1; });
  const bool has_open = open != asked.end();
  Tensor result = call("reshape", {x}, {{"shape", values_of(asked)}});
  if (has_open) {
    Sizes others = asked;
    others.erase(others.begin() + (open - asked.begin()));
    shape[static_cast<size_t>(open - asked.begin())] = quotient(x.all_sizes(), others);
  }
  for (int axis = 0; axis < result.shape.rank(); ++axis)
    shape[static_cast<size_t>(axis)].value = result.shape[axis];
  const auto unwritten = std::ranges::find_if_not(asked, &Size::has_text);
  if (!has_open_sizes() && result.batch_axis >= 0) {  // the batch may have any size
    written = fixed(result.shape.extents());
    written[static_cast<size_t>(result.batch_axis)] = fixed(-1);
  } else if (const auto axis = batch_axis_in(x, shape)) {
    written = shape;
    written[*axis] = fixed(-1);
  } else if (!has_open && unwritten != asked.end()) {
    written[static_cast<size_t>(unwritten - asked.begin())] = fixed(-1);
  }
  JobEntry& entry = state_.job.entries.back();
  entry.attributes.set("shape", values_of(written));
  add_text(entry.texts, "shape", written);
  result.sizes = are_fixed(shape) ? Sizes() : shape;
  return result;
}

Tensor NodeImport::tile(const Tensor& x, const Sizes& copies) {
  const bool is_same = std::ranges::all_of(
      copies, [](const Size& size) { return size.is_fixed() && size.value == 1; });
  if (is_same && std::ssize(copies) == x.shape.rank()) return x;
  Texts texts;
  add_text(texts, "multiples", copies);
  Tensor made = call("tile", {x}, {{"multiples", values_of(copies)}}, texts);
  made.sizes.clear();
  for (int axis = 0; axis < x.shape.rank(); ++axis)
    made.sizes.push_back(product({x.size(axis), copies[static_cast<size_t>(axis)]}));
  if (are_fixed(made.sizes)) made.sizes.clear();
  return made;
}

Tensor NodeImport::with_last_at(const Tensor& x, int axis) {
  const int last = x.shape.rank() - 1;
  if (axis == last) return x;
  std::vector<int64_t> perm;
  for (int64_t i = 0; i < last; ++i) perm.push_back(i);
  perm.insert(perm.begin() + axis, last);
  return call("transpose", {x}, {{"perm", perm}});
}

}  // namespace flow::onnx
