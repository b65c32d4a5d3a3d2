// Where an input's values come from, step by step.
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
