// Arrays of a model. Untrusted: checked before anything is allocated.
#pragma once

#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/array.h"
#include "runtime/onnx/proto.h"

namespace flow::onnx {

/// Why something in a model cannot be imported: lower case, without a full stop.
class Unsupported : public std::runtime_error {
 public:
  explicit Unsupported(const std::string& what, std::string hint = {})
      : std::runtime_error(what), hint_(std::move(hint)) {}
  const std::string& hint() const { return hint_; }

 private:
  std::string hint_;
};

/// Unsupported for a dtype that flow does not have.
DType read_dtype(int data_type);
/// The array. Unsupported where its data do not fill its shape, or are of a dtype that flow does
/// not have. REQUIRES: they are not in another file.
Array read_tensor(const pb::TensorProto& tensor);
/// The same, with `raw` as its data.
Array read_tensor(const pb::TensorProto& tensor, std::span<const std::byte> raw);

/// The array as one of another dtype, each element converted as `cast` does.
Array converted(const Array& array, DType dtype);
/// The same elements in another shape. REQUIRES: it has as many.
Array reshaped(const Array& array, Shape shape);
/// A matrix with its axes exchanged.
Array transposed_matrix(const Array& matrix);
/// Its elements as int64, in order.
std::vector<int64_t> elements_as_int64(const Array& array);
/// The array of these integers.
Array int64_array(const std::vector<int64_t>& values, Shape shape);

}  // namespace flow::onnx
