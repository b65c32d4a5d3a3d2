// Dtypes of ONNX.
#include "runtime/onnx/proto.h"

#include <algorithm>
#include <array>

#include "runtime/base/check.h"

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

}  // namespace flow::onnx
