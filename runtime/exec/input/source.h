// The sources of an input's values, and the position in the data that a step reads. The position
// depends only on the step, so that the stages of a run need not exchange it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "runtime/base/array.h"
#include "runtime/base/error.h"
#include "runtime/base/file.h"
#include "runtime/plan/model/plan.h"

namespace flow::exec {

struct Position {
  int64_t epoch = 0;
  int64_t row = 0;             // the first row of the batch, counted in the epoch
  int64_t rows = 0;            // real rows in the batch; 0 if no dataset is read
  bool last_of_epoch = false;  // false if no dataset is read
};

/// The division of a dataset's rows into steps.
class StepIndex {
 public:
  /// Makes an index without a dataset: all steps are in epoch 0.
  StepIndex() = default;
  /// An incomplete last batch is dropped if `drop_incomplete`; otherwise it is a batch with fewer
  /// real rows. REQUIRES: rows >= 0, batch > 0.
  StepIndex(int64_t rows, int64_t batch, bool drop_incomplete);

  bool has_rows() const { return batch_ > 0; }
  int64_t rows() const { return rows_; }
  int64_t batch() const { return batch_; }
  int64_t steps_per_epoch() const { return steps_per_epoch_; }
  /// The number of rows in the incomplete last batch, or 0 if all batches are complete.
  int64_t incomplete_rows() const { return batch_ > 0 ? rows_ % batch_ : 0; }
  /// Returns true if a call may compute on more rows than are real.
  bool pads() const { return !drop_incomplete_ && incomplete_rows() != 0; }
  /// REQUIRES: steps_per_epoch() > 0 if has_rows().
  Position at(int64_t step) const;
  /// Returns the number of epochs that are complete after `steps` steps.
  int64_t epochs_after(int64_t steps) const;

 private:
  int64_t rows_ = 0, batch_ = 0, steps_per_epoch_ = 0;
  bool drop_incomplete_ = true;
};

/// Returns the number of steps in `epochs` epochs, or the largest int64_t on overflow.
int64_t steps_of_epochs(int64_t epochs, int64_t steps_per_epoch);

/// A number of steps or of epochs; the other number is 0.
struct Period {
  int64_t steps = 0, epochs = 0;

  /// Returns the number of periods that are complete after `after` steps.
  int64_t count(const StepIndex& index, int64_t after) const;
  bool ends_at(const StepIndex& index, int64_t after) const {
    return after > 0 && count(index, after) > count(index, after - 1);
  }
  /// Returns the next number of steps, greater than `after`, at which a period ends, or the largest
  /// int64_t if there is none.
  int64_t next_end(const StepIndex& index, int64_t after) const;
};

/// The name of an input in messages, and the required type of its values.
struct InputSpec {
  std::string name;
  DType dtype = DType::kFloat32;
  Shape shape;
  std::string where;  // the origin of its source: a line of the job file, or `--input x`

  size_t bytes() const { return bytes_of(shape, dtype); }
};

/// The values that a step reads from a source.
struct Reading {
  int64_t step = 0;
  std::span<const int64_t> rows = {};  // rows of the datasets, one for each row of the batch
  const std::function<bool()>* give_up = nullptr;  // returns true if the run no longer waits
  uint32_t epoch = 0;
  std::span<const uint32_t> attempts = {};  // earlier uses of the rows in the epoch
  int64_t batch = 0;                        // the index of the batch in the epoch
};

/// The progress of a stream.
struct StreamState {
  std::string_view path;
  int64_t records = 0;        // the number of records read so far
  bool awaits_writer = true;  // no program is known to have opened it for writing yet
  bool has_more = false;      // there are bytes that were not read yet
  bool ended = false;         // no more bytes will come
};

/// Thrown if a stream ends at the wrong place.
class StreamEnded : public RunError {
 public:
  using RunError::RunError;
};

/// A source of an input's values, in the order of steps. They may be filled ahead, unless their
/// writer can see it.
class Source {
 public:
  virtual ~Source() = default;
  /// Opens a stream. Called before anything is read from this or another stream, because a program
  /// that opens several pipes waits in each `open` for their reader. Does nothing the second time.
  virtual void open() {}
  virtual std::optional<StreamState> stream() const { return std::nullopt; }
  /// Writes the input's value. Returns false at the end of a stream, or if the run gives up.
  /// Allocates nothing from the second call on.
  virtual bool fill(const Reading& reading, std::span<std::byte> out) = 0;
  /// Returns false if every step gets the same value.
  virtual bool varies() const { return true; }
  /// Returns true if the values come from a pipe, whose writer can see when they are read. The end
  /// of the values is then known only when they are read.
  virtual bool is_seen_reading() const { return false; }
  /// Describes the values of a file that are NaN or infinite: "1 value is NaN or infinite in x.npy,
  /// first in row 8". For a stream, describes the values read so far; any thread may call it. Empty
  /// if there are none.
  virtual std::string nonfinite() { return {}; }
  /// For a sliced array, returns the number of steps that it lasts.
  virtual std::optional<int64_t> slices() const { return std::nullopt; }
};

/// Makes a source with the same value in each step. `nonfinite` is returned by Source::nonfinite.
std::unique_ptr<Source> make_fixed_source(Array value, std::string nonfinite = {});

/// Makes a source of random draws named after the input, of constants or of iota. Throws
/// RequestError if the numbers are invalid or do not fit the dtype.
std::unique_ptr<Source> make_generator(const plan::FromGenerator& from, const InputSpec& input,
                                       uint64_t seed);

/// Makes a source from an .npy file. If the array has the input's shape, each step gets the whole
/// array; if it has one more leading axis, each step gets a slice. Otherwise throws RequestError
/// with both shapes. Throws RunError if the file cannot be read.
std::unique_ptr<Source> make_array_source(const fs::path& path, const InputSpec& input);

/// Returns true if `path` is a pipe or the path of a descriptor.
bool is_stream(const fs::path& path);

/// Makes a source from a stream of .npy records of the input's shape. Throws StreamEnded if a
/// record is truncated or the first one is missing, RunError if a record is not in .npy format,
/// RequestError if it has another shape.
std::unique_ptr<Source> make_stream_source(const fs::path& path, const InputSpec& input);

/// Parses the value of `--input`: "@x.npy" (relative to the working directory),
/// "random_uniform:-1:1", "random_normal:0:1", "random_int:0:10", "constant:0.5", "iota". Throws
/// RequestError for any other text.
plan::InputSource parse_input_source(const std::string& name, const std::string& text);

}  // namespace flow::exec
