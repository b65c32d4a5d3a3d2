// The command line of a program. Each flag is declared once; parsing, --help, the reference, man
// pages and completions all use this declaration.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/plan/json/json.h"

namespace flow::cli {

struct OptionInfo {
  std::vector<std::string> names;    // "-o", "--output"; an argument has one name without dashes
  std::string value;                 // "DIR"; empty for flags and arguments
  std::string doc;                   // as --help prints it
  std::vector<std::string> choices;  // the only possible values, if they are listed
  bool required = false;
  bool repeats = false;  // true if the option may be repeated with different values

  bool is_argument() const { return !names[0].starts_with('-'); }
  bool takes_value() const { return !value.empty() || !choices.empty(); }
};

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(OptionInfo, names, value, doc, choices, required, repeats)

struct CommandInfo {
  std::string name, doc, footer;
  std::vector<OptionInfo> options;    // arguments first, as --help prints them
  std::vector<CommandInfo> commands;  // without hidden commands
};

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CommandInfo, name, doc, footer, options, commands)

/// A program with this flag as its only argument prints its command line as JSON.
inline constexpr std::string_view kDescribeFlag = "--describe-command-line";

CommandInfo describe(const CLI::App& app);

/// Adds arguments and flags to a command. Each call gives the names, the name of the value in
/// --help, the variable that receives it, and the purpose.
class Flags {
 public:
  explicit Flags(CLI::App& command) : command_(command) {}
  void hide() { command_.group(""); }
  /// Sets the title that --help prints above the options that follow.
  void group(const std::string& title) { command_.option_defaults()->group(title); }

  CLI::Option* argument(const std::string& name, auto& value, const std::string& doc) {
    return optional(name, value, doc)->required();
  }
  CLI::Option* optional(const std::string& name, auto& value, const std::string& doc) {
    return command_.add_option(name, value, doc)->type_name("");
  }
  CLI::Option* flag(const std::string& names, auto& value, const std::string& doc,
                    const auto&... checks) {
    return checked(command_.add_flag(names, value, doc), checks...);
  }
  CLI::Option* value(const std::string& names, const std::string& type, auto& value,
                     const std::string& doc, const auto&... checks) {
    return checked(command_.add_option(names, value, doc)->type_name(type), checks...);
  }
  CLI::Option* choice(const std::string& names, auto& value,
                      const std::vector<std::string>& choices, const std::string& doc) {
    return command_.add_option(names, value, doc)->check(CLI::IsMember(choices));
  }
  /// Adds an option that may be repeated with one value each. By default, an option would take
  /// every word up to the next option.
  CLI::Option* many(const std::string& names, const std::string& type,
                    std::vector<std::string>& values, const std::string& doc) {
    return value(names, type, values, doc)->expected(1)->take_all()->allow_extra_args(false);
  }

 private:
  static CLI::Option* checked(CLI::Option* option, const auto&... checks) {
    (option->check(checks), ...);
    return option;
  }

  CLI::App& command_;
};

/// Returns the words of the command line that are neither options of `app` nor their values.
std::vector<std::string> arguments_in(const CLI::App& app, int argc, char** argv);

/// Parses the command line, in which options may be anywhere, and reports usage errors with the
/// nearest flag or `--help`. Returns -1 to continue, or the exit status (0 after --help and
/// --version).
int parse(CLI::App& app, int argc, char** argv);

/// Sets the program's name, --version and the format of --help. `as_json` returns the output of
/// `--version --json` if the program has that flag.
void configure(CLI::App& app, const std::string& name, std::function<std::string()> as_json = {});

}  // namespace flow::cli
