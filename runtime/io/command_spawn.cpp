// A process for each event, with the arrays on its standard input.
#include <fmt/format.h>

#include "runtime/io/command_process.h"

namespace flow::io {

namespace {

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
    send(*process, {}, arrays, deadline);  // one that does not look at them has its reasons
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

std::unique_ptr<Command> make_spawn(const plan::CommandSink& options, const CommandContext& context,
                                    std::atomic<bool>& stop_asked, const std::string& where) {
  return std::make_unique<SpawnCommand>(options, context, stop_asked, where);
}

}  // namespace flow::io
