// Parts of the files of tokenizers, which several readers share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/data/text/byte_pairs.h"
#include "runtime/plan/json/json.h"

namespace flow::data {

/// Reads an object with the id of each symbol. Throws RunError with `name`.
Vocabulary read_vocabulary(const Json& json, const std::string& name);

/// Reads an id. Throws RunError with `place` unless it is an integer in [0, 2^31 - 1).
int32_t read_id(const Json& json, const std::string& place);

/// Reads two symbols with one space between them, or nothing for another text.
std::optional<Merge> parse_merge(std::string_view text, size_t place);

}  // namespace flow::data
