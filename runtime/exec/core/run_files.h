// The files and folders of a run directory.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <utility>

#include "runtime/base/file.h"

namespace flow::exec {

/// The file that a run writes first and that a removal deletes last: it identifies a run directory.
inline constexpr const char* kPlanFile = "plan.json";

/// The file that a run writes last. It records how the run ended.
inline constexpr const char* kRunRecord = "run.json";

/// Contains a line for each logged step of a train job.
inline constexpr const char* kMetricsFile = "metrics.jsonl";

/// The names of the rows that a predict job read from folders of images or tar files, one a line.
inline constexpr const char* kRowsFile = "rows.txt";

/// The fingerprints of the run's last steps (fingerprints.h).
inline constexpr const char* kFingerprintFile = "fingerprints.bin";

/// Contains the operands and results that `--capture` saves of a step.
inline constexpr const char* kCaptureFolder = "capture";

/// A removal first moves everything here, so that an interrupted removal can be recognized.
inline constexpr const char* kRemovedFolder = ".flow-removed";

/// Contains the best state: DIR/best/000400. There are two until the rest of the run's state is
/// saved, too.
inline constexpr const char* kBestFolder = "best";

/// Contains the state that a failed run saves and that no run may resume from.
inline constexpr const char* kRescued = "rescued";

/// Contains the algorithms that a run chose by measured time. A resumed run keeps them.
inline constexpr const char* kAlgorithmsFolder = "algorithms";

/// Everything that a run writes into its directory, in the order of removal: checkpoints go first,
/// so that no run resumes from a checkpoint whose outputs are gone.
inline constexpr std::array kWritten = {
    "checkpoints",    kBestFolder, kRunRecord,        kMetricsFile, "profile.json",
    kFingerprintFile, kRowsFile,   kCaptureFolder,    "returns",    "watch",
    "also",           kRescued,    kAlgorithmsFolder, kPlanFile};

/// Removes temporary files that killed runs left behind, and the rest of an interrupted removal. No
/// other process may be writing.
void remove_temporaries(const fs::path& directory);

/// Throws RequestError if a resumed run would write to files that are not its own: if an entry of
/// `directory` that the run writes is a link that leads out of the directory, or is neither a file
/// nor a folder. The directory itself may be a link. A new run cannot have such links, because it
/// requires an empty directory.
void require_own_files(const fs::path& directory);

/// Returns true if the directory contains only what an interrupted start or removal leaves.
bool has_leftovers_only(const fs::path& directory);

/// Returns true if `path` is the directory `folder` or is below it, after links are resolved.
bool lies_in(const fs::path& path, const fs::path& folder);

/// Returns true if `path` is one of the files or folders that a run writes into `directory`, or
/// contains one of them.
bool is_written(const fs::path& path, const fs::path& directory);

/// Checks that a path keeps leading to the same directory. Otherwise a continuing run could write
/// into the directory of another run.
class SameDirectory {
 public:
  /// Throws RunError if `path` is not a directory.
  explicit SameDirectory(fs::path path);
  /// Throws RunError if the path now leads to another directory or to none.
  void require() const;
  /// Returns when everything in the directory is on the disk. Throws RunError if that fails, or if
  /// anything written since construction could not be stored.
  void sync() const { folder_.sync_file_system(); }

 private:
  fs::path path_;
  Folder folder_;
  std::optional<std::pair<uint64_t, uint64_t>> identity_;  // device and inode number
};

}  // namespace flow::exec
