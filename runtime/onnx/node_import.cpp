// Reads the attributes and operands of a node.
#include "runtime/onnx/node_import.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <utility>

#include "runtime/base/display.h"
#include "runtime/base/element_types.h"
#include "runtime/base/text.h"

namespace flow::onnx {
namespace {

/// The largest integers that are converted to floats and back. float32 represents all integers up
/// to this one.
constexpr int64_t kExact = int64_t{1} << 24;

bool is_uniform(const Array& array) {
  const auto bytes = array.bytes();
  const size_t size = size_of(array.dtype());
  if (bytes.empty()) return false;
  for (size_t i = size; i < bytes.size(); i += size)
    if (std::memcmp(bytes.data(), bytes.data() + i, size) != 0) return false;
  return true;
}

/// Returns the first element.
double first_of(const Array& array) { return converted(array, DType::kFloat64).as<double>()[0]; }

/// Returns the distance of evenly spaced integers, or 0 if they are not evenly spaced.
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
  if (!has(i)) refuse("no operand {}", i + 1);
  return state_.tensors.at(node_.input(i));
}

const pb::AttributeProto* NodeImport::find(std::string_view name,
                                           pb::AttributeProto::AttributeType type) {
  taken_.insert(std::string(name));
  for (const pb::AttributeProto& attribute : node_.attribute()) {
    if (attribute.name() != name) continue;
    if (attribute.type() != type)
      refuse("attribute {} is not of type {}", name, pb::AttributeProto::AttributeType_Name(type));
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
  if (found && !std::isfinite(found->f())) refuse("attribute {} is not finite", escaped(name));
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
      refuse("attribute {} is not supported", escaped(attribute.name()));
}

const Array& NodeImport::followed_value(int i) const {
  if (!in(i).value) refuse("operand {} is known only during a run", i + 1);
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
    refuse("operand {} has {} elements; expected at most {}", i + 1, array.shape().elements(),
           kMostFolded);
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
    refuse("no axis {} in a tensor of {} dimensions", given, of_rank);
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
    refuse("constants computed from others have more than {}", human_bytes(kMostComputed));
}

Tensor NodeImport::constant(Array array) const {
  if (!type().empty()) {  // The array is not an initializer.
    require_computable(array.bytes().size());
    state_.computed += array.bytes().size();
  }
  // If a job computes in float64, all of its constants do, too.
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
    Integers values = elements_as_int64(*in(i).value);
    for (int64_t& index : values) {
      if (index < -extent.value || index >= extent.value)
        refuse("an index of {} into {} elements", index, extent.value);
      counts_from_end |= index < 0;
      if (index < 0) index += extent.value;
    }
    if (!counts_from_end && !in(i).is_followed()) return operand(i);
    if (!is_known(i) || (extent.is_fixed() && !in(i).is_followed())) {
      pin({extent});
      value(i);  // pins the value
      return materialized(constant(int64_array(values, in(i).shape)),
                          node_.input(i) + "_from_start");
    }
    Sizes all = elements(i);
    for (Size& index : all) {
      if (!index.is_fixed() && index.least < 0)
        pin_variables(index.variables);  // The sign of the index may change.
      if (index.value < 0) index = computed("Add", index, extent).value_or(index);
    }
    if (!counts_from_end) return operand(i);
    return materialized(known(all, in(i).shape, DType::kInt64), node_.input(i) + "_from_start");
  }
  Tensor given = operand(i);
  if (given.dtype == DType::kUInt8) return given;
  if (given.dtype != DType::kInt32 && given.dtype != DType::kInt64)
    given = call("cast", {given}, {{"dtype", DType::kInt64}});
  const Tensor below = call("less", given, 0);
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
  const Tensor joined = call("concat", parts, {{"axis", 0}});
  return tensor.shape.rank() == 1 ? joined : reshape(joined, tensor.all_sizes());
}

Tensor NodeImport::materialized(const Tensor& tensor, const std::string& name) {
  const Array& array = *tensor.value;
  if (array.shape().elements() == 0) refuse("an empty tensor");
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
        if (element > kExact || element < -kExact) refuse("integers above 2^24 in a constant");
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

}  // namespace flow::onnx
