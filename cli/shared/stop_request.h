// Signals that ask a command to end, which then removes what it made and dies of the signal.
#pragma once

#include <exception>

namespace flow::cli {

/// Catches SIGINT, SIGTERM and SIGHUP, unless they are ignored. A wait for a child is not
/// restarted.
void catch_stop_requests();

/// Has one of them come?
bool is_stopping();

/// Dies of the signal, as its sender expects. REQUIRES: is_stopping().
void end_as_asked();

/// Leaves what a command is doing once is_stopping() is true.
struct Stopped : std::exception {
  const char* what() const noexcept override { return "stopped by a signal"; }
};

}  // namespace flow::cli
