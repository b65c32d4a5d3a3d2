// Data of tensors that lie in files next to a model.
#pragma once

#include <filesystem>
#include <optional>

#include "runtime/base/file.h"
#include "runtime/onnx/tensor_reader.h"

namespace flow::onnx {

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

}  // namespace flow::onnx
