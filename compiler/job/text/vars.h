// Declares variables: `vars:` and `seed:` of the file, and the names that hide them in a part of
// the file.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/job/text/reader.h"

namespace flow::job {

/// A name that is visible in one part of the file, where it hides the variable of the same name: a
/// param of a network, or `$index` of a repeated entry. Uses of a local without a value are skipped
/// silently.
struct Local {
  std::string name;
  std::optional<yaml::Node> value;
};
using Locals = std::vector<Local>;  // earlier names hide later ones

/// Returns true if the node is a command sink.
bool is_command(const yaml::Node& node);

class Variables {
 public:
  /// Declares the variables of the top-level mapping `file`. Each can use the variables above it.
  Variables(Reader& reader, yaml::Node& file);

  /// Replaces every use of a variable in `node` by its value. If a variable is used as a whole
  /// value, the top node of the value gets the position of the use, and nodes below it keep their
  /// positions in the declaration; `reader.origins` notes both. Invalid uses are reported, left
  /// unchanged, and silenced. Replaced parts are not replaced again. In `env:` of a command,
  /// environment variables may be unset, because they are read when the command starts.
  void substitute(yaml::Node& node, const Locals& locals = {});

  /// Returns the value of a variable that is used at `span`. Returns null after an error, which
  /// also suggests the names in `visible`. `whole` is true if the text is only `$name`.
  const yaml::Node* find(std::string_view name, Span span, std::vector<std::string> visible,
                         bool whole);
  bool declares(std::string_view name) const;
  /// Counts the nodes of a copy that `use` makes. Reports an error and returns false if there are
  /// too many.
  bool may_copy(const yaml::Node& copy, Span use);
  /// Warns about unused declarations.
  void warn_of_unused() const;

 private:
  void declare(yaml::Node& vars);
  /// Substitutes variables in the value of a variable. Environment variables may be unset, because
  /// `env:` may use the value.
  void substitute_declared(yaml::Node& value);

  Reader& reader_;
  yaml::Node seed_;
  bool seed_read_ = false;
  std::vector<Name> order_;
  std::map<std::string, const yaml::Node*, std::less<>> declared_;
  std::set<std::string, std::less<>> used_;
  size_t nodes_ = 0;
  bool too_many_ = false;
};

}  // namespace flow::job
