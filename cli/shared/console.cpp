// What all programs share at the terminal.
#include "cli/shared/console.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <optional>
#include <sstream>
#include <system_error>

#include "cli/shared/command_tree.h"
#include "flow_version.h"
#include "runtime/base/display.h"
#include "runtime/base/error.h"
#include "runtime/base/file.h"
#include "runtime/base/memory.h"
#include "runtime/base/text.h"

namespace flow::cli {

namespace {

constexpr const char* kOutputLost = "cannot write to standard output";

bool objects = false;                 // print_errors_as_json()
std::function<bool()> stops_waiting;  // stop_waiting_when()

}  // namespace

bool is_screen(std::FILE* stream) {
  const char* term = std::getenv("TERM");
  return isatty(fileno(stream)) && term && std::string_view(term) != "dumb";
}

int screen_columns(std::FILE* stream) {
  winsize size{};
  if (ioctl(fileno(stream), TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 100;
  return size.ws_col;
}

int columns_of(std::FILE* stream) { return std::clamp(screen_columns(stream), 20, 100); }

bool wants_color(std::FILE* stream) {
  const char* no_color = std::getenv("NO_COLOR");  // no-color.org: an empty text does not count
  return is_screen(stream) && !(no_color && *no_color) && !(objects && stream == stderr);
}

bool write_all(int descriptor, std::string_view text) {
  int idle = 0;  // tenths of a second in which nobody has read, though the run is to stop
  while (!text.empty()) {
    pollfd ready{descriptor, POLLOUT, 0};
    const int found = ::poll(&ready, 1, 100);
    if (found < 0 && errno != EINTR) return false;
    if (found <= 0) {
      if (!stops_waiting || !stops_waiting() || ++idle < 20) continue;
      errno = EPIPE;
      return false;
    }
    idle = 0;
    // A pipe that is ready takes so much at once.
    const ssize_t written =
        ::write(descriptor, text.data(), std::min<size_t>(text.size(), PIPE_BUF));
    if (written >= 0)
      text.remove_prefix(static_cast<size_t>(written));
    else if (errno != EINTR && errno != EAGAIN)
      return false;
  }
  return true;
}

void stop_waiting_when(std::function<bool()> stopping) { stops_waiting = std::move(stopping); }

void print_to_stderr(std::string_view text) { print_painted_to_stderr(escaped_lines(text)); }

void print_painted_to_stderr(std::string_view text) { write_all(STDERR_FILENO, text); }

void print_in_handler(std::string_view text) {
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
}

void print(std::string_view text) { print_painted(escaped_lines(text)); }

void print_painted(std::string_view text) {
  if (!write_all(STDOUT_FILENO, text) && errno != EPIPE) throw RunError(kOutputLost);
}

void print_folded(std::string_view text) {
  print(folded(text, static_cast<size_t>(columns_of(stdout))));
}

std::string json_line(const OrderedJson& object) {
  return escaped(object.dump(-1, ' ', false, OrderedJson::error_handler_t::replace)) + '\n';
}

void print_fitted(std::string_view text) {
  const auto columns = static_cast<size_t>(std::max(20, screen_columns(stdout)));
  print(isatty(STDOUT_FILENO) ? folded(text, columns) : std::string(text));
}

void print_object(const OrderedJson& line) { print_painted_to_stderr(json_line(line)); }

void print_error(const char* program, const std::string& message, const std::string& hint) {
  if (objects) {
    OrderedJson line{{"event", "error"}, {"text", message}};
    if (!hint.empty()) line["hint"] = hint;
    return print_object(line);
  }
  const bool color = wants_color(stderr);
  print_painted_to_stderr(fmt::format("{}: {}error:{} {}\n", program, color ? "\033[1;31m" : "",
                                      color ? "\033[0m" : "", escaped_message(message)));
  if (!hint.empty()) print_to_stderr(fmt::format("   hint: {}\n", escaped_message(hint)));
}

Layout message_layout() { return {wants_color(stderr), columns_of(stderr), objects}; }

void print_messages(const std::string& file, const std::string& messages, size_t errors,
                    const std::vector<OrderedJson>& as_objects) {
  if (!objects) {
    print_painted_to_stderr(messages);
    if (errors > 0)
      print_to_stderr(fmt::format("{}: {}\n", escaped(file), counted(errors, "error")));
  } else if (!messages.empty()) {
    print_object({{"event", errors > 0 ? "error" : "warning"},
                  {"text", trimmed(messages)},
                  {"diagnostics", as_objects}});
  }
}

void print_errors_as_json() {
  objects = true;
  report_out_of_memory_as_object();
}

namespace {

constexpr const char* kReport =
    "this is a bug in flow; please report it with the job file and this message";

/// What is opened is not to take the place of a standard stream that is closed, nor be written to
/// as one.
void open_standard_streams() {
  for (int descriptor = STDIN_FILENO; descriptor <= STDERR_FILENO; ++descriptor)
    if (::fcntl(descriptor, F_GETFD) < 0 && ::open("/dev/null", O_RDWR) < 0) std::abort();
}

/// The first code of the program, before the constructors of libraries: they need memory, too.
[[gnu::section(".preinit_array"), gnu::used]] void (*const kBeforeAll)() = catch_last_bad_alloc;

/// While one lives, a library that calls exit() fails the run: OpenMP's does, once it has reported
/// that it got no memory or thread.
class NoExit {
 public:
  NoExit() {
    active = true;
    std::atexit([] {
      if (active) ::_exit(kRunFailed);
    });
  }
  ~NoExit() { active = false; }
  NoExit(const NoExit&) = delete;
  NoExit& operator=(const NoExit&) = delete;

 private:
  static inline std::atomic<bool> active = false;
};

}  // namespace

int guarded(const char* program, const std::function<int()>& body) {
  prepare_for_little_memory();
  open_standard_streams();
  const NoExit no_exit;
  std::signal(SIGXFSZ, SIG_IGN);  // a file beyond the limit is an error as on a full disk
  std::signal(SIGPIPE, SIG_IGN);  // a reader that has seen enough is no error
  return reported(program, body);
}

int reported(const char* program, const std::function<int()>& body) {
  try {
    return body();
  } catch (const RunError& error) {
    print_error(program, error.what(), error.hint());
    return error.exit_status();
  } catch (const Defect& defect) {
    print_error(program, defect.what(), kReport);
  } catch (const fs::filesystem_error& error) {
    print_error(program,
                fmt::format("cannot access {}: {}", error.path1().string(), error.code().message()),
                "");
    return kRunFailed;
  } catch (const std::bad_alloc&) {
    report_out_of_memory();
    return kRunFailed;
  } catch (const std::system_error& error) {
    print_error(program, error.what(), "");  // no thread to spare, say
    return kRunFailed;
  } catch (const std::exception& error) {
    print_error(program, fmt::format("unexpected error: {}", error.what()), kReport);
  }
  return kDefect;
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
  // The last one counts, so that scripts can add flags to those they have.
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  app.failure_message(
      [](const CLI::App*, const CLI::Error& error) { return std::string(error.what()); });
}

CLI::Option* repeatable(CLI::Option* option) {
  // Otherwise one of them takes every word up to the next option.
  return option->expected(1)->take_all()->allow_extra_args(false);
}

namespace {

/// A command line, taken apart.
struct Words {
  std::vector<std::string> command;  // the name of the command, and flags before it
  std::vector<std::string> options;  // each value in a word of its own
  std::vector<std::string> arguments;
  bool lacks_value = false;  // the last option does
};

const CLI::App* find_command(const CLI::App& app, const std::string& word) {
  for (const CLI::App* command : app.get_subcommands(nullptr))
    if (command->get_name() == word) return command;
  return nullptr;
}

/// Negative numbers are values, not options.
bool is_option(std::string_view word) {
  return word.size() > 1 && word[0] == '-' && !(word[1] >= '0' && word[1] <= '9');
}

/// "--set" and "a=1" of "--set=a=1"; "-o" and "DIR" of "-oDIR" and "-o=DIR".
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

/// For the parser, which wants them backwards: the arguments last, so that none is taken for the
/// value of an option, or for a command.
std::vector<std::string> in_parsing_order(Words words) {
  if (words.lacks_value) words.arguments.clear();  // the parser reports the last word
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

/// The innermost subcommand that was reached: the one whose usage is wrong.
const CLI::App& reached(const CLI::App& app) {
  const auto subcommands = app.get_subcommands();
  return subcommands.empty() ? app : reached(*subcommands.back());
}

/// Flags of other tools, and the flag or job-file key to use instead.
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

/// A hint for an unknown flag.
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

/// A hint for an extra word: the value of a flag that takes none, or an output directory.
std::string hint_at_word(const CLI::App& app, const std::string& word, int argc, char** argv) {
  const auto is_file = [](const std::string& text) { return fs::path(text).has_extension(); };
  for (int i = 2; i < argc; ++i) {
    const std::string flag = argv[i - 1], value = argv[i];
    const CLI::Option* option = app.get_option_no_throw(flag);
    if (!option || option->get_items_expected_max() > 0) continue;
    const bool of_run = option->get_description().find("DIR") != std::string::npos;
    // `JOB --resume DIR FILE` has taken DIR for the file.
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

/// The parser's message, with a lower-case first letter; "JOB is required" is unchanged.
std::string lower_first(std::string text) {
  if (text.size() > 1 && std::islower(static_cast<unsigned char>(text[1])))
    text[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(text[0])));
  return text;
}

/// The parser puts two blank lines between groups of options.
std::string with_single_blank_lines(std::string text) {
  for (size_t at = 0; (at = text.find("\n\n\n", at)) != text.npos;) text.erase(at, 1);
  return text;
}

struct Complaint {
  std::string message, hint;
};

/// A missing or unknown command.
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

/// An unknown command before `--help`.
std::optional<Complaint> misnamed_command(const CLI::App& app, int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-' || &reached(app) != &app) return {};
  return command_complaint(app, argc, argv);
}

/// For the parser's "--device: cuda not in {auto,cpu,gpu}".
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
    std::erase(extras, "--");  // of in_parsing_order
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

std::vector<std::string> arguments_in(const CLI::App& app, int argc, char** argv) {
  return take_apart(app, argc, argv).arguments;
}

int parse(CLI::App& app, int argc, char** argv) {
  if (argc == 2 && argv[1] == kDescribeFlag) {
    print(to_json(describe(app)).dump(1) + "\n");
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

std::string human_seconds(double seconds) {
  const auto whole = static_cast<int64_t>(std::llround(seconds));
  if (seconds < 10) return fmt::format("{:.1f} s", seconds);
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole % 3600 / 60);
}

}  // namespace flow::cli
