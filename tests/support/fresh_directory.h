// A directory of a test's own, removed with all that is in it when the test ends.
#pragma once

#include <stdlib.h>

#include <stdexcept>
#include <string>

#include "runtime/base/file.h"

namespace flow {

class FreshDirectory {
 public:
  FreshDirectory() : FreshDirectory(fs::temp_directory_path()) {}
  explicit FreshDirectory(const fs::path& parent) {
    std::string pattern = (parent / "flow-test-XXXXXX").string();
    if (!mkdtemp(pattern.data())) throw std::runtime_error("mkdtemp failed");
    path_ = pattern;
  }
  ~FreshDirectory() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  FreshDirectory(const FreshDirectory&) = delete;
  FreshDirectory& operator=(const FreshDirectory&) = delete;

  const fs::path& path() const { return path_; }
  fs::path operator/(const fs::path& name) const { return path_ / name; }

 private:
  fs::path path_;
};

}  // namespace flow
