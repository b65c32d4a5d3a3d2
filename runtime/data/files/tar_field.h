// The values in the files of a sample. A value that cannot be decoded makes a bad row, so it is
// returned as an error without a place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "runtime/base/error.h"

namespace flow::data {

/// What the name of a field says about its contents.
enum class FieldKind { kImage, kInteger, kArray, kText, kJson, kUnknown };

/// Returns the kind of a field, which depends on the part of its name after the last dot: png, jpg
/// and jpeg, cls, npy, txt, or json.
FieldKind kind_of_field(std::string_view field);

/// Returns the decimal integer of a `cls` field. White space around it is ignored.
Expected<int64_t> decode_integer(std::span<const std::byte> bytes);

/// The path of a value in a JSON text (RFC 6901).
class JsonPointer {
 public:
  /// Parses "/a/b", or the empty text for the whole value. Throws RequestError for other text.
  explicit JsonPointer(std::string_view text);
  const std::string& text() const { return text_; }
  /// The names of members or the indexes of elements, outermost first.
  const std::vector<std::string>& steps() const { return steps_; }

 private:
  std::string text_;
  std::vector<std::string> steps_;
};

/// A value of a JSON text. An integer that does not fit in 64 bits is a double.
using JsonValue = std::variant<bool, int64_t, double, std::string>;

/// Returns the value to which `pointer` leads. Returns an error if the text is not JSON in UTF-8,
/// is longer than 16 MiB or nested too deeply, has a key twice, or has no number, bool or string
/// there.
Expected<JsonValue> decode_json(std::span<const std::byte> bytes, const JsonPointer& pointer);

}  // namespace flow::data
