// The place of the running program, its directory for temporary files, and the signals that end it.
#include "cli/shared/process.h"

#include <stdlib.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>

#include "runtime/base/file_operations.h"

namespace flow::cli {
namespace {

/// The handler may touch nothing else.
std::atomic<int> requested = 0;

extern "C" void on_stop_request(int signal) { requested = signal; }

}  // namespace

fs::path running_program() {
  std::error_code error;
  return fs::read_symlink("/proc/self/exe", error);
}

fs::path installed_jobs() {
  std::error_code error;
  const fs::path program = running_program();
  if (program.empty()) return {};
  fs::path jobs = program.parent_path().parent_path() / "share/flow/jobs";
  return fs::is_directory(jobs, error) ? jobs : fs::path();
}

WorkDirectory::WorkDirectory(const std::string& program) {
  std::error_code unknown;
  const fs::path folder = fs::temp_directory_path(unknown);
  std::string pattern = ((unknown ? fs::path(P_tmpdir) : folder) / (program + "-XXXXXX")).string();
  if (!::mkdtemp(pattern.data())) throw cannot("create the directory", pattern, errno);
  path_ = pattern;
}

WorkDirectory::~WorkDirectory() { remove_tree(path_); }

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
