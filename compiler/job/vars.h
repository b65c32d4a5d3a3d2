// Variables: `vars:` and `seed:` of the file, and the names that hide them in one place.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/job/reader.h"

namespace flow::job {

/// A name that is visible in one part of the file, where it hides the variable that is called so:
/// a network's param, `$index` of a repeated entry. Without a value it is not known, and what uses
/// it is passed over in silence.
struct Local {
  std::string name;
  std::optional<yaml::Node> value;
};
using Locals = std::vector<Local>;  // an earlier one hides a later one

/// Is it a command sink?
bool is_command(const yaml::Node& node);

class Variables {
 public:
  /// Declares what the top-level mapping `file` says, each variable with those above it put in.
  Variables(Reader& reader, yaml::Node& file);

  /// Replaces every use of a variable in `node` by its value. A value that was put in whole keeps
  /// the place of its use at its top and the places of its declaration below; `reader.origins`
  /// learns of both. Uses that are errors are reported and left as they stand, and what they stand
  /// in is silenced. A part that was replaced once is left alone. In `env:` of a command the
  /// environment may lack what `$env` asks for: it is asked when the command starts.
  void substitute(yaml::Node& node, const Locals& locals = {});

  /// The value of a variable that is used at `span`; null after an error, which suggests the names
  /// in `visible` too. `whole`: the text is `$name` and nothing else.
  const yaml::Node* find(std::string_view name, Span span, std::vector<std::string> visible,
                         bool whole);
  bool declares(std::string_view name) const;
  /// Counts the nodes of a copy that `use` makes; false, after an error, when there are too many.
  bool may_copy(const yaml::Node& copy, Span use);
  /// Warns of declarations that nobody used.
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
