// The running program: where it is installed, where it works, and which signals end it.
#pragma once

#include <exception>
#include <string>

#include "runtime/base/file.h"

namespace flow::cli {

/// The file of the running program; empty where the system does not say.
fs::path running_program();

/// PREFIX/share/flow/jobs of the running program; empty where it is not installed.
fs::path installed_jobs();

/// A directory in the system's folder of temporary files, which is removed in the end.
class WorkDirectory {
 public:
  /// `program` begins its name. RunError when it cannot be made.
  explicit WorkDirectory(const std::string& program);
  ~WorkDirectory();
  WorkDirectory(const WorkDirectory&) = delete;
  WorkDirectory& operator=(const WorkDirectory&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

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
