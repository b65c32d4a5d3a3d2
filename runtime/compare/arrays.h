// The arrays of a file, a folder or a run directory, by name.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/array.h"
#include "runtime/base/file.h"
#include "runtime/io/npy.h"

namespace flow::compare {

enum class Kind { kFile, kArchive, kFolder, kRun };
/// "a directory"
const char* words_for(Kind kind);

/// One side of a comparison.
struct Side {
  fs::path path;
  Kind kind = Kind::kFolder;
  /// By name, which is the path below the folder without .npy: an .npy file, or an array of an .npz
  /// file as if that were a folder, "golden/weights.npz/dense/bias".
  std::map<std::string, fs::path> arrays;
  fs::path checkpoint;  // of a run: its newest, or empty

  bool has(const std::string& name) const { return arrays.contains(name); }
  /// The step of the newest checkpoint, where its name is one.
  std::optional<int64_t> checkpoint_step() const;
};

/// A folder of .npy and .npz files, an .npz file, a run directory (then returns/, watch/, also/
/// and, as checkpoint/, its newest checkpoint), or a file, whose name is its stem. Links are
/// followed. RequestError when `path` does not exist, RunError when it cannot be read.
Side list_side(const fs::path& path);

/// RequestError unless both are of one kind.
void require_same_kind(const Side& golden, const Side& out);

/// What the name of an array says of its step: "watch/x/000020", "watch/x/diff_000020".
struct NameOfStep {
  std::string stem;  // "watch/x/", "watch/x/diff_"
  int64_t step = 0;
};
std::optional<NameOfStep> step_in_name(const std::string& name);

/// Is it, by its name, the array of the numbers of the steps of another: "returns/loss/steps"?
bool has_step_numbers(const std::string& name);

/// The step of each index of the first axis of an array with `extent` of them, from steps.npy next
/// to it; of an array of one step a single step: from its name, or the checkpoint's. Empty where
/// nothing says.
std::vector<int64_t> steps_of(const Side& side, const std::string& name, int64_t extent);
/// The same, with the extent that the file has. Empty also for a file that is absent or damaged.
std::vector<int64_t> steps_of_file(const Side& side, const std::string& name);

/// The file that an array of a side is in.
fs::path file_of(const fs::path& array);

/// An array of a side, opened: mapped where it is an .npy, else unpacked.
class OpenArray {
 public:
  /// RunError as io::parse_npy and io::Npz.
  explicit OpenArray(const fs::path& path);
  const ArrayView& view() const { return mapped_ ? mapped_->view() : view_; }

  /// Calls `read`. RunError where the file has become shorter by then.
  template <typename Read>
  void recovering(Read read) const {
    mapped_ ? mapped_->recovering(read) : read();
  }

 private:
  std::optional<io::MappedNpy> mapped_;
  Array unpacked_;
  ArrayView view_;
};

/// The same, in memory.
Array read_array(const fs::path& path);
/// Its header, of which the length is checked.
io::NpyHeader read_header(const fs::path& path);

}  // namespace flow::compare
