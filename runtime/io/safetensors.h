// .safetensors files, the format of Hugging Face: the length of a JSON header (8 bytes,
// little-endian), the header, then the bytes of the arrays without gaps. Every file is hostile:
// lengths, names, dtypes, shapes and offsets are checked before anything is read.
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

/// The longest header that is read: that of the format's own library.
inline constexpr uint64_t kLongestSafetensorsHeader = 100'000'000;
/// Bytes in the name of an array: messages and tables show it.
inline constexpr size_t kLongestArrayName = 1000;

/// The arrays of a file.
class Safetensors {
 public:
  struct Entry {
    std::string_view code;       // its dtype: "BF16"
    std::optional<DType> dtype;  // nothing: one that flow does not have
    Shape shape;
    size_t offset = 0, bytes = 0;  // in the file
  };

  /// `file` is the whole file, and outlives this; `name` is for messages. RunError where it is
  /// damaged.
  Safetensors(std::span<const std::byte> file, const std::string& name);

  const std::map<std::string, Entry>& arrays() const { return arrays_; }
  std::span<const std::byte> bytes_of(const Entry& array) const {
    return file_.subspan(array.offset, array.bytes);
  }

 private:
  std::span<const std::byte> file_;
  std::map<std::string, Entry> arrays_;
};

/// Which file of a set has each array: model.safetensors.index.json.
using SafetensorsIndex = std::map<std::string, std::string>;

/// RunError where the text is damaged, or names a file outside of the folder of the index.
SafetensorsIndex parse_safetensors_index(std::string_view text, const std::string& name);

/// The .safetensors file, or the index of a set, that `path` names or that lies in a folder of
/// that name; nothing where there is none. RequestError where a folder has several.
std::optional<fs::path> find_safetensors(const fs::path& path);
/// Is the path that of an index?
bool is_safetensors_index(const fs::path& path);

/// An array to be written.
struct SafetensorsItem {
  std::string name;
  DType dtype = DType::kFloat32;
  Shape shape;
};

/// The header of a file of these arrays, with its length; data begins on a multiple of 64. The
/// arrays follow in the order of `items`, which becomes the one in which each is aligned: larger
/// elements first, then by name.
std::string safetensors_header(std::vector<SafetensorsItem>& items);

}  // namespace flow::io
