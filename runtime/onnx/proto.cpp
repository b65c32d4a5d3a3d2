// Conversions of dtypes; arrays of TensorProto, whose data are stored in one of several fields, or
// in a file at an offset with a length; and a topological sort of nodes.
#include "runtime/onnx/proto.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>

#include "ops/core/limits.h"
#include "runtime/base/display.h"
#include "runtime/base/element_types.h"
#include "runtime/base/error.h"
#include "runtime/base/text.h"

namespace flow::onnx {
namespace {

struct DataType {
  DType dtype;
  pb::TensorProto::DataType number;
};

constexpr std::array kDataTypes = {
    DataType{DType::kFloat32, pb::TensorProto::FLOAT},
    DataType{DType::kFloat64, pb::TensorProto::DOUBLE},
    DataType{DType::kFloat16, pb::TensorProto::FLOAT16},
    DataType{DType::kBFloat16, pb::TensorProto::BFLOAT16},
    DataType{DType::kInt8, pb::TensorProto::INT8},
    DataType{DType::kInt32, pb::TensorProto::INT32},
    DataType{DType::kInt64, pb::TensorProto::INT64},
    DataType{DType::kUInt8, pb::TensorProto::UINT8},
    DataType{DType::kBool, pb::TensorProto::BOOL},
};

Shape read_shape(const pb::TensorProto& tensor) {
  std::vector<int64_t> extents(tensor.dims().begin(), tensor.dims().end());
  if (extents.size() > size_t{ops::kMaxRank})
    refuse("{} dimensions; at most {} are supported", extents.size(), ops::kMaxRank);
  for (const int64_t extent : extents)
    if (extent < 0 || extent > ops::kMaxSize) refuse("a dimension of {}", extent);
  Shape shape(std::move(extents));
  if (!shape.checked_elements()) refuse("shape {} is too large", shape.str());
  return shape;
}

void require_count(size_t found, int64_t expected) {
  if (found != static_cast<size_t>(expected))
    refuse("{} elements of data; expected {}", found, expected);
}

/// Returns the elements of a field with one number per element. The numbers of 16-bit floats are
/// their bits.
template <typename Field>
Array from_field(const Field& field, DType dtype, const Shape& shape) {
  require_count(static_cast<size_t>(field.size()), shape.elements());
  Array array(dtype, shape);
  visit_dtype(dtype, [&](auto zero) {
    using T = decltype(zero);
    T* to = reinterpret_cast<T*>(array.bytes().data());
    for (const auto value : field) {
      if constexpr (std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>)
        (to++)->bits = static_cast<uint16_t>(value);
      else
        *to++ = static_cast<T>(value);
    }
  });
  return array;
}

Array from_raw(std::span<const std::byte> raw, DType dtype, const Shape& shape) {
  require_count(raw.size() / size_of(dtype), shape.elements());
  require_count(raw.size() % size_of(dtype), 0);
  Array array(dtype, shape);
  if (!raw.empty()) std::memcpy(array.bytes().data(), raw.data(), raw.size());
  if (dtype == DType::kBool)
    for (std::byte& one : array.bytes()) one = std::byte{one != std::byte{0}};
  return array;
}

/// Returns the text of a key, or an empty string if the key is missing.
std::string_view value_of(const pb::TensorProto& tensor, std::string_view key) {
  for (const pb::StringStringEntryProto& entry : tensor.external_data())
    if (entry.key() == key) return entry.value();
  return {};
}

/// Returns a number of bytes.
uint64_t bytes_of(const pb::TensorProto& tensor, std::string_view key, uint64_t otherwise) {
  const std::string_view text = value_of(tensor, key);
  if (text.empty()) return otherwise;
  const auto number = whole_number(text);
  if (!number || *number < 0) refuse("the {} of its data is `{}`", key, escaped(text));
  return static_cast<uint64_t>(*number);
}

[[noreturn]] void refuse_file(const std::string& location, std::string_view why, std::string hint) {
  throw Unsupported(fmt::format("its data are in `{}`, {}", escaped(location), why),
                    std::move(hint));
}

/// Returns the path of a file in `folder` after all links are followed.
fs::path path_in(const fs::path& folder, const std::string& location) {
  const fs::path below = location;
  const bool goes_up = std::ranges::find(below, fs::path("..")) != below.end();
  if (location.empty() || below.is_absolute() || goes_up ||
      location.find('\0') != std::string::npos)
    refuse_file(location, "outside the folder of the model", "save the model as one file");
  std::error_code missing, ignored;
  const fs::path path = fs::canonical(folder / below, missing);
  if (missing) refuse_file(location, "which is missing", "put it in the folder of the model");
  const fs::path root = fs::canonical(folder.empty() ? "." : folder, ignored);
  if (std::ranges::mismatch(root, path).in1 != root.end())
    refuse_file(location, "a link out of the folder of the model",
                "replace the link with the file it leads to");
  if (!fs::is_regular_file(path, ignored))
    refuse_file(location, "which is not a regular file", "put the file in its place");
  return path;
}

constexpr size_t kMostShown = 8;  // nodes of a cycle that a message lists

class NodeOrder {
 public:
  explicit NodeOrder(const pb::GraphProto& graph) : graph_(graph) {
    for (int i = 0; i < graph.node_size(); ++i)
      for (const std::string& name : graph.node(i).output())
        if (!name.empty() && !makers_.emplace(name, i).second)
          refuse("two tensors are called `{}`", escaped(name));
  }

