// Variables: `vars:` and `seed:` of the file, and the names that hide them in one place.
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
/// param of a network, `$index` of a repeated entry. Uses of a local without a value are skipped
/// silently.
struct Local {
  std::string name;
  std::optional<yaml::Node> value;
};
using Locals = std::vector<Local>;  // an earlier one hides a later one

/// Is it a command sink?
bool is_command(const yaml::Node& node);

class Variables {
 public:
  /// Declares the variables of the top-level mapping `file`, each substituted with those above it.
  Variables(Reader& reader, yaml::Node& file);

  /// Replaces every use of a variable in `node` by its value. A whole value keeps the place of its
  /// use at its top and the places of its declaration below; `reader.origins` notes both. Wrong
  /// uses are reported, left unchanged, and silenced. Replaced parts are not replaced again. In
  /// `env:` of a command, variables of the environment can be unset: they are read when the command
  /// starts.
  void substitute(yaml::Node& node, const Locals& locals = {});

  /// The value of a variable that is used at `span`; null after an error, which suggests the names
  /// in `visible` too. `whole`: the text is `$name` and nothing else.
  const yaml::Node* find(std::string_view name, Span span, std::vector<std::string> visible,
                         bool whole);
  bool declares(std::string_view name) const;
  /// Counts the nodes of a copy that `use` makes; false, after an error, when there are too many.
  bool may_copy(const yaml::Node& copy, Span use);
  /// Warns of unused declarations.
  void warn_of_unused() const;

 private:
  void declare(yaml::Node& vars);
  /// The same for the value of a variable, which `env:` may use.
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
