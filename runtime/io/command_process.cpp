// Starts commands, writes to them, and handles how they end.
#include "runtime/io/command_process.h"

#include <fmt/format.h>

#include <fstream>
#include <regex>

#include "runtime/base/error.h"
#include "runtime/base/text.h"
#include "runtime/plan/model/environment_text.h"

namespace flow::io {

namespace {

constexpr int kStop = 10;       // the exit status that asks the run to stop
constexpr double kSilence = 1;  // seconds that a stopping run waits before it prints a message

std::string owner_text(const CommandEvent& event) {
  if (event.kind == "return") return "the return";
  if (event.kind == "pass_end") return "the end of a pass";
  return fmt::format("{} `{}`", event.kind, event.name);
}

constexpr double kLongestSearch = 10;  // seconds
constexpr int kLongestScript = 2'000;  // lines; imports are at the top

bool imports_numpy(const fs::path& script) {
  static const std::regex import(R"(^\s*(import|from)\s+(numpy|flowhook)\b.*)");
  std::ifstream file(script);
  std::string line;
  for (int i = 0; i < kLongestScript && std::getline(file, line); ++i)
    if (line.size() < 1'000 && std::regex_match(line, import)) return true;
  return false;
}

/// Returns true if the command runs a Python script that imports NumPy, directly or through
/// `flowhook`, and that Python has no NumPy. Returns false if this cannot be decided.
bool lacks_numpy(const ProcessOptions& command) {
  static const std::regex python(R"((.*/)?python[0-9.]*)");
  const std::vector<std::string>& words = command.words;
  if (words.size() < 2 || !std::regex_match(words[0], python)) return false;
  const fs::path script = command.directory / words[1];
  std::error_code unreadable;
  if (!fs::is_regular_file(script, unreadable) || !imports_numpy(script)) return false;

  constexpr int kMissing = 3;
  ProcessOptions search = command;
  search.words = {words[0], "-c",
                  "import importlib.util, sys; "
                  "sys.exit(0 if importlib.util.find_spec('numpy') else 3)"};
  search.acknowledges = false;
  try {
    Process process(search);
    process.close_input();
    const auto status = process.wait(deadline_in(kLongestSearch));
    return status && status->code == kMissing;
  } catch (const RunError&) {  // If Python is missing, starting the command reports it.
    return false;
  }
}

}  // namespace

ProcessOptions CommandProcess::process_options(std::map<std::string, std::string> environment) {
  ProcessOptions process;
  process.words = options_.run;
  if (options_.shell) process.words = {"/bin/sh", "-c", options_.run[0]};
  process.environment = std::move(environment);
  for (const auto& [name, text] : options_.env)
    process.environment.emplace(name, plan::with_environment(text));
  process.environment["FLOW_RUN_DIR"] = context_.run_directory.string();
  process.hides_launcher = context_.hides_launcher;
  process.directory = context_.directory;
  process.output_to_stderr = context_.output_to_stderr;
  process.acknowledges = options_.ack;
  if (context_.stopping) process.stopping = [this] { return is_stopping(); };
  process.patience = context_.patience;
  process.watchdog = context_.watchdog;
  return process;
}

void CommandProcess::check_numpy() {
  if (options_.shell || !lacks_numpy(process_options({}))) return;
  fail(nullptr, fmt::format("needs NumPy, which `{}` cannot import", options_.run[0]),
       fmt::format("install it (`{} -m pip install numpy`), or run a Python that has it, such as "
                   "/usr/bin/python3 with the package python3-numpy",
                   options_.run[0]));
}

std::vector<Encoded> CommandProcess::encode(const CommandEvent& event) const {
  std::vector<Encoded> arrays;
  arrays.reserve(event.arrays.size());
  for (const NamedArray& array : event.arrays) arrays.emplace_back(array, options_.format);
  return arrays;
}

Process::Reached CommandProcess::send(Process& process, std::string text,
                                      const std::vector<Encoded>& arrays, Deadline deadline) {
  constexpr size_t kSmall = 65536;  // bytes; smaller arrays share one write with their neighbors
  for (const Encoded& array : arrays) {
    text += array.head;
    if (!array.body.data) continue;
    const std::span<const std::byte> body(array.body.data, array.body.bytes());
    if (body.size() <= kSmall) {
      text.append(reinterpret_cast<const char*>(body.data()), body.size());
      continue;
    }
    if (const auto reached = process.write(text, deadline); reached != Process::Reached::kDone)
      return reached;
    text.clear();
    if (const auto reached = process.write(body, deadline); reached != Process::Reached::kDone)
      return reached;
  }
  return process.write(text, deadline);
}

std::string CommandProcess::place(const CommandEvent* event) const {
  const std::string command = shortened(command_text(options_));
  if (!event) return fmt::format("{}: the command `{}`", where_, command);
  return fmt::format("{}: step {}: the command `{}` of {}", event->where, event->step, command,
                     owner_text(*event));
}

void CommandProcess::fail(const CommandEvent* event, const std::string& what,
                          const std::string& hint) {
  done_ = true;
  const std::string message = fmt::format("{} {}", place(event), what);
  if (options_.on_error == plan::CommandSink::OnError::kFail)
    throw RunError(message, hint.empty()
                                ? "to continue without it, use `on_error: warn` or --no-commands"
                                : hint);
  if (context_.say) context_.say(message + "; continuing without it");
}

void CommandProcess::say(const CommandEvent* event, const std::string& what) const {
  if (context_.say) context_.say(fmt::format("{} {}", place(event), what));
}

void CommandProcess::heed(const CommandEvent* event, const ExitStatus& status) {
  if (status.good()) return;
  if (status.signal != 0 || status.code != kStop) return fail(event, status.str());
  // At the end of the run there is nothing left to stop.
  if (!ending_ && !stop_asked_.exchange(true)) say(event, "asked the run to stop");
}

void CommandProcess::fail_late(const CommandEvent* event, const std::string& missed) {
  const bool own = options_.timeout && *options_.timeout <= context_.patience;
  if (own || !context_.stopping || !context_.stopping())
    return fail(event, fmt::format("did not {} within {} s", missed,
                                   shortest(options_.timeout.value_or(0))));
  done_ = true;
  say(event, fmt::format("did not {} within {} s after the stop request, and was ended{}", missed,
                         shortest(context_.patience), event ? "; it missed this event" : ""));
}

void CommandProcess::leave(std::unique_ptr<Process> process) {
  std::erase_if(left_, [](const auto& other) { return other->group_has_ended(); });
  if (!process->group_has_ended()) left_.push_back(std::move(process));
}

void CommandProcess::end_left() {
  const Deadline moment = deadline_in(kMoment);
  std::erase_if(left_, [&](const auto& process) { return process->await_group(moment); });
  if (left_.empty()) return;
  say(nullptr, "left background processes, which end with the run");
  for (const auto& process : left_) process->ask_to_end();
  left_.clear();
}

bool CommandProcess::is_stopping() {
  if (!context_.stopping()) return false;
  if (!says_so_) says_so_ = deadline_in(kSilence);
  if (!has_said_so_ && std::chrono::steady_clock::now() >= *says_so_) {
    has_said_so_ = true;
    say(nullptr, fmt::format("is still running; the run waits up to {} s for it",
                             shortest(context_.patience)));
  }
  return true;
}

std::string command_text(const plan::CommandSink& options) {
  return options.shell ? options.run[0] : command_line(options.run);
}

}  // namespace flow::io
