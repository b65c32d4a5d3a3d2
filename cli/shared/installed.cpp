// The place of the running program.
#include "cli/shared/installed.h"

namespace flow::cli {

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

}  // namespace flow::cli
