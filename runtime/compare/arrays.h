// The arrays of a file, a folder or a run directory, by name.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/file.h"

namespace flow::compare {

enum class Kind { kFile, kFolder, kRun };
/// "a directory"
const char* words_for(Kind kind);

/// One side of a comparison.
struct Side {
  fs::path path;
  Kind kind = Kind::kFolder;
  std::map<std::string, fs::path> arrays;  // by name: the path below the folder, without .npy
  fs::path checkpoint;                     // of a run: its newest, or empty

  bool has(const std::string& name) const { return arrays.contains(name); }
  /// The step of the newest checkpoint, where its name is one.
  std::optional<int64_t> checkpoint_step() const;
};

/// A folder of .npy files, a run directory (then returns/, watch/, also/ and, as checkpoint/, its
/// newest checkpoint), or a file, whose name is its stem. Links are followed. RequestError when
/// `path` does not exist, RunError when it cannot be read.
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

}  // namespace flow::compare
