// The arrays of a file, a folder or a run directory, by name; their elements as doubles, and how
// the error of an array is distributed: over its elements, and along its axes.
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

using Doubles = std::vector<double>;

/// All elements, in C order; integers beyond 53 bits are rounded.
Doubles doubles_of(const ArrayView& array);

/// Indices of each axis of the element at `flat`.
std::vector<int64_t> index_of(int64_t flat, const Shape& shape);

/// The product of the extents after `axis`.
int64_t stride_of(const Shape& shape, int axis);

/// The sum at each index of `axis`, over all other axes. `values`: of that shape, in C order.
std::vector<double> sums_along(const Doubles& values, const Shape& shape, int axis);

/// out - golden where that is finite, else 0, divided by the largest so that squares neither
/// overflow nor vanish. All 0 where nothing differs.
struct Errors {
  Errors(const Doubles& golden, const Doubles& out);
  /// The square of `residual` in the unit of `squares`.
  double square(double residual) const { return (residual / peak) * (residual / peak); }

  Doubles squares;   // by element
  double peak = 0;   // the largest |out - golden|
  double total = 0;  // of the squares
  int64_t finite = 0;
};

struct ErrorProfile {
  /// Of |out - golden| between finite values, interpolated as NumPy's `percentile` does.
  double median = 0, percentile_90 = 0, percentile_99 = 0;
  /// Of each axis the index with most of the sum of squared errors, and its share of it.
  struct WorstIndex {
    int axis = 0;
    int64_t index = 0;
    double share = 0;
  };
  std::vector<WorstIndex> axes;  // those with two indices or more
};

/// Nothing where no two finite values differ, and of arrays of more than 8 Mi elements.
/// REQUIRES: dtype and shape agree.
std::optional<ErrorProfile> profile_errors(const ArrayView& golden, const ArrayView& out);

}  // namespace flow::compare
