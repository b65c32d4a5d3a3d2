// The files that a new golden folder will have, and where each comes from.
#pragma once

#include <map>
#include <set>

#include "runtime/compare/arrays.h"
#include "runtime/compare/update.h"

namespace flow::compare {

struct GoldenTree {
  std::map<fs::path, fs::path> files;      // source, by path below the new folder
  std::map<fs::path, fs::path> links;      // target, of symbolic links that stay
  std::set<fs::path> folders;              // that stay, also without files
  std::map<std::string, fs::path> arrays;  // paths below the new folder, by name
};

/// The tree after an update of `golden` (absent: there is none yet), and what it changes. A file
/// whose bytes are the same comes from `golden`. RequestError where the two cannot become one tree.
GoldenTree plan_golden_tree(const Side* golden, const Side& out, bool prune, UpdateReport& report);

}  // namespace flow::compare
