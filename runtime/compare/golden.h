// Golden folders: golden.json, which records the origin and the digests of their arrays, and the
// atomic replacement of all arrays.
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
  /// Facts about the run that made the arrays, copied from its run.json.
  struct Run {
    std::string command;  // "flowrun train lenet.yaml --set vars.lr=0.2"
    std::vector<std::string> overrides;
    std::string plan_hash, device, instruction_set, version;
    std::map<std::string, std::string> libraries;  // "onednn": "2.6.3"
  };
  std::string date;  // "2026-11-26T04:03:34Z"
  std::string reason;
  std::string flow;                           // the version of the program that wrote this record
  std::map<std::string, std::string> arrays;  // digests of the files, by the name of the array
  std::optional<Run> run = {};                // nothing if the arrays do not come from a run
  int version = 1;                            // the version of the file format
};

std::string to_json(const GoldenRecord& record);
/// Throws RequestError with `path` if the text is not a record of this kind.
GoldenRecord golden_from_json(const std::string& text, const std::string& path);

/// Reads the record of a folder or run directory. Returns nothing if there is none. Throws
/// RequestError if the file is not a record, or has more than 64 MiB.
std::optional<GoldenRecord> read_golden_record(const fs::path& folder);

/// Reads run.json of `directory` for a record. Throws RequestError if the run is not complete or
/// has failed.
GoldenRecord::Run read_run(const fs::path& directory);

/// Digests of files. Each file is read once.
class FileDigests {
 public:
  /// Throws RunError if the file cannot be read.
  const std::string& of(const fs::path& file);

 private:
  std::map<fs::path, std::string> known_;
};

/// The differences between the arrays of a folder and its record, which are changes made by hand.
struct HandChanges {
  std::vector<std::string> changed, added, removed;  // names, sorted
};
HandChanges find_hand_changes(const Side& golden, const GoldenRecord& record);

struct UpdateRequest {
  fs::path golden = {}, out = {};
  std::string reason = {};  // the reason for the update, for golden.json
  std::string version;      // the version of the program
  bool prune = false;       // removes the arrays that `out` does not have
};

/// Names of arrays, sorted.
struct UpdateReport {
  std::vector<std::string> added, changed, removed;
  std::vector<std::string> kept;  // golden arrays that `out` does not have
  size_t unchanged = 0;
};

/// Replaces the arrays of `golden`, a folder or run directory, by those of `out`, a directory of
/// the same kind, and records them in golden.json. Other files are kept. For runs, plan.json,
/// run.json and metrics.jsonl are replaced, too, and the newest checkpoint of `out` replaces all
/// checkpoints of `golden`. Creates `golden` if it does not exist.
///
/// Builds a complete copy next to `golden`, syncs it, and exchanges the two. If the process is
/// killed or the power fails, `golden` is complete, either the old or the new one. A later call
/// removes a copy that was left over. Throws RequestError if the request is wrong, if another
/// update is running, or if the file system cannot exchange directories, and RunError if a file
/// cannot be read or written. In all these cases `golden` is unchanged.
UpdateReport update_golden(const UpdateRequest& request);

}  // namespace flow::compare
