// Typographic characters that look like ASCII.
#pragma once

#include <string>
#include <string_view>

namespace flow {

/// The text with ASCII in place of typographic quotes, dashes, minus signs, multiplication signs
/// and full-width punctuation, as word processors and web pages write them: "1e\u22123" -> "1e-3".
std::string with_ascii_punctuation(std::string_view text);

}  // namespace flow
