// The checksum by which the text of a plan or record notices that any byte of it was changed.
#pragma once

#include <string>
#include <string_view>

namespace flow::plan {

/// What stands for the checksum until the text has one.
inline constexpr std::string_view kNoChecksum = "0000000000000000";

/// Writes the checksum of the whole text into its line `  "checksum": "<16 hex digits>",`.
/// A text without that line comes back as it was.
std::string with_checksum(std::string text);

/// Does the text carry the checksum that `with_checksum` gives it?
bool has_checksum(std::string_view text);

}  // namespace flow::plan
