// A directory for what a command needs while it works.
#include "cli/work_directory.h"

#include <stdlib.h>

#include <cerrno>
#include <cstdio>

namespace flow::cli {

WorkDirectory::WorkDirectory(const std::string& program) {
  std::error_code unknown;
  const fs::path folder = fs::temp_directory_path(unknown);
  std::string pattern = ((unknown ? fs::path(P_tmpdir) : folder) / (program + "-XXXXXX")).string();
  if (!::mkdtemp(pattern.data())) throw cannot("create the directory", pattern, errno);
  path_ = pattern;
}

WorkDirectory::~WorkDirectory() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

}  // namespace flow::cli
