// Replacing the arrays of a golden folder by those of another one, all at once.
#pragma once

#include <string>
#include <vector>

#include "runtime/base/file.h"

namespace flow::compare {

struct UpdateRequest {
  fs::path golden, out;
  std::string reason;   // for golden.json
  std::string version;  // of the program
  bool prune = false;   // remove arrays that `out` lacks
};

/// Names of arrays, sorted.
struct UpdateReport {
  std::vector<std::string> added, changed, removed;
  std::vector<std::string> kept;  // those that `out` lacks
  size_t unchanged = 0;
};

/// Makes the arrays of `golden`, a folder or run directory, those of `out`, a directory of the same
/// kind, and records them in golden.json. Other files stay. Of runs, plan.json, run.json and
/// metrics.jsonl follow, too, and the newest checkpoint of `out` takes the place of all in
/// `golden`. `golden` is made where it does not exist.
///
/// Builds a complete copy next to `golden`, syncs it, and exchanges the two: when it is killed, or
/// the power fails, `golden` is whole, the old one or the new one. What that leaves behind, a later
/// call removes. RequestError where a request is wrong, another update is running, or the file
/// system cannot exchange directories; RunError when a file cannot be read or written. Both leave
/// `golden` as it was.
UpdateReport update_golden(const UpdateRequest& request);

}  // namespace flow::compare
