// One process for the whole run: events into its pipe, in order.
#include <fmt/format.h>

#include <algorithm>

#include "runtime/base/text.h"
#include "runtime/io/command_process.h"

namespace flow::io {

namespace {

using Reached = Process::Reached;

/// How long the end of a command is awaited where it does not say. In seconds.
constexpr double kEnd = 30;

}  // namespace

void StreamCommand::announce(const std::string& name) {
  if (std::ranges::find(names_, name) == names_.end()) names_.push_back(name);
}

void StreamCommand::start() {
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

void StreamCommand::deliver(const CommandEvent& event) {
  if (done_) return;
  const std::vector<Encoded> arrays = encode(event);
  exchange(&event, event_line(context_.job, event, arrays), arrays);
}

void StreamCommand::end_pass(CommandEvent event) {
  if (done_) return;
  event.where = where_;
  exchange(&event, pass_end_line(context_.job, event), {});
}

/// Hands an event over and, where it acknowledges, waits for that.
void StreamCommand::exchange(const CommandEvent* event, std::string line,
                             const std::vector<Encoded>& arrays) {
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

void StreamCommand::give_up(const CommandEvent* event, const std::string& missed) {
  process_->end();
  heeded_ = true;
  fail_late(event, missed);
}

/// It reads no more: it has ended, or only closed its input.
void StreamCommand::part(const CommandEvent* event) {
  done_ = true;
  const auto status = process_->wait(deadline_in(kMoment));
  heeded_ = status.has_value();
  if (!status || status->good()) return say(event, "closed its input; it receives no more events");
  heed(event, *status);
}

void StreamCommand::close(std::string_view status) {
  ending_ = true;
  if (!process_) return;
  end_ = deadline_in(options_.timeout.value_or(kEnd));
  // Whether that reaches it is told by how it ends.
  if (!done_ && !process_->status()) process_->write(end_line(context_.job, status), end_);
  process_->close_input();
}

void StreamCommand::await_end() {
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

}  // namespace flow::io
