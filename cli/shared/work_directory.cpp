// A directory for what a command needs while it works.
#include "cli/shared/work_directory.h"

#include <stdlib.h>

#include <cerrno>
#include <cstdio>

#include "runtime/base/file_operations.h"

namespace flow::cli {

WorkDirectory::WorkDirectory(const std::string& program) {
  std::error_code unknown;
  const fs::path folder = fs::temp_directory_path(unknown);
  std::string pattern = ((unknown ? fs::path(P_tmpdir) : folder) / (program + "-XXXXXX")).string();
  if (!::mkdtemp(pattern.data())) throw cannot("create the directory", pattern, errno);
  path_ = pattern;
}

WorkDirectory::~WorkDirectory() { remove_tree(path_); }

}  // namespace flow::cli
