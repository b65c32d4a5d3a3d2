// A directory for what a command needs while it works.
#pragma once

#include <string>

#include "runtime/base/file.h"

namespace flow::cli {

/// In the system's folder of temporary files; removed in the end.
class WorkDirectory {
 public:
  /// `program`: begins its name. RunError when it cannot be made.
  explicit WorkDirectory(const std::string& program);
  ~WorkDirectory();
  WorkDirectory(const WorkDirectory&) = delete;
  WorkDirectory& operator=(const WorkDirectory&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

}  // namespace flow::cli
