// JSON as text: how numbers and strings are written, and how a file is parsed.
#pragma once

#include <string>
#include <string_view>

#include "runtime/plan/json/json.h"

namespace flow::plan {

/// The shortest text that reads back as the same double, with a `.` or an exponent, so that it is
/// not taken for an integer. JSON has no numbers for what is not finite: {"float":"-inf"}.
std::string json_number(double value);

/// The text in quotes, escaped. RequestError when it is not UTF-8.
std::string json_string(std::string_view text);

/// A file's one JSON value. RequestError names `path` and the place when it is not JSON, a key
/// occurs twice in an object, or values are nested too deeply.
Json parse_json(std::string_view text, const std::string& path);
/// The same of a file of another program, whose damage is not the request's fault: RunError.
Json parse_foreign_json(std::string_view text, const std::string& path);

}  // namespace flow::plan
