// The values of a command's environment, as job files and plans write them. A plan contains the
// names of environment variables but not their values, which may be passwords.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace flow::plan {

/// A reference `$env(NAME)` or `$env(NAME:-default)` within a text, or the plain text between two
/// references.
struct EnvironmentPart {
  std::string text;  // plain text; not used for a reference
  std::string name;  // the name of an environment variable; empty for plain text
  std::optional<std::string> fallback = {};

  /// Returns the value of the part in the environment of this process, or nothing if the variable
  /// is not set.
  std::optional<std::string> value() const;
};

/// Reads the inside of a reference, "NAME" or "NAME:-default". Returns nothing if the text does not
/// begin with a name, or if the name has more than 1024 bytes.
std::optional<EnvironmentPart> read_reference(std::string_view inside);

/// Returns the position of the parenthesis that closes the one at `open`, or npos.
size_t closing_parenthesis(std::string_view text, size_t open);

/// Returns the text with each dollar sign doubled.
std::string with_doubled_dollars(std::string_view text);

/// Splits a text into its parts; `$$` stands for a dollar sign. Returns nothing if any other dollar
/// sign does not begin a reference.
std::optional<std::vector<EnvironmentPart>> environment_parts(std::string_view text);

/// Returns the first variable that the text needs and the environment of this process lacks.
/// REQUIRES: environment_parts() accepts the text.
std::optional<std::string> missing_variable(std::string_view text);

/// Returns the text with the values of its variables; a missing variable becomes an empty text.
/// REQUIRES: environment_parts() accepts the text.
std::string with_environment(std::string_view text);

}  // namespace flow::plan
