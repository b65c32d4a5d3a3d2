// The command line of a program as data: the reference, man pages and completions are made from it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/plan/json/json.h"

namespace CLI {
class App;
}

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

struct CommandInfo {
  std::string name, doc, footer;
  std::vector<OptionInfo> options;    // arguments first, as --help prints them
  std::vector<CommandInfo> commands;  // hidden ones are left out
};

/// A program that gets this as its only argument prints its command line as JSON.
inline constexpr std::string_view kDescribeFlag = "--describe-command-line";

CommandInfo describe(const CLI::App& app);

OrderedJson to_json(const CommandInfo& command);
/// REQUIRES: made by to_json.
CommandInfo command_from_json(const OrderedJson& json);

}  // namespace flow::cli
