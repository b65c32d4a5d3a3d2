// What stands in a run directory.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <utility>

#include "runtime/base/file.h"

namespace flow::exec {

/// What a run writes first, and removing one takes last: by it a directory is known as a run's.
inline constexpr const char* kPlanFile = "plan.json";

/// What a run writes last: how it ended.
inline constexpr const char* kRunRecord = "run.json";

/// A line for each logged step of a train job.
inline constexpr const char* kMetricsFile = "metrics.jsonl";

/// The fingerprints of the run's last steps (fingerprints.h).
inline constexpr const char* kFingerprintFile = "fingerprints.bin";

/// Where `--capture` leaves what a step reads and makes.
inline constexpr const char* kCaptureFolder = "capture";

/// Where what a removal takes away goes first: by it one that was cut short is known.
inline constexpr const char* kRemovedFolder = ".flow-removed";

/// Where the best state goes: DIR/best/000400. There are two until the rest of the run's state is
/// saved, too.
inline constexpr const char* kBestFolder = "best";

/// Where the state goes that a failed run leaves and no run may go on from.
inline constexpr const char* kRescued = "rescued";

/// The algorithms that a run chose by time, which it keeps when it is resumed.
inline constexpr const char* kAlgorithmsFolder = "algorithms";

/// All that a run writes into its directory. The order in which it is removed: without checkpoints
/// nothing is resumed whose outputs are gone.
inline constexpr std::array kWritten = {
    "checkpoints",    kBestFolder,       kRunRecord, kMetricsFile, "profile.json",
    kFingerprintFile, kCaptureFolder,    "returns",  "watch",      "also",
    kRescued,         kAlgorithmsFolder, kPlanFile};

/// Removes the temporary files of runs that were killed while they wrote theirs, and what a removal
/// left that was cut short; nobody else may be writing.
void remove_temporaries(const fs::path& directory);

/// RequestError where a resumed run would write to something else than its own files: where what a
/// run writes into `directory` is a link that leads out of it, or neither a file nor a folder. The
/// directory itself may be a link. No run begins with such links: it takes an empty directory.
void require_own_files(const fs::path& directory);

/// Is nothing in the directory but what a start or a removal leaves that was cut short?
bool has_leftovers_only(const fs::path& directory);

/// Is `path` the directory `folder`, or somewhere below it, links followed?
bool lies_in(const fs::path& path, const fs::path& folder);

/// Is `path` among what a run writes into `directory`, or does it hold some of that?
bool is_written(const fs::path& path, const fs::path& directory);

/// A directory, which is to stay the one that it was: by its path a run that goes on would write
/// into another run's.
class SameDirectory {
 public:
  /// RunError where there is none.
  explicit SameDirectory(fs::path path);
  /// RunError where the path leads to another one now, or to none.
  void require() const;
  /// Returns when all that lies in it is on the disk. RunError when that fails, or when anything
  /// written since this was made could not be kept.
  void sync() const { folder_.sync_file_system(); }

 private:
  fs::path path_;
  Folder folder_;
  std::optional<std::pair<uint64_t, uint64_t>> identity_;  // device and number
};

}  // namespace flow::exec
