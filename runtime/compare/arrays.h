// The arrays of a file, a folder or a run directory by name, and their elements as doubles. Also
// how the error of an array is distributed over its elements and along its axes.
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
/// Returns the words for a kind: "a directory".
const char* words_for(Kind kind);

/// One side of a comparison.
struct Side {
  fs::path path;
  Kind kind = Kind::kFolder;
  /// Files by the name of the array, which is the path below the folder without .npy. The file is
  /// an .npy file, or an array of an .npz file as if that were a folder:
  /// "golden/weights.npz/dense/bias".
  std::map<std::string, fs::path> arrays;
  fs::path checkpoint;  // only for a run: its newest checkpoint, or empty

  bool has(const std::string& name) const { return arrays.contains(name); }
  /// Returns the step of the newest checkpoint if the checkpoint's name is a step.
  std::optional<int64_t> checkpoint_step() const;
};

/// Lists the arrays of a folder of .npy and .npz files, an .npz file, a run directory, or a single
/// file, whose array is named by its stem. A run directory has the arrays in returns/, watch/ and
/// also/, and those of its newest checkpoint as checkpoint/. Follows links. Throws RequestError if
/// `path` does not exist, and RunError if it cannot be read.
Side list_side(const fs::path& path);

/// Throws RequestError unless both sides are of the same kind.
void require_same_kind(const Side& golden, const Side& out);

/// The step in the name of an array: "watch/x/000020", "watch/x/diff_000020".
struct NameOfStep {
  std::string stem;  // "watch/x/", "watch/x/diff_"
  int64_t step = 0;
};
std::optional<NameOfStep> step_in_name(const std::string& name);

/// Returns true if, by its name, the array contains the step numbers of another array:
/// "returns/loss/steps".
bool has_step_numbers(const std::string& name);

/// Returns the step of each index of the first axis of an array, which has the given extent. The
/// steps come from steps.npy next to the array. An array of one step has a single step, which comes
/// from its name or from the checkpoint. Returns an empty list if the steps are unknown.
std::vector<int64_t> steps_of(const Side& side, const std::string& name, int64_t extent);
/// Returns the steps as above, with the extent that is in the file. Returns an empty list also for
/// a file that is absent or damaged.
std::vector<int64_t> steps_of_file(const Side& side, const std::string& name);

/// Returns the file that contains an array of a side.
fs::path file_of(const fs::path& array);

/// An opened array of a side. An .npy file is mapped; an array of an .npz file is unpacked.
class OpenArray {
 public:
  /// Throws RunError under the same conditions as io::parse_npy and io::Npz.
  explicit OpenArray(const fs::path& path);
  const ArrayView& view() const { return mapped_ ? mapped_->view() : view_; }

  /// Calls `read`. Throws RunError if the file has been truncated since it was opened.
  template <typename Read>
  void recovering(Read read) const {
    mapped_ ? mapped_->recovering(read) : read();
  }

 private:
  std::optional<io::MappedNpy> mapped_;
  Array unpacked_;
  ArrayView view_;
};

/// Reads the array into memory.
Array read_array(const fs::path& path);
/// Reads the header of an array, and checks that its length fits the file.
io::NpyHeader read_header(const fs::path& path);

using Doubles = std::vector<double>;

/// Returns all elements in C order. Integers of more than 53 bits are rounded.
Doubles doubles_of(const ArrayView& array);

/// Returns the index along each axis of the element at `flat`.
std::vector<int64_t> index_of(int64_t flat, const Shape& shape);

/// Returns the product of the extents after `axis`.
int64_t stride_of(const Shape& shape, int axis);

/// Returns the sum at each index of `axis`, over all other axes. `values` has that shape and is in
/// C order.
std::vector<double> sums_along(const Doubles& values, const Shape& shape, int axis);

/// The squares of out - golden. A difference that is not finite counts as 0. The differences are
/// divided by the largest one, so that squares neither overflow nor vanish. All are 0 if nothing
/// differs.
struct Errors {
  Errors(const Doubles& golden, const Doubles& out);
  /// Returns the square of `residual` in the unit of `squares`.
  double square(double residual) const { return (residual / peak) * (residual / peak); }

  Doubles squares;   // one for each element
  double peak = 0;   // the largest |out - golden|
  double total = 0;  // the sum of the squares
  int64_t finite = 0;
};

struct ErrorProfile {
  /// Percentiles of |out - golden| over finite values, interpolated like NumPy's `percentile`.
  double median = 0, percentile_90 = 0, percentile_99 = 0;
  /// For an axis, the index with the largest sum of squared errors, and its share of the total.
  struct WorstIndex {
    int axis = 0;
    int64_t index = 0;
    double share = 0;
  };
  std::vector<WorstIndex> axes;  // the axes with two or more indices
};

/// Returns nothing if no two finite values differ, or if an array has more than 8 Mi elements.
/// REQUIRES: dtype and shape agree.
std::optional<ErrorProfile> profile_errors(const ArrayView& golden, const ArrayView& out);

}  // namespace flow::compare
