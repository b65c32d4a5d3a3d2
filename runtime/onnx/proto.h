// The messages of ONNX, which protoc generates from Debian's onnx.proto: dtypes, arrays of a model
// that are stored in it or in files next to it, and the nodes on which its outputs depend. The
// contents of a model are untrusted and are checked before anything is allocated.
#pragma once

#include <fmt/format.h>
#include <onnx.pb.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/array.h"
#include "runtime/base/file.h"

namespace flow::onnx {

namespace pb = ::onnx;

using Integers = std::vector<int64_t>;
using Strings = std::vector<std::string>;

inline bool are_all(const Integers& values, int64_t value) {
  return std::ranges::count(values, value) == std::ssize(values);
}

/// The version of the default domain that is written: the latest one of ONNX 1.12.
constexpr int64_t kOpset = 17;

/// Returns the number of a dtype in TensorProto.
int data_type_of(DType dtype);
/// Returns the dtype with this number, or nothing if flow does not have it.
std::optional<DType> dtype_of(int data_type);

/// The reason why a part of a model cannot be imported. It begins in lower case and has no full
/// stop.
class Unsupported : public std::runtime_error {
 public:
  explicit Unsupported(const std::string& what, std::string hint = {})
      : std::runtime_error(what), hint_(std::move(hint)) {}
  const std::string& hint() const { return hint_; }

 private:
  std::string hint_;
};

/// Throws Unsupported.
template <typename... Arguments>
[[noreturn]] void refuse(fmt::format_string<Arguments...> what, Arguments&&... arguments) {
  throw Unsupported(fmt::format(what, std::forward<Arguments>(arguments)...));
}

/// Returns a dtype. Throws Unsupported if flow does not have it.
DType read_dtype(int data_type);
/// Returns the array. Throws Unsupported if its data do not match its shape, or if flow does not
/// have its dtype. REQUIRES: the data are not in another file.
Array read_tensor(const pb::TensorProto& tensor);
/// Returns the array in the same way, with `raw` as its data.
Array read_tensor(const pb::TensorProto& tensor, std::span<const std::byte> raw);

/// Returns the array with another dtype. Each element is converted as `cast` does.
Array converted(const Array& array, DType dtype);
/// Returns the same elements in another shape. REQUIRES: the shape has the same number of elements.
Array reshaped(const Array& array, Shape shape);
/// Returns a matrix with its axes exchanged.
Array transposed_matrix(const Array& matrix);
/// Returns the elements as int64, in order.
Integers elements_as_int64(const Array& array);
/// Returns an array of these integers.
Array int64_array(const Integers& values, Shape shape);

/// Reads tensors from files and keeps one file open at a time. The paths are untrusted: only
/// regular files in the model's folder are read.
class ExternalData {
 public:
  explicit ExternalData(const fs::path& model) : folder_(model.parent_path()) {}

  /// Returns the array. Throws Unsupported in the same cases as read_tensor(), and if the file does
  /// not contain all of the array.
  Array read(const pb::TensorProto& tensor);

 private:
  const MappedFile& file_at(const std::string& location);

  fs::path folder_;
  std::string location_;  // location of the open file
  std::optional<MappedFile> file_;
};

struct NeededNodes {
  // The names of the outputs and of all tensors on which they depend.
  std::set<std::string> tensors;
  std::vector<const pb::NodeProto*> nodes;  // each after the nodes from which it reads
};

/// Returns the nodes on which the outputs depend. Nodes that are already in order keep it. Throws
/// Unsupported if nodes depend on each other in a cycle, or if two of them make a tensor with the
/// same name.
NeededNodes needed_nodes(const pb::GraphProto& graph);

/// Returns the name of a node, or that of its first output if it has none.
std::string shown_name(const pb::NodeProto& node);

}  // namespace flow::onnx
