// Golden folders: golden.json, which says where their arrays come from and what they were, and the
// replacement of all arrays at once.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/file.h"
#include "runtime/compare/arrays.h"

namespace flow::compare {

inline constexpr const char* kGoldenRecord = "golden.json";

struct GoldenRecord {
  /// Of the run that made the arrays, as its run.json has it.
  struct Run {
    std::string command;  // "flowrun train lenet.yaml --set vars.lr=0.2"
    std::vector<std::string> overrides;
    std::string plan_hash, device, instruction_set, version;
    std::map<std::string, std::string> libraries;  // "onednn": "2.6.3"
  };
  std::string date;  // "2026-11-26T04:03:34Z"
  std::string reason;
  std::string flow;                           // the version of the program that wrote this
  std::map<std::string, std::string> arrays;  // digests of their files, by the name of the array
  std::optional<Run> run = {};                // nothing: the arrays come from no run
  int version = 1;                            // of this file's form
};

std::string to_json(const GoldenRecord& record);
/// RequestError naming `path` when it is not one.
GoldenRecord golden_from_json(const std::string& text, const std::string& path);

/// That of a folder or run directory; nothing where there is none. RequestError when it is none,
/// or has more than 64 MiB.
std::optional<GoldenRecord> read_golden_record(const fs::path& folder);

/// What run.json of `directory` says, for a record. RequestError where the run is not complete or
/// has failed.
GoldenRecord::Run read_run(const fs::path& directory);

/// Digests of files, each read once.
class FileDigests {
 public:
  /// RunError where it cannot be read.
  const std::string& of(const fs::path& file);

 private:
  std::map<fs::path, std::string> known_;
};

/// Arrays of a folder that are not those of its record.
struct HandChanges {
  std::vector<std::string> changed, added, removed;  // names, sorted
};
HandChanges find_hand_changes(const Side& golden, const GoldenRecord& record);

struct UpdateRequest {
  fs::path golden = {}, out = {};
  std::string reason = {};  // for golden.json
  std::string version;      // of the program
  bool prune = false;       // remove arrays that `out` lacks
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
