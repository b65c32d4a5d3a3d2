// Where an input's values come from, step by step, and where in its data a step reads: a pure
// function of the step, so that no stage has to tell another.
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
  int64_t row = 0;             // of the epoch, the first of the batch
  int64_t rows = 0;            // real rows in the batch; 0 where no dataset is read
  bool last_of_epoch = false;  // never where no dataset is read
};

/// How the rows of a dataset are cut into steps.
class StepIndex {
 public:
  /// No dataset: everything is epoch 0.
  StepIndex() = default;
  /// An incomplete last batch is dropped, or else is a batch with fewer real rows.
  /// REQUIRES: rows >= 0, batch > 0.
  StepIndex(int64_t rows, int64_t batch, bool drop_incomplete);

  bool has_rows() const { return batch_ > 0; }
  int64_t rows() const { return rows_; }
  int64_t batch() const { return batch_; }
  int64_t steps_per_epoch() const { return steps_per_epoch_; }
  /// Rows of the incomplete last batch; 0: there is none.
  int64_t incomplete_rows() const { return batch_ > 0 ? rows_ % batch_ : 0; }
  /// True when a call computes on more rows than are real.
  bool pads() const { return !drop_incomplete_ && incomplete_rows() != 0; }
  /// REQUIRES: steps_per_epoch() > 0 where has_rows().
  Position at(int64_t step) const;
  /// Epochs that are complete after `steps` steps.
  int64_t epochs_after(int64_t steps) const;

 private:
  int64_t rows_ = 0, batch_ = 0, steps_per_epoch_ = 0;
  bool drop_incomplete_ = true;
};

/// The steps of `epochs` epochs, or the largest number where that overflows.
int64_t steps_of_epochs(int64_t epochs, int64_t steps_per_epoch);

/// A number of steps, or of epochs: the other is 0.
struct Period {
  int64_t steps = 0, epochs = 0;

  /// How many of them are complete after `after` steps.
  int64_t count(const StepIndex& index, int64_t after) const;
  bool ends_at(const StepIndex& index, int64_t after) const {
    return after > 0 && count(index, after) > count(index, after - 1);
  }
  /// The next number of steps, more than `after`, at which one ends; the largest number for never.
  int64_t next_end(const StepIndex& index, int64_t after) const;
};

/// An input as messages name it and as its values must be.
struct InputSpec {
  std::string name;
  DType dtype = DType::kFloat32;
  Shape shape;
  std::string where;  // of what says where it comes from: a job-file line or `--input x`

  size_t bytes() const { return bytes_of(shape, dtype); }
};

/// What a step reads of a source.
struct Reading {
  int64_t step = 0;
  std::span<const int64_t> rows = {};              // of the datasets, one for each row of the batch
  const std::function<bool()>* give_up = nullptr;  // asked by who waits: does the run wait too?
};

/// Where a stream is.
struct StreamState {
  std::string_view path;
  int64_t records = 0;        // read so far
  bool awaits_writer = true;  // no program has opened it for writing yet, as far as one can tell
  bool has_more = false;      // bytes that are not read yet
  bool ended = false;         // nothing more will come
};

/// A stream that ended where it should not.
class StreamEnded : public RunError {
 public:
  using RunError::RunError;
};

/// What gives an input its values, steps in their order. They may be filled ahead, unless their
/// maker sees it.
class Source {
 public:
  virtual ~Source() = default;
  /// Of a stream, before something is read of this or another one: a program that opens several
  /// pipes waits in each `open` for their reader. Does nothing the second time.
  virtual void open() {}
  virtual std::optional<StreamState> stream() const { return std::nullopt; }
  /// Writes the input's value; false at the end of a stream, or when the run gives up. Allocates
  /// nothing from the second call on.
  virtual bool fill(const Reading& reading, std::span<std::byte> out) = 0;
  /// False when every step gets the same value.
  virtual bool varies() const { return true; }
  /// Does whoever makes the values see them read, at the other end of a pipe? Only reading then
  /// tells where they end.
  virtual bool is_seen_reading() const { return false; }
  /// What is NaN or infinite in a file: "1 value is NaN or infinite in x.npy, first in row 8"; of a
  /// stream, as far as it is read, on any thread. Empty where there is none.
  virtual std::string nonfinite() { return {}; }
  /// Of a sliced array: how many steps it lasts.
  virtual std::optional<int64_t> slices() const { return std::nullopt; }
};

/// The same value each step. `nonfinite`: see Source.
std::unique_ptr<Source> make_fixed_source(Array value, std::string nonfinite = {});

/// Draws named by the input, constants, iota. RequestError where the numbers make no sense or do
/// not fit the dtype.
std::unique_ptr<Source> make_generator(const plan::FromGenerator& from, const InputSpec& input,
                                       uint64_t seed);

/// An .npy: the array itself each step where its shape is the input's, else a slice a step of one
/// with one more leading axis. RequestError with both shapes where neither holds, RunError where it
/// cannot be read.
std::unique_ptr<Source> make_array_source(const fs::path& path, const InputSpec& input);

/// Is there a pipe at `path`, or is it the path of a descriptor?
bool is_stream(const fs::path& path);

/// .npy records of the input's shape, one after another. StreamEnded where one is truncated or the
/// first is missing, RunError where one is no .npy, RequestError where its shape is another.
std::unique_ptr<Source> make_stream_source(const fs::path& path, const InputSpec& input);

/// What `--input` gives: "@x.npy" (relative to the working directory), "random_uniform:-1:1",
/// "random_normal:0:1", "random_int:0:10", "constant:0.5", "iota". RequestError for another text.
plan::InputSource parse_input_source(const std::string& name, const std::string& text);

}  // namespace flow::exec
