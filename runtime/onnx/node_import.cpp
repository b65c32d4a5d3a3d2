// Attributes and operands of a node, and the entries that it becomes.
#include "runtime/onnx/node_import.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstring>
#include <utility>

#include "ops/core/check.h"
#include "runtime/base/display.h"
#include "runtime/base/element_types.h"
#include "runtime/base/text.h"

namespace flow::onnx {
namespace {

/// Integers become floats and integers again: float32 has all of them up to here.
constexpr int64_t kExact = int64_t{1} << 24;

bool is_uniform(const Array& array) {
  const auto bytes = array.bytes();
  const size_t size = size_of(array.dtype());
  if (bytes.empty()) return false;
  for (size_t i = size; i < bytes.size(); i += size)
    if (std::memcmp(bytes.data(), bytes.data() + i, size) != 0) return false;
  return true;
}

using Values = std::vector<int64_t>;

/// The first element.
double first_of(const Array& array) { return converted(array, DType::kFloat64).as<double>()[0]; }

/// Do both have the same arrays, at least one?
bool are_equal(const std::map<std::string, Array>& a, const std::map<std::string, Array>& b) {
  return !a.empty() && std::ranges::equal(a, b, [](const auto& one, const auto& other) {
    return one.first == other.first && one.second.shape() == other.second.shape() &&
           std::ranges::equal(one.second.bytes(), other.second.bytes());
  });
}

/// The distance of integers that are evenly spaced; 0 where they are not.
int64_t step_of(const Array& array) {
  if (array.shape().rank() != 1 || array.shape()[0] < 2 || !is_integer(array.dtype())) return 0;
  const std::vector<int64_t> all = elements_as_int64(array);
  for (const int64_t element : all)
    if (element > kExact || element < -kExact) return 0;
  const int64_t step = all[1] - all[0];
  for (size_t i = 2; i < all.size(); ++i)
    if (all[i] - all[i - 1] != step) return 0;
  return step;
}

std::string number_text(double value, DType dtype) {
  if (dtype == DType::kBool) return value != 0 ? "true" : "false";
  if (!flow::is_float(dtype)) return fmt::format("{}", flow::convert<int64_t>(value));
  return dtype == DType::kFloat64 ? fmt::format("{}", value)
                                  : fmt::format("{}", static_cast<float>(value));
}

}  // namespace

double shortest_double(float value) {
  const std::string text = fmt::format("{}", value);
  double number = value;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

const Tensor& NodeImport::in(int i) const {
  if (!has(i)) throw Unsupported(fmt::format("no operand {}", i + 1));
  return state_.tensors.at(node_.input(i));
}

const pb::AttributeProto* NodeImport::find(std::string_view name,
                                           pb::AttributeProto::AttributeType type) {
  taken_.insert(std::string(name));
  for (const pb::AttributeProto& attribute : node_.attribute()) {
    if (attribute.name() != name) continue;
    if (attribute.type() != type)
      throw Unsupported(fmt::format("attribute {} is not of type {}", name,
                                    pb::AttributeProto::AttributeType_Name(type)));
    return &attribute;
  }
  return nullptr;
}

int64_t NodeImport::integer(std::string_view name, int64_t otherwise) {
  const pb::AttributeProto* found = find(name, pb::AttributeProto::INT);
  return found ? found->i() : otherwise;
}

double NodeImport::number(std::string_view name, double otherwise) {
  const pb::AttributeProto* found = find(name, pb::AttributeProto::FLOAT);
  if (found && !std::isfinite(found->f()))
    throw Unsupported(fmt::format("attribute {} is not finite", escaped(name)));
  return found ? shortest_double(found->f()) : otherwise;
}

std::string NodeImport::text(std::string_view name, std::string_view otherwise) {
  const pb::AttributeProto* found = find(name, pb::AttributeProto::STRING);
  return found ? found->s() : std::string(otherwise);
}

std::optional<std::vector<int64_t>> NodeImport::integers(std::string_view name) {
  const pb::AttributeProto* found = find(name, pb::AttributeProto::INTS);
  if (!found) return {};
  return std::vector<int64_t>(found->ints().begin(), found->ints().end());
}

std::optional<Array> NodeImport::tensor(std::string_view name) {
  const pb::AttributeProto* found = find(name, pb::AttributeProto::TENSOR);
  if (!found) return {};
  return state_.external.read(found->t());
}

void NodeImport::require_all_taken() const {
  for (const pb::AttributeProto& attribute : node_.attribute())
    if (!taken_.contains(attribute.name()))
      throw Unsupported(fmt::format("attribute {} is not supported", escaped(attribute.name())));
}

const Array& NodeImport::followed_value(int i) const {
  if (!in(i).value) throw Unsupported(fmt::format("operand {} is known only during a run", i + 1));
  return *in(i).value;
}

const Array& NodeImport::value(int i) const {
  const Array& array = followed_value(i);
  pin_variables(in(i).follows);
  pin(in(i).elements);
  pin(in(i).sizes);
  return array;
}

Sizes NodeImport::elements(int i) const {
  const Array& array = followed_value(i);
  if (!in(i).elements.empty()) return in(i).elements;
  if (array.shape().elements() > kMostFolded)
    throw Unsupported(fmt::format("operand {} has {} elements; expected at most {}", i + 1,
                                  array.shape().elements(), kMostFolded));
  Sizes sizes = fixed(elements_as_int64(array));
  std::set<std::string> variables = in(i).follows;
  add_variables(variables, in(i).sizes);
  if (!variables.empty())
    for (Size& size : sizes) size = unknown(size.value, variables);
  return sizes;
}

Size NodeImport::unknown(int64_t value, const std::set<std::string>& variables) const {
  Size size{.value = value, .variables = variables};
  for (const std::set<std::string>& changed : state_.probes) {
    const bool same = std::ranges::none_of(
        changed, [&](const std::string& name) { return variables.contains(name); });
    size.probes.push_back(same ? value : kUnknown);
  }
  return size;
}

bool NodeImport::is_known(int i) const {
  const Tensor& tensor = in(i);
  return tensor.value && (is_integer(tensor.dtype) || tensor.dtype == DType::kBool) &&
         tensor.sizes.empty() && tensor.shape.elements() <= kMostFolded;
}

Tensor NodeImport::known(const Sizes& elements, Shape shape, DType dtype) const {
  Tensor made = constant(converted(int64_array(values_of(elements), std::move(shape)), dtype));
  if (are_fixed(elements)) return made;
  if (std::ssize(elements) <= kMostFollowed)
    made.elements = elements;
  else
    add_variables(made.follows, elements);
  return made;
}

std::optional<std::vector<int64_t>> NodeImport::list(std::string_view name, int operand) {
  if (auto found = integers(name)) return found;
  if (!has(operand)) return {};
  return values_as_int64(operand);
}

std::optional<Sizes> NodeImport::sizes(std::string_view name, int operand) {
  if (auto found = integers(name)) return fixed(*found);
  if (!has(operand)) return {};
  return elements(operand);
}

Size NodeImport::broadcast(const Size& a, const Size& b) const {
  if (are_same(a, b)) return a;
  std::set<std::string> variables;
  add_variables(variables, {a, b});
  const int64_t value = std::max(a.value, b.value);
  return variables.empty() ? fixed(value) : unknown(value, variables);
}

std::string NodeImport::text(const Size& size) const {
  if (size.has_text()) return job_text(size);
  pin_variables(size.variables);
  return std::to_string(size.value);
}

std::string NodeImport::part_text(const Size& size) const {
  return size.has_text() ? inner_text(size) : text(size);
}

void NodeImport::add_text(Texts& texts, std::string_view name, const Sizes& sizes) const {
  if (are_fixed(sizes)) return;
  std::vector<std::string> parts;
  for (const Size& size : sizes) parts.push_back(text(size));
  texts.emplace(name, "[" + join(parts, ", ") + "]");
}

int NodeImport::axis(int64_t given, int of_rank) const {
  if (given < -of_rank || given >= of_rank)
    throw Unsupported(fmt::format("no axis {} in a tensor of {} dimensions", given, of_rank));
  return static_cast<int>(given < 0 ? given + of_rank : given);
}

Tensor NodeImport::scalar(double value, DType dtype) {
  return {.dtype = dtype,
          .reference = {.kind = Reference::Kind::kNumber, .text = number_text(value, dtype)}};
}

Tensor NodeImport::scalar(const Size& size, DType dtype) const {
  Tensor made = scalar(static_cast<double>(size.value), dtype);
  if (!size.is_fixed()) made.reference.text = text(size);
  return made;
}

void NodeImport::require_computable(uint64_t bytes) const {
  if (bytes > kMostComputed - state_.computed)
    throw Unsupported(fmt::format("constants computed from others have more than {}",
                                  human_bytes(kMostComputed)));
}

Tensor NodeImport::constant(Array array) const {
  if (!type().empty()) {  // no initializer
    require_computable(array.bytes().size());
    state_.computed += array.bytes().size();
  }
  // A job that computes in float64 does so everywhere.
  const bool wide = array.dtype() == DType::kFloat32 && compute_dtype() == DType::kFloat64;
  auto value =
      std::make_shared<const Array>(wide ? converted(array, DType::kFloat64) : std::move(array));
  return {.dtype = value->dtype(), .shape = value->shape(), .value = value};
}

Tensor NodeImport::operand(int i) {
  const Tensor& tensor = in(i);
  if (is_low_precision(tensor.dtype) && type() != "Cast" && type() != "CastLike")
    throw Unsupported(fmt::format("{} arithmetic is not supported", name_of(tensor.dtype)),
                      "convert the model to float32");
  if (tensor.reference.kind != Reference::Kind::kNone) return tensor;
  return state_.tensors[node_.input(i)] = materialized(tensor, node_.input(i));
}

Tensor NodeImport::operand_or_number(int i, const Tensor& other) {
  const Tensor& tensor = in(i);
  const bool one = tensor.value && tensor.value->shape().elements() == 1 &&
                   tensor.shape.rank() <= other.shape.rank() && tensor.dtype != DType::kBool &&
                   !is_low_precision(tensor.dtype) && tensor.sizes.empty() &&
                   tensor.follows.empty();
  if (!one) return operand(i);
  if (!tensor.elements.empty())
    return tensor.elements[0].has_text() ? scalar(tensor.elements[0], tensor.dtype) : operand(i);
  const double value = first_of(*tensor.value);
  if (!std::isfinite(value) || std::abs(value) > 1e15) return operand(i);
  return scalar(value, tensor.dtype);
}

Tensor NodeImport::indices(int i, const Size& extent) {
  if (in(i).value && in(i).sizes.empty()) {
    bool counts_from_end = false;
    Values values = elements_as_int64(*in(i).value);
    for (int64_t& index : values) {
      if (index < -extent.value || index >= extent.value)
        throw Unsupported(fmt::format("an index of {} into {} elements", index, extent.value));
      counts_from_end |= index < 0;
      if (index < 0) index += extent.value;
    }
    if (!counts_from_end && !in(i).is_followed()) return operand(i);
    if (!is_known(i) || (extent.is_fixed() && !in(i).is_followed())) {
      pin({extent});
      value(i);  // is pinned
      return materialized(constant(int64_array(values, in(i).shape)),
                          node_.input(i) + "_from_start");
    }
    Sizes all = elements(i);
    for (Size& index : all) {
      if (!index.is_fixed() && index.least < 0)
        pin_variables(index.variables);  // its sign may change
      if (index.value < 0) index = computed("Add", index, extent).value_or(index);
    }
    if (!counts_from_end) return operand(i);
    return materialized(known(all, in(i).shape, DType::kInt64), node_.input(i) + "_from_start");
  }
  Tensor given = operand(i);
  if (given.dtype == DType::kUInt8) return given;
  if (given.dtype != DType::kInt32 && given.dtype != DType::kInt64)
    given = call("cast", {given}, {{"dtype", DType::kInt64}});
  const Tensor below = call("less", {given, scalar(0, given.dtype)});
  const Tensor moved = call("add", {given, scalar(extent, given.dtype)});
  return call("where", {below, moved, given});
}

Tensor NodeImport::materialized_elements(const Tensor& tensor) {
  const Sizes& all = tensor.elements;
  if (all.size() == 1) {
    Tensor one = fill(static_cast<double>(all[0].value), tensor.all_sizes(), tensor.dtype);
    write("value", all[0]);
    return one;
  }
  std::vector<Tensor> parts;
  for (const Size& size : all) {
    parts.push_back(fill(static_cast<double>(size.value), {fixed(1)}, tensor.dtype));
    write("value", size);
  }
  const Tensor joined = call("concat", parts, {{"axis", int64_t{0}}});
  return tensor.shape.rank() == 1 ? joined : reshape(joined, tensor.all_sizes());
}

Tensor NodeImport::materialized(const Tensor& tensor, const std::string& name) {
  const Array& array = *tensor.value;
  if (array.shape().elements() == 0) throw Unsupported("an empty tensor");
  Tensor made = tensor;
  pin_variables(tensor.follows);
  pin(tensor.sizes);
  const bool floats = flow::is_float(array.dtype()), has_elements = !tensor.elements.empty();
  if (has_elements && tensor.dtype != DType::kBool) {
    made = materialized_elements(tensor);
  } else if (is_uniform(array) && std::isfinite(first_of(array)) &&
             std::abs(first_of(array)) < 1e15) {
    pin(tensor.elements);
    made = fill(first_of(array), fixed(array.shape().extents()), array.dtype());
  } else if (const int64_t step = step_of(array); step != 0) {
    const std::vector<int64_t> all = elements_as_int64(array);
    made = range(static_cast<double>(all.front()), static_cast<double>(all.back() + step),
                 static_cast<double>(step), array.dtype());
  } else {
    pin(tensor.elements);
    if (!floats && array.dtype() != DType::kBool)
      for (const int64_t element : elements_as_int64(array))
        if (element > kExact || element < -kExact)
          throw Unsupported("integers above 2^24 in a constant");
    const bool is_computed = array.dtype() == compute_dtype();
    const size_t at =
        add_entry("variable", {}, {{"shape", array.shape().extents()}, {"initializer", "zeros"}});
    JobEntry& entry = state_.job.entries[at];
    entry.name = name;
    entry.variables.emplace("", converted(array, compute_dtype()));
    made.dtype = compute_dtype();
    made.reference = {.kind = Reference::Kind::kEntry, .index = at};
    if (!is_computed) made = call("cast", {made}, {{"dtype", array.dtype()}});
  }
  state_.job.entries.back().name = name;
  made.value = tensor.value;
  made.elements = tensor.elements;
  made.follows = tensor.follows;
  return made;
}

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

/// The types of results. Unsupported where the op refuses its operands.
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

/// What the shapes of operands are at a probe.
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

/// Does a size differ at probes of a variable? It does where nothing is known of it. Probes of
/// several variables at once count where there are no others.
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

/// Is `known` this size at all probes of it, and at one of another value? A size that may follow
/// from more variables is not the same.
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
        there.clear();  // such sizes are an error in a job, too
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
  if (results.size() < count)
    throw Unsupported(fmt::format("{} outputs; `{}` has {}", count, op, results.size()));
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

/// Layers whose result has the axes of their operand. The last one may be another; that of the
/// operand then has to be as long as the weights.
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
    throw Unsupported(fmt::format("a result of shape {}", shape.str()));
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
    throw Unsupported(fmt::format("a range from {} to {} by {}", start, stop, step));
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
    made.sizes = {*without_text({start, stop, step}, [](const Values& values) {
      const double count =
          std::ceil(static_cast<double>(values[1] - values[0]) / static_cast<double>(values[2]));
      return std::optional(static_cast<int64_t>(count));
    })};
  return made;
}

namespace {

/// Are all sizes but those of one axis the same in both, in any order? Then a -1 stands for it.
bool have_same_others(Sizes asked, size_t axis, Sizes x, size_t x_axis) {
  asked.erase(asked.begin() + static_cast<std::ptrdiff_t>(axis));
  x.erase(x.begin() + static_cast<std::ptrdiff_t>(x_axis));
  const Size rest = quotient(x, asked);
  return rest.is_fixed() && rest.value == 1 && product(x).value == product(asked).value;
}

/// The axis of a shape that is the batch, where the others are those of x.
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
  if (!has_open_sizes() && result.batch_axis >= 0) {  // of any batch
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

const ImportRule* find_import(std::string_view type) {
  static const auto kRules = [] {
    std::map<std::string_view, const ImportRule*> rules;
    for (const auto list :
         {arithmetic_imports(), attention_imports(), einsum_imports(), image_imports(),
          index_imports(), layer_imports(), loss_imports(), normalization_imports(),
          random_imports(), recurrent_imports(), shape_imports()})
      for (const ImportRule& rule : list) rules.emplace(rule.type, &rule);
    return rules;
  }();
  const auto found = kRules.find(type);
  return found == kRules.end() ? nullptr : found->second;
}

}  // namespace flow::onnx
