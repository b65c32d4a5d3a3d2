// Attributes and operands of a node, and the entries that it becomes.
#include "runtime/onnx/node_import.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <utility>

#include "ops/check.h"
#include "runtime/base/convert.h"
#include "runtime/base/display.h"
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

const Array& NodeImport::value(int i) const {
  if (!in(i).value) throw Unsupported(fmt::format("operand {} is known only during a run", i + 1));
  return *in(i).value;
}

bool NodeImport::is_known(int i) const {
  const Tensor& tensor = in(i);
  return tensor.value && (is_integer(tensor.dtype) || tensor.dtype == DType::kBool) &&
         tensor.shape.elements() <= kMostFolded;
}

bool NodeImport::all_known() const {
  for (int i = 0; i < inputs(); ++i)
    if (!has(i) || !is_known(i)) return false;
  return inputs() > 0;
}

Tensor NodeImport::folded(const std::vector<int64_t>& values, Shape shape) const {
  return constant(converted(int64_array(values, std::move(shape)), in(0).dtype));
}

std::optional<std::vector<int64_t>> NodeImport::list(std::string_view name, int operand) {
  if (auto found = integers(name)) return found;
  if (!has(operand)) return {};
  return values_as_int64(operand);
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
                   !is_low_precision(tensor.dtype);
  if (!one) return operand(i);
  const double value = first_of(*tensor.value);
  if (!std::isfinite(value) || std::abs(value) > 1e15) return operand(i);
  return scalar(value, tensor.dtype);
}

Tensor NodeImport::indices(int i, int64_t extent) {
  if (in(i).value) {
    std::vector<int64_t> all = values_as_int64(i);
    bool counts_from_end = false;
    for (int64_t& index : all) {
      if (index < -extent || index >= extent)
        throw Unsupported(fmt::format("an index of {} into {} elements", index, extent));
      counts_from_end |= index < 0;
      if (index < 0) index += extent;
    }
    if (!counts_from_end) return operand(i);
    return materialized(constant(int64_array(all, in(i).shape)), node_.input(i) + "_from_start");
  }
  Tensor given = operand(i);
  if (given.dtype == DType::kUInt8) return given;
  if (given.dtype != DType::kInt32 && given.dtype != DType::kInt64)
    given = call("cast", {given}, {{"dtype", DType::kInt64}});
  const Tensor below = call("less", {given, scalar(0, given.dtype)});
  const Tensor moved = call("add", {given, scalar(static_cast<double>(extent), given.dtype)});
  return call("where", {below, moved, given});
}

Tensor NodeImport::materialized(const Tensor& tensor, const std::string& name) {
  const Array& array = *tensor.value;
  if (array.shape().elements() == 0) throw Unsupported("an empty tensor");
  Tensor made = tensor;
  const bool floats = flow::is_float(array.dtype());
  if (is_uniform(array) && std::isfinite(first_of(array)) && std::abs(first_of(array)) < 1e15) {
    made = fill(first_of(array), array.shape().extents(), array.dtype());
  } else if (const int64_t step = step_of(array); step != 0) {
    const std::vector<int64_t> all = elements_as_int64(array);
    made = range(static_cast<double>(all.front()), static_cast<double>(all.back() + step),
                 static_cast<double>(step), array.dtype());
  } else {
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
  return made;
}

size_t NodeImport::add_entry(std::string_view op, const std::vector<Tensor>& operands,
                             const ops::Attributes& attributes) {
  const std::string& output = node_.output_size() > 0 ? node_.output(0) : node_.op_type();
  JobEntry entry{
      .name = output, .op = ops::find_spec(op), .operands = {}, .attributes = attributes};
  for (const Tensor& operand : operands) entry.operands.push_back(operand.reference);
  state_.job.entries.push_back(std::move(entry));
  return state_.job.entries.size() - 1;
}

std::vector<Tensor> NodeImport::calls(std::string_view op, const std::vector<Tensor>& operands,
                                      const ops::Attributes& attributes, size_t count) {
  const ops::OpSpec& spec = *ops::find_spec(op);
  std::vector<ops::Operand> types;
  for (const Tensor& one : operands)
    if (one.reference.kind != Reference::Kind::kNone)
      types.push_back({one.dtype, one.shape, one.batch_axis});
  ops::Attributes normal = attributes;
  ops::Call call(std::move(types), normal, state_.types);
  const auto refused = [&] {
    if (call.failed()) throw Unsupported(call.refusals().front().text);
  };
  if (spec.normalise) spec.normalise(call, normal);
  refused();
  ops::check_types(spec, call);
  refused();
  spec.infer(call);
  refused();
  const size_t at = add_entry(op, operands, attributes);
  std::vector<Tensor> results;
  for (size_t i = 0; i < call.results().size(); ++i) {
    const ops::Result& result = call.results()[i];
    results.push_back({.dtype = result.dtype,
                       .shape = result.shape,
                       .batch_axis = result.batch_axis,
                       .reference = {.kind = Reference::Kind::kEntry,
                                     .index = at,
                                     .text = count > 1 ? spec.result_name(i) : ""}});
  }
  if (results.size() < count)
    throw Unsupported(fmt::format("{} outputs; `{}` has {}", count, op, results.size()));
  return results;
}

Tensor NodeImport::call(std::string_view op, const std::vector<Tensor>& operands,
                        const ops::Attributes& attributes) {
  return calls(op, operands, attributes, 1)[0];
}

Tensor NodeImport::fill(double value, const std::vector<int64_t>& extents, DType dtype) {
  const size_t at =
      add_entry("constant", {}, {{"value", value}, {"shape", extents}, {"dtype", dtype}});
  return {.dtype = dtype,
          .shape = Shape(extents),
          .reference = {.kind = Reference::Kind::kEntry, .index = at}};
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
  return {.dtype = operands.empty() ? compute_dtype() : operands[0].dtype,
          .shape = std::move(shape),
          .batch_axis = batch_axis,
          .reference = {.kind = Reference::Kind::kEntry, .index = at}};
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

Tensor NodeImport::reshape(const Tensor& x, const std::vector<int64_t>& shape) {
  ops::Attributes attributes = {{"shape", shape}};
  Tensor result = call("reshape", {x}, attributes);
  if (result.batch_axis >= 0) {  // of any batch
    std::vector<int64_t> open = result.shape.extents();
    open[static_cast<size_t>(result.batch_axis)] = -1;
    state_.job.entries.back().attributes.set("shape", std::move(open));
  }
  return result;
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
