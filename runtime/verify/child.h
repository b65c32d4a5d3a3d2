// Work in a process of its own, which ends with it: a fork of this one.
#pragma once

#include <functional>
#include <stdexcept>
#include <string>

namespace flow::verify {

/// How the process ended.
struct ChildEnd {
  int status = 0;           // the exit status of a program that ends so
  std::string error, hint;  // where `work` threw
  std::string result;       // what `work` returned
  bool killed = false;      // by SIGKILL
};

/// Somebody asked this process to end.
class Interrupted : public std::runtime_error {
 public:
  Interrupted() : std::runtime_error("interrupted") {}
};

/// Runs `work` in a child, which has memory, threads and devices of its own, and waits for it.
/// Whoever kills this process kills the child. REQUIRES: this process has one thread, and no device
/// in use. RunError where the system gives no process; Interrupted once `stopping` says so.
ChildEnd run_in_child(const std::function<std::string()>& work,
                      const std::function<bool()>& stopping);

}  // namespace flow::verify
