// The commands of a run, from its start to its end: each is one process for the whole run, or one
// process for each event.
#include "runtime/io/commands.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>

#include "runtime/base/text.h"
#include "runtime/io/command_process.h"

namespace flow::io {

namespace {

using Reached = Process::Reached;

/// Seconds to wait for the end of a command that does not set a timeout.
constexpr double kEnd = 30;

/// A command that starts a process for each event and passes the arrays on its standard input.
class SpawnCommand : public CommandProcess {
 public:
  using CommandProcess::CommandProcess;
  void start() override { check_numpy(); }
  void close(std::string_view) override {}
  void await_end() override { end_left(); }

  void deliver(const CommandEvent& event) override {
    if (done_) return;
    const std::vector<Encoded> arrays = encode(event);
    std::unique_ptr<Process> process;
    try {
      process = std::make_unique<Process>(
          process_options(event_environment(context_.job, event, arrays)));
    } catch (const RunError& error) {
      return fail(&event, error.what(), error.hint());
    }
    const Deadline deadline = deadline_in(options_.timeout);
    // A failed write is no error: a command may ignore its arrays.
    send(*process, {}, arrays, deadline);
    process->close_input();
    if (const auto status = process->wait(deadline)) {
      leave(std::move(process));
      return heed(&event, *status);
    }
    process->end();
    fail_late(&event, "exit");
  }
};

}  // namespace

/// One process for the whole run, which several hooks may share. Events are written to its pipe in
/// order.
class StreamCommand : public CommandProcess {
 public:
  using CommandProcess::CommandProcess;
  bool is_for(const plan::CommandSink& options) const { return options == options_; }
  /// Adds the name of a value that may be delivered to the process.
  void announce(const std::string& name) {
    if (std::ranges::find(names_, name) == names_.end()) names_.push_back(name);
  }

  void start() override {
    check_numpy();
    if (done_) return;
    try {
      process_ = std::make_unique<Process>(process_options({}));
    } catch (const RunError& error) {
      return fail(nullptr, error.what(), error.hint());
    }
    exchange(nullptr, start_line(context_.job, context_.plan_hash, names_, context_.resumed_from),
             {});
  }

  void deliver(const CommandEvent& event) override {
    if (done_) return;
    const std::vector<Encoded> arrays = encode(event);
    exchange(&event, event_line(context_.job, event, arrays), arrays);
  }

  void end_pass(CommandEvent event) override {
    if (done_) return;
    event.where = where_;
    exchange(&event, pass_end_line(context_.job, event), {});
  }

  void close(std::string_view status) override {
    ending_ = true;
    if (!process_) return;
    end_ = deadline_in(options_.timeout.value_or(kEnd));
    // The exit status of the process shows whether this line arrived.
    if (!done_ && !process_->status()) process_->write(end_line(context_.job, status), end_);
    process_->close_input();
  }

  void await_end() override {
    if (!process_) return;
    if (const auto status = process_->wait(end_)) {
      leave(std::move(process_));
      if (!heeded_) heed(nullptr, *status);
      return end_left();
    }
    process_->end();
    fail(nullptr, fmt::format("did not exit within {} s after the end of its input",
                              shortest(options_.timeout.value_or(kEnd))));
  }

 private:
  /// Writes an event and, if the command acknowledges events, waits for the acknowledgment.
  void exchange(const CommandEvent* event, std::string line, const std::vector<Encoded>& arrays) {
    if (process_->status()) return part(event);
    const Deadline deadline = deadline_in(options_.timeout);
    const Reached sent = send(*process_, std::move(line), arrays, deadline);
    if (sent == Reached::kTimeout) return give_up(event, "read its input");
    if (sent == Reached::kClosed) return part(event);
    if (!options_.ack) return;
    const Reached heard = process_->await_newline(deadline);
    if (heard == Reached::kTimeout) return give_up(event, "acknowledge");
    if (heard == Reached::kDone) return;
    if (process_->wait(deadline_in(kMoment))) return part(event);
    fail(event, "closed descriptor 3, so it cannot acknowledge events");
  }

  void give_up(const CommandEvent* event, const std::string& missed) {
    process_->end();
    heeded_ = true;
    fail_late(event, missed);
  }

  /// Handles a process that reads no more input: it has ended, or has only closed its input.
  void part(const CommandEvent* event) {
    done_ = true;
    const auto status = process_->wait(deadline_in(kMoment));
    heeded_ = status.has_value();
    if (!status || status->good())
      return say(event, "closed its input; it receives no more events");
    heed(event, *status);
  }

  std::vector<std::string> names_;
  std::unique_ptr<Process> process_;
  bool heeded_ = false;  // true if its exit status has been handled
  Deadline end_;
};

Commands::Commands(CommandContext context) : context_(std::move(context)) {}

Commands::~Commands() {
  try {
    end("failed");
  } catch (const RunError&) {
    // The run has already failed, and its failure is reported.
  }
}

size_t Commands::add(const plan::CommandSink& options, const std::string& name,
                     const std::string& where) {
  if (options.mode == plan::CommandSink::Mode::kSpawn) {
    commands_.push_back(std::make_unique<SpawnCommand>(options, context_, stop_asked_, where));
    places_.push_back(commands_.back().get());
    return places_.size() - 1;
  }
  auto stream = std::ranges::find_if(
      streams_, [&](const StreamCommand* other) { return other->is_for(options); });
  if (stream == streams_.end()) {
    auto made = std::make_unique<StreamCommand>(options, context_, stop_asked_, where);
    stream = streams_.insert(stream, made.get());
    commands_.push_back(std::move(made));
  }
  (*stream)->announce(name);
  places_.push_back(*stream);
  return places_.size() - 1;
}

void Commands::start() {
  for (const auto& command : commands_) command->start();
}

void Commands::end_pass(const CommandEvent& event) {
  for (const auto& command : commands_) command->end_pass(event);
}

void Commands::end(std::string_view status) {
  if (std::exchange(ended_, true)) return;
  for (const auto& command : commands_) command->close(status);
  std::exception_ptr failure;
  for (const auto& command : commands_) {
    try {
      command->await_end();
    } catch (const RunError&) {
      if (!failure) failure = std::current_exception();
    }
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace flow::io
