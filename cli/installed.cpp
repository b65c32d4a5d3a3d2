// The place of the running program.
#include "cli/installed.h"

namespace flow::cli {

fs::path installed_jobs() {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  if (error) return {};
  fs::path jobs = program.parent_path().parent_path() / "share/flow/jobs";
  return fs::is_directory(jobs, error) ? jobs : fs::path();
}

}  // namespace flow::cli
