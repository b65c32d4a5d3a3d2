// Decodes TensorProto, whose data lie in one of several fields.
#include "runtime/onnx/tensor_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "ops/core/limits.h"
#include "runtime/base/convert.h"

namespace flow::onnx {
namespace {

Shape read_shape(const pb::TensorProto& tensor) {
  std::vector<int64_t> extents(tensor.dims().begin(), tensor.dims().end());
  if (extents.size() > size_t{ops::kMaxRank})
    throw Unsupported(
        fmt::format("{} dimensions; at most {} are supported", extents.size(), ops::kMaxRank));
  for (const int64_t extent : extents)
    if (extent < 0 || extent > ops::kMaxSize)
      throw Unsupported(fmt::format("a dimension of {}", extent));
  Shape shape(std::move(extents));
  if (!shape.checked_elements())
    throw Unsupported(fmt::format("shape {} is too large", shape.str()));
  return shape;
}

void require_count(size_t found, int64_t expected) {
  if (found != static_cast<size_t>(expected))
    throw Unsupported(fmt::format("{} elements of data; expected {}", found, expected));
}

/// Elements of a field in which each has a number of its own. Floats of 16 bits are their bits.
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

}  // namespace

DType read_dtype(int data_type) {
  if (const auto dtype = dtype_of(data_type)) return *dtype;
  const std::string name =
      pb::TensorProto::DataType_IsValid(data_type)
          ? pb::TensorProto::DataType_Name(static_cast<pb::TensorProto::DataType>(data_type))
          : std::to_string(data_type);
  throw Unsupported(fmt::format("dtype {}", name));
}

Array read_tensor(const pb::TensorProto& tensor, std::span<const std::byte> raw) {
  return from_raw(raw, read_dtype(tensor.data_type()), read_shape(tensor));
}

Array read_tensor(const pb::TensorProto& tensor) {
  if (tensor.has_segment()) throw Unsupported("its data are in segments");
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

}  // namespace flow::onnx
