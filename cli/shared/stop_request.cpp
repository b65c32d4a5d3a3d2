// Remembers the signal that asked a command to end.
#include "cli/shared/stop_request.h"

#include <atomic>
#include <csignal>

namespace flow::cli {
namespace {

/// The handler may touch nothing else.
std::atomic<int> requested = 0;

extern "C" void on_stop_request(int signal) { requested = signal; }

}  // namespace

void catch_stop_requests() {
  struct sigaction action {};
  action.sa_handler = on_stop_request;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction before {};
    sigaction(signal, nullptr, &before);
    if (before.sa_handler != SIG_IGN) sigaction(signal, &action, nullptr);
  }
  std::signal(SIGCHLD, SIG_DFL);  // an inherited SIG_IGN would hide how children end
}

bool is_stopping() { return requested != 0; }

void end_as_asked() {
  std::signal(requested, SIG_DFL);
  std::raise(requested);
}

}  // namespace flow::cli