  NeededNodes run() {
    find_needed();
    NeededNodes result{.tensors = std::move(needed_), .nodes = {}};
    std::multimap<int, int> readers;  // indexed by node
    std::set<int> ready;
    for (const auto& [node, count] : waits_) {
      for (const int maker : makers_of(node)) readers.emplace(maker, node);
      if (count == 0) ready.insert(node);
    }
    while (!ready.empty()) {
      const int node = *ready.begin();
      ready.erase(ready.begin());
      result.nodes.push_back(&graph_.node(node));
      const auto [first, last] = readers.equal_range(node);
      for (auto reader = first; reader != last; ++reader)
        if (--waits_[reader->second] == 0) ready.insert(reader->second);
    }
    if (result.nodes.size() < waits_.size()) refuse_circle();
    return result;
  }

 private:
  /// Returns the nodes from which a node reads, one for each operand.
  std::vector<int> makers_of(int node) const {
    std::vector<int> makers;
    for (const std::string& name : graph_.node(node).input())
      if (const auto maker = makers_.find(name); maker != makers_.end())
        makers.push_back(maker->second);
    return makers;
  }

  void find_needed() {
    std::vector<std::string> unread;
    for (const auto& output : graph_.output()) unread.push_back(output.name());
    while (!unread.empty()) {
      const std::string name = std::move(unread.back());
      unread.pop_back();
      if (!needed_.insert(name).second) continue;
      const auto maker = makers_.find(name);
      if (maker == makers_.end()) continue;
      if (!waits_.emplace(maker->second, makers_of(maker->second).size()).second) continue;
      const auto& operands = graph_.node(maker->second).input();
      unread.insert(unread.end(), operands.begin(), operands.end());
    }
  }

  /// Returns a node that never becomes ready, whose results this one waits for.
  int awaited_by(int node) const {
    const std::vector<int> makers = makers_of(node);
    return *std::ranges::find_if(makers, [&](int maker) { return waits_.at(maker) > 0; });
  }

  [[noreturn]] void refuse_circle() const {
    int node = std::ranges::find_if(waits_, [](const auto& one) { return one.second > 0; })->first;
    std::set<int> seen;
    while (seen.insert(node).second) node = awaited_by(node);
    std::string circle;
    size_t shown = 0;
    const int first = node;
    do {
      const std::string separator = shown == 0 ? "" : ", ";
      circle += fmt::format("{}`{}` ({})", separator, shown_name(graph_.node(node)),
                            escaped(graph_.node(node).op_type()));
      node = awaited_by(node);
    } while (node != first && ++shown < kMostShown);
    refuse("nodes form a circle, each reads from the next: {}{}", circle,
           node == first ? "" : ", ...");
  }

