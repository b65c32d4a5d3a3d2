// Reads the command line of a program out of its parser.
#include "cli/shared/command_tree.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "runtime/base/text.h"

namespace flow::cli {
namespace {

/// "TEXT:{cpu,gpu}" lists the only values.
std::vector<std::string> choices_in(const std::string& type) {
  const size_t open = type.find('{'), close = type.rfind('}');
  if (open == type.npos || close == type.npos || close < open) return {};
  return split(std::string_view(type).substr(open + 1, close - open - 1), ',');
}

/// "NAME[:N]" of "NAME[:N]:CHECK": the names of checks follow that of the value.
std::string value_in(const std::string& type) {
  int brackets = 0;
  for (size_t i = 0; i < type.size(); ++i) {
    if (type[i] == '[') ++brackets;
    if (type[i] == ']') --brackets;
    if (type[i] == ':' && brackets == 0) return type.substr(0, i);
  }
  return type;
}

OptionInfo describe(const CLI::Option& option) {
  OptionInfo info;
  for (const std::string& name : option.get_snames()) info.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) info.names.push_back("--" + name);
  const bool argument = info.names.empty();
  if (argument) info.names.push_back(option.get_name());
  const std::string type = option.get_type_name();
  info.choices = choices_in(type);
  if (!argument && option.get_items_expected_max() > 0 && info.choices.empty())
    info.value = value_in(type);
  info.doc = option.get_description();
  info.required = option.get_required();
  info.repeats = option.get_multi_option_policy() == CLI::MultiOptionPolicy::TakeAll;
  return info;
}

}  // namespace

CommandInfo describe(const CLI::App& app) {
  CommandInfo info{.name = app.get_name(),
                   .doc = app.get_description(),
                   .footer = app.get_footer(),
                   .options = {},
                   .commands = {}};
  for (const CLI::Option* option : app.get_options())
    if (!option->get_group().empty()) info.options.push_back(describe(*option));
  // std::ranges::stable_partition does not compile with clang 14.
  std::stable_partition(info.options.begin(), info.options.end(),
                        [](const OptionInfo& option) { return option.is_argument(); });
  for (const CLI::App* command : app.get_subcommands(nullptr))
    if (!command->get_group().empty()) info.commands.push_back(describe(*command));
  return info;
}

OrderedJson to_json(const CommandInfo& command) {
  OrderedJson options = OrderedJson::array(), commands = OrderedJson::array();
  for (const OptionInfo& option : command.options)
    options.push_back({{"names", option.names},
                       {"value", option.value},
                       {"doc", option.doc},
                       {"choices", option.choices},
                       {"required", option.required},
                       {"repeats", option.repeats}});
  for (const CommandInfo& inner : command.commands) commands.push_back(to_json(inner));
  return {{"name", command.name},
          {"doc", command.doc},
          {"footer", command.footer},
          {"options", std::move(options)},
          {"commands", std::move(commands)}};
}

CommandInfo command_from_json(const OrderedJson& json) {
  CommandInfo command{.name = json.at("name"),
                      .doc = json.at("doc"),
                      .footer = json.at("footer"),
                      .options = {},
                      .commands = {}};
  for (const OrderedJson& option : json.at("options"))
    command.options.push_back({.names = option.at("names"),
                               .value = option.at("value"),
                               .doc = option.at("doc"),
                               .choices = option.at("choices"),
                               .required = option.at("required"),
                               .repeats = option.at("repeats")});
  for (const OrderedJson& inner : json.at("commands"))
    command.commands.push_back(command_from_json(inner));
  return command;
}

}  // namespace flow::cli
