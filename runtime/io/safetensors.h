// .safetensors files, the format of Hugging Face: the length of a JSON header (8 bytes,
// little-endian), the header, then the bytes of the arrays without gaps. Every file is treated as
// hostile: lengths, names, dtypes, shapes and offsets are checked before anything is read.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/array.h"
#include "runtime/base/file.h"

namespace flow::io {

inline constexpr const char* kSafetensorsSuffix = ".safetensors";

/// The longest header that is read. It is the limit of the official library.
inline constexpr uint64_t kLongestSafetensorsHeader = 100'000'000;
/// The most bytes in the name of an array. It is limited because messages and tables show the name.
inline constexpr size_t kLongestArrayName = 1000;

/// The arrays of a file.
class Safetensors {
 public:
  struct Entry {
    std::string_view code;       // dtype in the file, such as "BF16"
    std::optional<DType> dtype;  // nothing if flow does not support this dtype
    Shape shape;
    size_t offset = 0, bytes = 0;  // position in the file
  };

  /// `file` is the whole file and must outlive this object. `name` appears in messages. Throws
  /// RunError if the file is damaged.
  Safetensors(std::span<const std::byte> file, const std::string& name);

  const std::map<std::string, Entry>& arrays() const { return arrays_; }
  std::span<const std::byte> bytes_of(const Entry& array) const {
    return file_.subspan(array.offset, array.bytes);
  }

 private:
  std::span<const std::byte> file_;
  std::map<std::string, Entry> arrays_;
};

/// Maps the name of each array to the file that contains it: model.safetensors.index.json.
using SafetensorsIndex = std::map<std::string, std::string>;

/// Reads an index. Throws RunError if the text is damaged or names a file outside of the folder of
/// the index.
SafetensorsIndex parse_safetensors_index(std::string_view text, const std::string& name);

/// Returns the .safetensors file, or the index of a set, that `path` names or that the folder
/// `path` contains. Returns nothing if there is none. Throws RequestError if a folder contains
/// several.
std::optional<fs::path> find_safetensors(const fs::path& path);
/// Returns true if the path is that of an index.
bool is_safetensors_index(const fs::path& path);

/// An array to be written.
struct SafetensorsItem {
  std::string name;
  DType dtype = DType::kFloat32;
  Shape shape;
};

/// Returns the header of a file with these arrays, including its length; data begins at a multiple
/// of 64 bytes. Sorts `items` into the order in which the arrays must follow: larger elements
/// first, so that each array is aligned, then by name.
std::string safetensors_header(std::vector<SafetensorsItem>& items);

}  // namespace flow::io
