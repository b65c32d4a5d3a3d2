// Values of a command's environment, as job files and plans write them. A plan names environment
// variables and does not hold what they are: that may be a password.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace flow::plan {

/// `$env(NAME)` or `$env(NAME:-default)` within a text, or the plain text between two of them.
struct EnvironmentPart {
  std::string text;  // plain
  std::string name;  // of an environment variable; empty in plain text
  std::optional<std::string> fallback = {};

  /// What it is in the environment of this process; nothing where that lacks it.
  std::optional<std::string> value() const;
};

/// Of "NAME" or "NAME:-default". Nothing where that begins with no name, or with one of more than
/// 1024 bytes.
std::optional<EnvironmentPart> read_reference(std::string_view inside);

/// The parenthesis that closes the one at `open`, or npos.
size_t closing_parenthesis(std::string_view text, size_t open);

/// Text with each dollar sign written twice.
std::string with_doubled_dollars(std::string_view text);

/// The parts of a text in which `$$` is a dollar sign. Nothing where another one begins no
/// reference.
std::optional<std::vector<EnvironmentPart>> environment_parts(std::string_view text);

/// The first variable that the text needs and this process's environment lacks. REQUIRES: it has
/// parts.
std::optional<std::string> missing_variable(std::string_view text);

/// The text with its variables put in; empty for those that are missing. REQUIRES: it has parts.
std::string with_environment(std::string_view text);

}  // namespace flow::plan
