// The command line of a program: its flags, a row each, and what parsing, --help, the reference,
// manual pages and completions make of them.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/plan/json/json.h"

namespace flow::cli {

struct OptionInfo {
  std::vector<std::string> names;    // "-o", "--output"; an argument has one, without dashes
  std::string value;                 // "DIR"; empty for flags and arguments
  std::string doc;                   // as --help prints it
  std::vector<std::string> choices;  // the only values, where they are listed
  bool required = false;
  bool repeats = false;  // may be given several times, with another value each time

  bool is_argument() const { return !names[0].starts_with('-'); }
  bool takes_value() const { return !value.empty() || !choices.empty(); }
};

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(OptionInfo, names, value, doc, choices, required, repeats)

struct CommandInfo {
  std::string name, doc, footer;
  std::vector<OptionInfo> options;    // arguments first, as --help prints them
  std::vector<CommandInfo> commands;  // hidden ones are left out
};

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CommandInfo, name, doc, footer, options, commands)

/// A program that gets this as its only argument prints its command line as JSON.
inline constexpr std::string_view kDescribeFlag = "--describe-command-line";

CommandInfo describe(const CLI::App& app);

/// Adds arguments and flags to a command, a row each: names, what --help calls the value, where it
/// goes, and what it is for.
class Flags {
 public:
  explicit Flags(CLI::App& command) : command_(command) {}
  void hide() { command_.group(""); }
  /// The title that --help gives the rows from here on.
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
  /// May be given several times, with a value each: otherwise one takes every word up to the next
  /// option.
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

/// The words of the command line that are no options of `app` and no values of them.
std::vector<std::string> arguments_in(const CLI::App& app, int argc, char** argv);

/// Parses the command line, with options anywhere, and reports usage errors with the nearest flag
/// or `--help`. Returns -1 to continue, or the exit status (0 after --help and --version).
int parse(CLI::App& app, int argc, char** argv);

/// Sets the program's name, --version and the format of --help. `as_json`: what `--version --json`
/// prints, where the program has that flag.
void configure(CLI::App& app, const std::string& name, std::function<std::string()> as_json = {});

}  // namespace flow::cli
