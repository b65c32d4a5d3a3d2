// Follows what a tensor says of its data: a location, an offset and a length.
#include "runtime/onnx/external_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <system_error>

#include "runtime/base/display.h"
#include "runtime/base/text.h"

namespace flow::onnx {
namespace {

/// The text of a key; empty where there is none.
std::string_view value_of(const pb::TensorProto& tensor, std::string_view key) {
  for (const pb::StringStringEntryProto& entry : tensor.external_data())
    if (entry.key() == key) return entry.value();
  return {};
}

/// A number of bytes.
uint64_t bytes_of(const pb::TensorProto& tensor, std::string_view key, uint64_t otherwise) {
  const std::string_view text = value_of(tensor, key);
  if (text.empty()) return otherwise;
  const auto number = whole_number(text);
  if (!number || *number < 0)
    throw Unsupported(fmt::format("the {} of its data is `{}`", key, escaped(text)));
  return static_cast<uint64_t>(*number);
}

[[noreturn]] void refuse(const std::string& location, std::string_view why, std::string hint) {
  throw Unsupported(fmt::format("its data are in `{}`, {}", escaped(location), why),
                    std::move(hint));
}

/// The path of a file in `folder`, behind all links.
fs::path path_in(const fs::path& folder, const std::string& location) {
  const fs::path below = location;
  const bool goes_up = std::ranges::find(below, fs::path("..")) != below.end();
  if (location.empty() || below.is_absolute() || goes_up ||
      location.find('\0') != std::string::npos)
    refuse(location, "outside the folder of the model", "save the model as one file");
  std::error_code missing, ignored;
  const fs::path path = fs::canonical(folder / below, missing);
  if (missing) refuse(location, "which is missing", "put it in the folder of the model");
  const fs::path root = fs::canonical(folder.empty() ? "." : folder, ignored);
  if (std::ranges::mismatch(root, path).in1 != root.end())
    refuse(location, "a link out of the folder of the model",
           "replace the link with the file it leads to");
  if (!fs::is_regular_file(path, ignored))
    refuse(location, "which is not a regular file", "put the file in its place");
  return path;
}

}  // namespace

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
    refuse(location, fmt::format("{} bytes from {} on; it has {}", length, offset, size),
           "export the model again; the file is damaged or of another model");
  Array array(DType::kBool, Shape{0});
  file.recovering([&] { array = read_tensor(tensor, file.bytes().subspan(offset, length)); });
  return array;
}

}  // namespace flow::onnx
