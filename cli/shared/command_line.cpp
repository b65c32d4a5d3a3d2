// Parses command lines, reports errors in them, and describes the parser's options as data.
#include "cli/shared/command_line.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <optional>
#include <sstream>

#include "cli/shared/console.h"
#include "flow_version.h"
#include "runtime/base/error.h"
#include "runtime/base/file.h"
#include "runtime/base/text.h"

namespace flow::cli {
namespace {

/// Returns the only possible values, which "TEXT:{cpu,gpu}" lists.
std::vector<std::string> choices_in(const std::string& type) {
  const size_t open = type.find('{'), close = type.rfind('}');
  if (open == type.npos || close == type.npos || close < open) return {};
  return split(std::string_view(type).substr(open + 1, close - open - 1), ',');
}

/// Returns "NAME[:N]" for "NAME[:N]:CHECK". The names of checks follow the name of the value.
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

/// The words of a command line, grouped by purpose.
struct Words {
  std::vector<std::string> command;  // the name of the command, and the flags before it
  std::vector<std::string> options;  // each value is a separate word
  std::vector<std::string> arguments;
  bool lacks_value = false;  // true if the last option lacks its value
};

const CLI::App* find_command(const CLI::App& app, const std::string& word) {
  for (const CLI::App* command : app.get_subcommands(nullptr))
    if (command->get_name() == word) return command;
  return nullptr;
}

/// Returns true if the word is an option. Negative numbers are values.
bool is_option(std::string_view word) {
  return word.size() > 1 && word[0] == '-' && !(word[1] >= '0' && word[1] <= '9');
}

/// Splits "--set=a=1" into "--set" and "a=1", and "-oDIR" or "-o=DIR" into "-o" and "DIR".
std::pair<std::string, std::optional<std::string>> split_option(const std::string& word) {
  const size_t end = word.starts_with("--") ? word.find('=') : 2;
  if (end >= word.size()) return {word, {}};
  return {word.substr(0, end), word.substr(end + (word[end] == '=' ? 1 : 0))};
}

Words take_apart(const CLI::App& app, int argc, char** argv) {
  const std::vector<std::string> given(argv + std::min(argc, 1), argv + argc);
  Words words;
  const CLI::App* at = &app;
  size_t i = 0;
  if (app.get_require_subcommand_min() > 0)
    while (i < given.size() && is_option(given[i])) ++i;
  if (i < given.size())
    if (const CLI::App* command = find_command(app, given[i])) at = command;
  if (at == &app)
    i = 0;
  else
    words.command.assign(given.begin(), given.begin() + static_cast<std::ptrdiff_t>(++i));
  for (; i < given.size() && given[i] != "--"; ++i) {
    if (!is_option(given[i])) {
      words.arguments.push_back(given[i]);
      continue;
    }
    const auto [name, value] = split_option(given[i]);
    const CLI::Option* option = at->get_option_no_throw(name);
    const bool takes_value = option && option->get_items_expected_max() > 0;
    words.options.push_back(takes_value ? name : given[i]);
    if (!takes_value) continue;
    if (value)
      words.options.push_back(*value);
    else if (i + 1 < given.size())
      words.options.push_back(given[++i]);
    else
      words.lacks_value = true;
  }
  if (i < given.size())
    words.arguments.insert(words.arguments.end(),
                           given.begin() + static_cast<std::ptrdiff_t>(i) + 1, given.end());
  return words;
}

/// Returns the words in reverse, as the parser requires. The arguments come last on the command
/// line, so that the parser takes none of them for the value of an option or for a command.
std::vector<std::string> in_parsing_order(Words words) {
  if (words.lacks_value) words.arguments.clear();  // makes the parser report the last word
  if (!words.arguments.empty()) words.arguments.insert(words.arguments.begin(), "--");
  std::vector<std::string> all = std::move(words.command);
  for (auto* more : {&words.options, &words.arguments})
    all.insert(all.end(), more->begin(), more->end());
  std::ranges::reverse(all);
  return all;
}

std::vector<std::string> flags_of(const CLI::App& app) {
  std::vector<std::string> flags;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
  return flags;
}

/// Returns the innermost subcommand of the command line, whose usage is wrong.
const CLI::App& reached(const CLI::App& app) {
  const auto subcommands = app.get_subcommands();
  return subcommands.empty() ? app : reached(*subcommands.back());
}

/// A flag of other tools, and the flag or job-file key to use instead.
struct ForeignFlag {
  std::string_view theirs, ours, hint;
};
constexpr ForeignFlag kForeignFlags[] = {
    {"--out", "--output", "did you mean -o?"},
    {"--outdir", "--output", "did you mean -o?"},
    {"--output-dir", "--output", "did you mean -o?"},
    {"--cpu", "--device", "did you mean --device cpu?"},
    {"--gpu", "--device", "did you mean --device gpu?"},
    {"--cuda", "--device", "did you mean --device gpu?"},
    {"--checkpoint", "--load", "did you mean --load?"},
    {"--weights", "--load", "did you mean --load?"},
    {"--overwrite", "--force", "did you mean --force?"},
    {"--file", "--set", "name the job file without a flag"},
    {"--config", "--set", "name the job file without a flag"},
    {"--job", "--load", "name the job without a flag, before the file"},
    {"--epochs", "--set", "set it in the job file, or with --set jobs.train.run.epochs=10"},
    {"--seed", "--set", "set it in the job file, or with --set seed=7"},
    {"--lr", "--set", "set it in the job file, or with --set vars.lr=0.02"},
    {"--learning-rate", "--set", "set it in the job file, or with --set vars.lr=0.02"},
    {"--batch", "--set", "set it in the job file, or with --set vars.batch=64"},
    {"--batch-size", "--set", "set it in the job file, or with --set vars.batch=64"},
};

/// Returns a hint for an unknown flag.
std::string nearest_flag(const CLI::App& app, int argc, char** argv) {
  const std::vector<std::string> flags = flags_of(app);
  const auto known = [&](std::string_view flag) { return std::ranges::count(flags, flag) > 0; };
  for (int i = 1; i < argc; ++i) {
    const std::string given = argv[i], word = split(given, '=').front();
    if (const size_t space = given.find(' '); known(given.substr(0, space)) && space != given.npos)
      return fmt::format("write two words: {} \"{}\"", given.substr(0, space),
                         given.substr(space + 1));
    if (!word.starts_with("--") || known(word)) continue;
    const auto foreign = std::ranges::find(kForeignFlags, word, &ForeignFlag::theirs);
    if (foreign != std::end(kForeignFlags) && known(foreign->ours))
      return std::string(foreign->hint);
    if (word.find('.') != word.npos && known("--set")) {
      const std::string path = given.substr(2);
      const char* value = path.find('=') != path.npos ? "" : i + 1 < argc ? argv[i + 1] : "VALUE";
      return fmt::format("did you mean --set {}{}{}?", path, *value ? "=" : "", value);
    }
    const auto near = suggest(word, flags);
    if (!near.empty()) return fmt::format("did you mean {}?", near.front());
  }
  return {};
}

/// Returns a hint for an unexpected word: the value of a flag that takes none, or an output
/// directory.
std::string hint_at_word(const CLI::App& app, const std::string& word, int argc, char** argv) {
  const auto is_file = [](const std::string& text) { return fs::path(text).has_extension(); };
  for (int i = 2; i < argc; ++i) {
    const std::string flag = argv[i - 1], value = argv[i];
    const CLI::Option* option = app.get_option_no_throw(flag);
    if (!option || option->get_items_expected_max() > 0) continue;
    const bool of_run = option->get_description().find("DIR") != std::string::npos;
    // In `JOB --resume DIR FILE`, the parser took DIR for FILE.
    if (value != word && !(of_run && i > 2 && is_file(word) && !is_file(value))) continue;
    if (option->get_description().find(flag + "=") != std::string::npos)
      return fmt::format("write the value with `=`: {}={}", flag, value);
    return of_run ? fmt::format("{} takes no value; name the directory with -o: -o {} {}", flag,
                                value, flag)
                  : flag + " takes no value";
  }
  const bool folder = !is_file(word) && !word.starts_with('-');
  return folder && app.get_option_no_throw("-o") ? fmt::format("did you mean -o {}?", word) : "";
}

/// Returns the parser's message with a lower-case first letter. "JOB is required" stays unchanged.
std::string lower_first(std::string text) {
  if (text.size() > 1 && std::islower(static_cast<unsigned char>(text[1])))
    text[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(text[0])));
  return text;
}

/// Removes the second of two blank lines, which the parser prints between groups of options.
std::string with_single_blank_lines(std::string text) {
  for (size_t at = 0; (at = text.find("\n\n\n", at)) != text.npos;) text.erase(at, 1);
  return text;
}

struct Complaint {
  std::string message, hint;
};

/// Returns the complaint about a missing or unknown command.
std::optional<Complaint> command_complaint(const CLI::App& app, int argc, char** argv) {
  std::vector<std::string> commands;
  for (const CLI::App* command : app.get_subcommands(nullptr))
    if (!command->get_group().empty()) commands.push_back(command->get_name());  // not hidden
  if (commands.empty() || app.get_require_subcommand_min() == 0) return {};
  const std::string hint = "use one of " + join(commands, ", ");
  if (argc < 2) return Complaint{"missing command", hint};
  const std::string word = argv[1];
  if (word.starts_with('-')) return Complaint{fmt::format("unexpected argument {}", word), hint};
  const auto near = suggest(word, commands);
  std::error_code unknown;
  if (near.empty() && fs::is_regular_file(word, unknown) &&
      std::ranges::count(commands, "check") > 0)
    return Complaint{fmt::format("missing command before {}", word),
                     fmt::format("to check it, run {} check {}", app.get_name(), word)};
  return Complaint{fmt::format("unknown command `{}`", word),
                   near.empty() ? hint : fmt::format("did you mean `{}`?", near.front())};
}

/// Returns the complaint about an unknown command before `--help`.
std::optional<Complaint> misnamed_command(const CLI::App& app, int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-' || &reached(app) != &app) return {};
  return command_complaint(app, argc, argv);
}

/// Rewrites the parser's message "--device: cuda not in {auto,cpu,gpu}".
std::optional<Complaint> choice_complaint(const std::string& message) {
  constexpr std::string_view kBefore = ": ", kBetween = " not in {";
  const size_t name = message.find(kBefore), word = name + kBefore.size();
  const size_t end = message.find(kBetween);
  if (name == message.npos || end == message.npos || end < word) return {};
  const std::string given = message.substr(word, end - word);
  const std::string list = message.substr(end + kBetween.size());
  const std::vector<std::string> choices = split(list.substr(0, list.find('}')), ',');
  const auto near = suggest(given.starts_with("cuda") ? "gpu" : given, choices);
  return Complaint{fmt::format("{} is `{}`; expected {}", message.substr(0, name), given,
                               quoted_alternatives(choices)),
                   near.empty() ? "" : fmt::format("did you mean `{}`?", near.front())};
}

Complaint complaint(const CLI::App& app, const CLI::ParseError& error, int argc, char** argv) {
  const CLI::App& at = reached(app);
  if (&at == &app)
    if (auto found = command_complaint(app, argc, argv)) return *found;
  std::string message = lower_first(error.what());
  std::string hint = nearest_flag(at, argc, argv);
  if (dynamic_cast<const CLI::ExtrasError*>(&error)) {
    std::vector<std::string> extras = app.remaining(true);
    std::erase(extras, "--");  // in_parsing_order added it
    message = fmt::format("unexpected {} {}", extras.size() == 1 ? "argument" : "arguments",
                          join(extras, " "));
    if (hint.empty()) hint = hint_at_word(at, extras.front(), argc, argv);
  }
  if (const auto choice = choice_complaint(message)) {
    message = choice->message;
    if (hint.empty()) hint = choice->hint;
  }
  const std::string command = &at == &app ? app.get_name() : app.get_name() + " " + at.get_name();
  if (hint.empty()) hint = fmt::format("run `{} --help` for usage", command);
  return {message, hint};
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

void configure(CLI::App& app, const std::string& name, std::function<std::string()> as_json) {
  const char* doc =
      as_json ? "print the version; with --json also devices and libraries" : "print the version";
  const auto version = [&app, name, as_json = std::move(as_json)] {
    const CLI::Option* json = as_json ? app.get_option_no_throw("--json") : nullptr;
    return json && json->count() > 0 ? as_json() : name + " " FLOW_VERSION;
  };
  app.set_version_flag("--version", version, doc);
  app.set_help_flag("-h,--help", "print this help");
  app.get_formatter()->column_width(34);
  app.get_formatter()->label("SUBCOMMAND", "COMMAND");
  // The last of several values applies, so that scripts can append flags to existing ones.
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  app.failure_message(
      [](const CLI::App*, const CLI::Error& error) { return std::string(error.what()); });
}

std::vector<std::string> arguments_in(const CLI::App& app, int argc, char** argv) {
  return take_apart(app, argc, argv).arguments;
}

int parse(CLI::App& app, int argc, char** argv) {
  if (argc == 2 && argv[1] == kDescribeFlag) {
    print(Json(describe(app)).dump(1) + "\n");
    return kDone;
  }
  try {
    app.parse(in_parsing_order(take_apart(app, argc, argv)));
    return -1;
  } catch (const CLI::Success& success) {
    if (const auto wrong = misnamed_command(app, argc, argv)) {
      print_error(app.get_name().c_str(), wrong->message, wrong->hint);
      return kRequestWrong;
    }
    if (dynamic_cast<const CLI::CallForVersion*>(&success)) {
      print(success.what() + std::string("\n"));
      return kDone;
    }
    std::ostringstream out;
    const int status = app.exit(success, out, out);
    print_folded(with_single_blank_lines(out.str()));
    return status;
  } catch (const CLI::ParseError& error) {
    const auto [message, hint] = complaint(app, error, argc, argv);
    print_error(app.get_name().c_str(), message, hint);
    return kRequestWrong;
  }
}

}  // namespace flow::cli