  const pb::GraphProto& graph_;
  std::map<std::string_view, int> makers_;  // indexed by tensor: the node that makes it
  std::set<std::string> needed_;
  // The needed nodes, each with the number of its operands that are not computed yet.
  std::map<int, size_t> waits_;
};

}  // namespace

int data_type_of(DType dtype) {
  const auto* found = std::ranges::find(kDataTypes, dtype, &DataType::dtype);
  FLOW_CHECK(found != kDataTypes.end());
  return found->number;
}

std::optional<DType> dtype_of(int data_type) {
  const auto* found = std::ranges::find(kDataTypes, data_type, &DataType::number);
  if (found == kDataTypes.end()) return {};
  return found->dtype;
}

DType read_dtype(int data_type) {
  if (const auto dtype = dtype_of(data_type)) return *dtype;
  const std::string name =
      pb::TensorProto::DataType_IsValid(data_type)
          ? pb::TensorProto::DataType_Name(static_cast<pb::TensorProto::DataType>(data_type))
          : std::to_string(data_type);
  refuse("dtype {}", name);
}

Array read_tensor(const pb::TensorProto& tensor, std::span<const std::byte> raw) {
  return from_raw(raw, read_dtype(tensor.data_type()), read_shape(tensor));
}

Array read_tensor(const pb::TensorProto& tensor) {
  if (tensor.has_segment()) refuse("its data are in segments");
  const DType dtype = read_dtype(tensor.data_type());
  const Shape shape = read_shape(tensor);
  if (tensor.has_raw_data())
    return from_raw(std::as_bytes(std::span(tensor.raw_data())), dtype, shape);
  switch (dtype) {
    case DType::kFloat32:
      return from_field(tensor.float_data(), dtype, shape);
    case DType::kFloat64:
      return from_field(tensor.double_data(), dtype, shape);
    case DType::kInt64:
      return from_field(tensor.int64_data(), dtype, shape);
    default:
      return from_field(tensor.int32_data(), dtype, shape);
  }
}

Array converted(const Array& array, DType dtype) {
  if (array.dtype() == dtype) return array;
  Array result(dtype, array.shape());
  visit_dtype(array.dtype(), [&](auto from) {
    using From = decltype(from);
    const auto* in = reinterpret_cast<const From*>(array.bytes().data());
    visit_dtype(dtype, [&](auto to) {
      using To = decltype(to);
      auto* out = reinterpret_cast<To*>(result.bytes().data());
      for (int64_t i = 0; i < array.shape().elements(); ++i) out[i] = flow::convert<To>(in[i]);
    });
  });
  return result;
}

Array reshaped(const Array& array, Shape shape) {
  Array result(array.dtype(), std::move(shape));
  std::ranges::copy(array.bytes(), result.bytes().begin());
  return result;
}

Array transposed_matrix(const Array& matrix) {
  const int64_t rows = matrix.shape()[0], columns = matrix.shape()[1];
  const size_t size = size_of(matrix.dtype());
  Array turned(matrix.dtype(), Shape{columns, rows});
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j)
      std::ranges::copy(matrix.bytes().subspan(static_cast<size_t>(i * columns + j) * size, size),
                        turned.bytes().subspan(static_cast<size_t>(j * rows + i) * size).begin());
  return turned;
}

std::vector<int64_t> elements_as_int64(const Array& array) {
  const Array wide = converted(array, DType::kInt64);
  const auto elements = wide.as<int64_t>();
  return {elements.begin(), elements.end()};
}

Array int64_array(const std::vector<int64_t>& values, Shape shape) {
  Array array(DType::kInt64, std::move(shape));
  std::ranges::copy(values, array.as<int64_t>().begin());
  return array;
}

const MappedFile& ExternalData::file_at(const std::string& location) {
  if (!file_ || location_ != location) {
    file_.emplace(path_in(folder_, location));
    location_ = location;
  }
  return *file_;
}

Array ExternalData::read(const pb::TensorProto& tensor) {
  if (tensor.data_location() != pb::TensorProto::EXTERNAL) return read_tensor(tensor);
  const std::string location(value_of(tensor, "location"));
  const MappedFile& file = file_at(location);
  const uint64_t size = file.bytes().size(), offset = bytes_of(tensor, "offset", 0);
  const uint64_t length = bytes_of(tensor, "length", size - std::min(size, offset));
  if (offset > size || length > size - offset)
    refuse_file(location, fmt::format("{} bytes from {} on; it has {}", length, offset, size),
                "export the model again; the file is damaged or of another model");
  Array array(DType::kBool, Shape{0});
  file.recovering([&] { array = read_tensor(tensor, file.bytes().subspan(offset, length)); });
  return array;
}

NeededNodes needed_nodes(const pb::GraphProto& graph) { return NodeOrder(graph).run(); }

std::string shown_name(const pb::NodeProto& node) {
  return escaped(node.name().empty() && node.output_size() > 0 ? node.output(0) : node.name());
}

}  // namespace flow::onnx
