// The small JSON files of a run directory: run.json, metrics.jsonl, checkpoint.json.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/plan/model/metric.h"

namespace flow::plan {

/// The position of a job when it calls another one.
struct CallPlace {
  int64_t step = 0;        // the number of completed steps
  int64_t epoch = 0;       // the epoch of the next step
  bool by_epochs = false;  // the calls are counted in epochs, not in steps
};

/// The line of metrics.jsonl for a step of a train job.
struct Metrics {
  int64_t step = 0, epoch = 0;
  double loss = 0, learning_rate = 0, seconds = 0;
  std::optional<double> loss_scale = {};     // only set if the loss scale is dynamic
  bool skipped = false;                      // the step updated nothing
  std::optional<int64_t> main_step = {};     // set only in a called job: the caller's step
  std::optional<double> gradient_norm = {};  // before clipping; only set if it is computed
};
/// The keys of these lines whose values are measured numbers.
inline constexpr std::array<std::string_view, 4> kStepNumbers = {"loss", "learning_rate",
                                                                 "loss_scale", "gradient_norm"};
/// Writes {"step":0,"epoch":0,"loss":7.31,"learning_rate":0.1,"seconds":0.02}, with null for a
/// non-finite loss. If the gradient norm is computed, `,"gradient_norm":3.5` follows. With a
/// dynamic loss scale, `,"loss_scale":65536` follows, and `,"skipped":true` if the scale shrinks.
/// "main_step" comes last if it is set.
std::string to_json_line(const Metrics& metrics);

/// The first fields of all other lines of metrics.jsonl.
struct MetricsPlace {
  int64_t step = 0, epoch = 0;  // of the main job; in a call, the values of its CallPlace
  std::string job;
  std::optional<int64_t> job_step = {};  // only set for a called job: the step of that job
};
MetricsPlace metrics_place(const std::string& job, int64_t step, int64_t epoch,
                           const std::optional<CallPlace>& call);

/// A line for a number that a print sink has reduced.
struct ReducedMetrics {
  MetricsPlace place;
  std::string name, label;
  std::string value;       // JSON, formatted by the print sink
  bool each_step = false;  // one line per step instead of one per epoch or call
};
/// {"step":4,"epoch":1,"job":"eval","job_step":2,"name":"right","label":"accuracy","value":0.97}
std::string to_json_line(const ReducedMetrics& metrics);

/// A line for a step of a called train job.
struct CalledMetrics {
  MetricsPlace place;
  double loss = 0, learning_rate = 0;
};
/// {"step":4,"epoch":1,"job":"tune","job_step":2,"loss":7.31,"learning_rate":0.1}
std::string to_json_line(const CalledMetrics& metrics);

/// Identifies the state of a file when it was read; a file that changes gets another stamp.
struct FileStamp {
  uint64_t size = 0, inode = 0;
  int64_t modified = 0, changed = 0;  // nanoseconds since 1970

  bool operator==(const FileStamp&) const = default;
};

/// The state of a value that a run follows.
struct DecisionRecord {
  std::string watch;  // the value, formatted like FollowedValue::text
  Mode mode = Mode::kMin;
  std::optional<double> best;  // nothing if there has been no number yet
  int64_t step = 0;            // the number of completed steps at the best value
  int64_t bad = 0;             // the number of consecutive values that were not better
  // For a learning rate only:
  int64_t cooldown = 0;  // the number of values to come that do not count
  std::optional<double> rate;
};
using DecisionRecords = std::map<std::string, DecisionRecord>;

/// The content of checkpoint.json, which makes a directory of .npy files a checkpoint.
struct CheckpointRecord {
  std::string job;
  int64_t step = 0;  // the number of completed calls, which is the global step of the next call
  int64_t epoch = 0;
  int64_t row = 0;  // the number of rows of the epoch that are consumed
  uint64_t seed = 0;
  std::string plan_hash, resume_hash;
  std::map<std::string, int64_t> also;  // the completed steps of the jobs that this job calls
  /// The sources that `--input` gave, by input: "random_uniform:5:6", or only "@" for a file.
  /// Nothing in an older version of the record.
  std::optional<std::map<std::string, std::string>> inputs;
  /// Digests of the data files, by column or input. Nothing in an older version of the record.
  std::optional<std::map<std::string, std::string>> data;
  /// The sums that have been accumulated but not yet reported (exec::Sums), by sink. Nothing if
  /// there are none.
  std::optional<std::map<std::string, std::vector<uint64_t>>> sums;
  /// The records by decision: "early_stopping", "keep_best", "learning_rate". Nothing if there are
  /// none.
  std::optional<DecisionRecords> decisions;
  /// The number of lines of metrics.jsonl. Nothing in an older version of the record.
  std::optional<int64_t> metrics_rows;
  /// The checksum of data.json, which keeps what columns of datasets learned. Nothing if there is
  /// no such file.
  std::optional<std::string> learned;
  std::map<std::string, std::string> checksums;  // "lenet/conv1/weight.npy" -> 16 hex digits
  int version = 1;                               // the version of the file format
  std::optional<std::string> checksum = {};      // see json.h; nothing in an older version
};
/// Writes the record with its checksum.
std::string to_json(const CheckpointRecord& record);
/// Throws RequestError with `path` if the text is not a record of this kind or is damaged.
CheckpointRecord checkpoint_from_json(const std::string& text, const std::string& path);

/// The state of a run's output file at a checkpoint.
struct OutputRecord {
  uint64_t bytes = 0;  // the size; for an .npy file without its header
  std::string digest;  // the digest of these bytes

