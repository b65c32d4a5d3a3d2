// ONNX's messages, as protoc makes them from Debian's onnx.proto: dtypes, arrays of a model, in it
// or in files next to it, and the nodes that its outputs follow from. What a model holds is
// untrusted: it is checked before anything is allocated.
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

/// The default domain's version that is written: the latest of ONNX 1.12.
constexpr int64_t kOpset = 17;

/// The number of a dtype in TensorProto.
int data_type_of(DType dtype);
/// The inverse; nothing for a dtype that flow does not have.
std::optional<DType> dtype_of(int data_type);

/// Why something in a model cannot be imported: lower case, without a full stop.
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
Integers elements_as_int64(const Array& array);
/// The array of these integers.
Array int64_array(const Integers& values, Shape shape);

/// Opens files for tensors, one at a time. Untrusted: reads only regular files in the model's
/// folder.
class ExternalData {
 public:
  explicit ExternalData(const fs::path& model) : folder_(model.parent_path()) {}

  /// The array. Unsupported as for read_tensor, and where its file does not have all of it.
  Array read(const pb::TensorProto& tensor);

 private:
  const MappedFile& file_at(const std::string& location);

  fs::path folder_;
  std::string location_;  // of the open file
  std::optional<MappedFile> file_;
};

struct NeededNodes {
  std::set<std::string> tensors;            // by name: what the outputs follow from, and they
  std::vector<const pb::NodeProto*> nodes;  // each behind those that it reads from
};

/// Nodes that are in order keep it. Unsupported where nodes read from each other in a circle, or
/// two of them make a tensor of the same name.
NeededNodes needed_nodes(const pb::GraphProto& graph);

/// The name of a node; its first output's where it has none.
std::string shown_name(const pb::NodeProto& node);

}  // namespace flow::onnx
