// The commands of a run, from its start to its end.
#include "runtime/io/commands.h"

#include <algorithm>
#include <exception>

#include "runtime/io/command_process.h"

namespace flow::io {

Commands::Commands(CommandContext context) : context_(std::move(context)) {}

Commands::~Commands() {
  try {
    end("failed");
  } catch (const RunError&) {
    // The run has failed already, and that is told.
  }
}

size_t Commands::add(const plan::CommandSink& options, const std::string& name,
                     const std::string& where) {
  if (options.mode == plan::CommandSink::Mode::kSpawn) {
    commands_.push_back(make_spawn(options, context_, stop_asked_, where));
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
