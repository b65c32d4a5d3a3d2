// ONNX's messages, as protoc makes them from Debian's onnx.proto.
#pragma once

#include <onnx.pb.h>

#include <optional>

#include "runtime/base/dtype.h"

namespace flow::onnx {

namespace pb = ::onnx;

/// The default domain's version that is written: the latest of ONNX 1.12.
constexpr int64_t kOpset = 17;

/// The number of a dtype in TensorProto.
int data_type_of(DType dtype);
/// The inverse; nothing for a dtype that flow does not have.
std::optional<DType> dtype_of(int data_type);

}  // namespace flow::onnx
