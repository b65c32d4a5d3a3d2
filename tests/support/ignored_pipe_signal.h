// A pipe that nobody reads any more is an error here, not a death; as in the programs.
#pragma once

#include <csignal>

namespace flow {

class IgnoredPipeSignal {
 public:
  IgnoredPipeSignal() : before_(std::signal(SIGPIPE, SIG_IGN)) {}
  ~IgnoredPipeSignal() { std::signal(SIGPIPE, before_); }
  IgnoredPipeSignal(const IgnoredPipeSignal&) = delete;
  IgnoredPipeSignal& operator=(const IgnoredPipeSignal&) = delete;

 private:
  void (*before_)(int);
};

}  // namespace flow
