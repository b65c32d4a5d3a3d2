// Runs of flowrun for a command that needs them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "cli/shared/work_directory.h"
#include "runtime/io/keeper.h"

namespace flow::cli {

class FlowrunChild {
 public:
  /// `program`: that needs them, for the names of its temporary files.
  explicit FlowrunChild(const std::string& program) : work_(program) {}

  /// Runs `flowrun WORDS...` and waits; empty where it succeeded, else the first line that it
  /// printed.
  std::string run(const std::vector<std::string>& words,
                  const std::map<std::string, std::string>& environment = {}) const;
  /// For what runs write; removed in the end.
  const fs::path& directory() const { return work_.path(); }

 private:
  const io::Keeper keeper_;
  const WorkDirectory work_;
};

}  // namespace flow::cli