  bool operator==(const OutputRecord&) const = default;
};

/// One of several data files of a column.
struct DataFileRecord {
  std::string name;    // relative to the folder of the job file
  uint64_t size = 0;   // in bytes
  std::string digest;  // of the contents; empty if only the name and the size count

  bool operator==(const DataFileRecord&) const = default;
};

/// The content of files.json of a checkpoint: facts that are true only of this run on this machine.
/// They are kept apart so that checkpoint.json of two equal runs is equal.
struct FilesRecord {
  std::map<std::string, FileStamp> data;  // files of CheckpointRecord::data with known stamps
  /// The files of columns that have at most kMostListedFiles. Nothing in an older version.
  std::optional<std::map<std::string, std::vector<DataFileRecord>>> files;
  static constexpr size_t kMostListedFiles = 10'000;
  std::map<std::string, OutputRecord> outputs;  // by path relative to the run directory
  int version = 1;
  std::string checksum = {};
};
/// Writes the record with its checksum.
std::string to_json(const FilesRecord& record);
/// Throws RequestError with `path` if the text is not a record of this kind or is damaged.
FilesRecord files_from_json(const std::string& text, const std::string& path);

/// The content of run.json, which is the last file that a run writes.
struct RunRecord {
  /// Facts about a distributed run.
  struct Ranks {
    int count = 1;
    uint64_t bytes_a_step = 0;  // the bytes that each rank sends to the others per step, on average
  };
  /// A dataset, or the .npy file of an input.
  struct Data {
    std::optional<int64_t> rows = {};      // rows that are not bad, in all parts
    std::optional<int64_t> bad_rows = {};  // nothing for an input
    int64_t files = 0;
    uint64_t bytes = 0;
    std::string digest = {};  // of the names, sizes and contents of the files
    std::map<std::string, std::string> columns = {};  // digests of the columns of a dataset
  };
  std::string job, source, plan_hash, device, instruction_set, version;
  std::string host;                    // the name of the machine
  std::vector<std::string> overrides;  // --set, --input and --watch as given
  std::vector<std::string> load;       // each --load as given
  uint64_t seed = 0;
  int threads = 0;
  std::string started = {};  // "2026-11-26T19:20:31Z": the start of this run or resume
  std::optional<Ranks> ranks = {};
  int64_t first_step = 0, last_step = 0;  // the global steps that ran: [first, last)
  int64_t fingerprint_every = 0;          // the interval in steps; 0 if no fingerprints were taken
  int64_t epochs = 0;
  double seconds = 0, seconds_to_first_step = 0;
  uint64_t arena_bytes = 0, peak_memory_bytes = 0;
  int exit_status = 0;
  std::string error;  // empty if there was no error
  std::string
      stop_reason;  // "done", "signal", "command", "hook: ...", "failure", "early_stopping: ..."
  std::map<std::string, std::string> libraries;  // "onednn": "2.6.3"
  std::map<std::string, Data> data = {};         // by dataset ("digits") or input
};
std::string to_json(const RunRecord& record);

/// The content of scope.json: the arrays that a `watch_scope` delivers, in the order of a step.
struct ScopeRecord {
  struct Array {
    std::string name;   // "output/bias_add"
    std::string event;  // "watch" or "watch_diff"
    std::string op;     // the op that makes the tensor, or "variable"
    std::string dtype;  // "float32"
    std::vector<int64_t> shape;
  };
  std::string scope, placement;  // "output", "cpu"; "cpu+gpu" if the array is on both
  std::vector<Array> arrays;
};
std::string to_json(const ScopeRecord& record);

}  // namespace flow::plan
