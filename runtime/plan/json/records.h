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

/// Where a job stands when it calls another one.
struct CallPlace {
  int64_t step = 0;        // its steps that are complete
  int64_t epoch = 0;       // of its next step
  bool by_epochs = false;  // it counts epochs between calls, not steps
};

/// The line of metrics.jsonl for a step of a train job.
struct Metrics {
  int64_t step = 0, epoch = 0;
  double loss = 0, learning_rate = 0, seconds = 0;
  std::optional<double> loss_scale = {};     // where it is dynamic
  bool skipped = false;                      // nothing was updated
  std::optional<int64_t> main_step = {};     // of a job that another one calls: steps of that one
  std::optional<double> gradient_norm = {};  // before clipping, where it is computed
};
/// The numbers of steps in these lines: their keys.
inline constexpr std::array<std::string_view, 4> kStepNumbers = {"loss", "learning_rate",
                                                                 "loss_scale", "gradient_norm"};
/// {"step":0,"epoch":0,"loss":7.31,"learning_rate":0.1,"seconds":0.02}; a non-finite loss is null.
/// `,"gradient_norm":3.5` follows where it is computed. With a dynamic loss scale
/// `,"loss_scale":65536` follows, and `,"skipped":true` where it shrinks; "main_step" last, where
/// it is known.
std::string to_json_line(const Metrics& metrics);

/// What the other lines of metrics.jsonl begin with.
struct MetricsPlace {
  int64_t step = 0, epoch = 0;  // of the main job; in a call those of its CallPlace
  std::string job;
  std::optional<int64_t> job_step = {};  // of a called job: its own step
};
MetricsPlace metrics_place(const std::string& job, int64_t step, int64_t epoch,
                           const std::optional<CallPlace>& call);

/// The line for a number that a print sink reduced.
struct ReducedMetrics {
  MetricsPlace place;
  std::string name, label;
  std::string value;       // JSON: as the print sink writes it
  bool each_step = false;  // a call may have several: one a step, not one an epoch or a call
};
/// {"step":4,"epoch":1,"job":"eval","job_step":2,"name":"right","label":"accuracy","value":0.97}
std::string to_json_line(const ReducedMetrics& metrics);

/// The line for a step of a called train job.
struct CalledMetrics {
  MetricsPlace place;
  double loss = 0, learning_rate = 0;
};
/// {"step":4,"epoch":1,"job":"tune","job_step":2,"loss":7.31,"learning_rate":0.1}
std::string to_json_line(const CalledMetrics& metrics);

/// A file as it was when it was read; one that changes gets another stamp.
struct FileStamp {
  uint64_t size = 0, inode = 0;
  int64_t modified = 0, changed = 0;  // nanoseconds since 1970

  bool operator==(const FileStamp&) const = default;
};

/// What a run knows of a value that it follows.
struct DecisionRecord {
  std::string watch;  // the value, as FollowedValue::text
  Mode mode = Mode::kMin;
  std::optional<double> best;  // nothing: there was no number yet
  int64_t step = 0;            // steps that were complete at the best
  int64_t bad = 0;             // values in a row that were not better
  // Of a learning rate:
  int64_t cooldown = 0;  // values to come that do not count
  std::optional<double> rate;
};
using DecisionRecords = std::map<std::string, DecisionRecord>;

/// checkpoint.json: what makes a directory of .npy files a checkpoint.
struct CheckpointRecord {
  std::string job;
  int64_t step = 0;  // calls completed: the next call's global step
  int64_t epoch = 0;
  int64_t row = 0;  // rows of the epoch consumed
  uint64_t seed = 0;
  std::string plan_hash, resume_hash;
  std::map<std::string, int64_t> also;  // steps completed of the jobs that it calls
  /// What `--input` gave, by input: "random_uniform:5:6"; of files "@" alone. Nothing: an older
  /// form.
  std::optional<std::map<std::string, std::string>> inputs;
  /// Digests of the data files, by column or input; nothing: an older form.
  std::optional<std::map<std::string, std::string>> data;
  /// By sink: what has been summed up and not told yet (exec::Sums); nothing where that is nothing.
  std::optional<std::map<std::string, std::vector<uint64_t>>> sums;
  /// By what is decided: "early_stopping", "keep_best", "learning_rate"; nothing where none is.
  std::optional<DecisionRecords> decisions;
  /// Lines of metrics.jsonl; nothing: an older form.
  std::optional<int64_t> metrics_rows;
  std::map<std::string, std::string> checksums;  // "lenet/conv1/weight.npy" -> 16 hex digits
  int version = 1;                               // of this file's form
  std::optional<std::string> checksum = {};  // of its text, see checksum.h; nothing: an older form
};
/// With its checksum.
std::string to_json(const CheckpointRecord& record);
/// RequestError naming `path` when it is not one, or damaged.
CheckpointRecord checkpoint_from_json(const std::string& text, const std::string& path);

/// An output of a run as it was at a checkpoint.
struct OutputRecord {
  uint64_t bytes = 0;  // of an .npy without its header
  std::string digest;  // of them

  bool operator==(const OutputRecord&) const = default;
};

/// files.json of a checkpoint: what is true of this run on this machine alone, so that
/// checkpoint.json of two equal runs are equal.
struct FilesRecord {
  std::map<std::string, FileStamp> data;        // of CheckpointRecord::data: those that are known
  std::map<std::string, OutputRecord> outputs;  // by path below the run directory
  int version = 1;
  std::string checksum = {};
};
/// With its checksum.
std::string to_json(const FilesRecord& record);
/// RequestError naming `path` when it is not one, or damaged.
FilesRecord files_from_json(const std::string& text, const std::string& path);

/// run.json: written last.
struct RunRecord {
  /// Of a distributed run.
  struct Ranks {
    int count = 1;
    uint64_t bytes_a_step = 0;  // that each rank sends to the others, on average
  };
  /// A data file.
  struct Data {
    std::optional<int64_t> rows;  // that the job reads; nothing for data of a called job
    std::string digest;           // ContentDigest's, of the whole file
  };
  std::string job, source, plan_hash, device, instruction_set, version;
  std::string host;                    // the machine's name
  std::vector<std::string> overrides;  // --set, --input, --watch as given
  std::vector<std::string> load;       // each --load as given
  uint64_t seed = 0;
  int threads = 0;
  std::string started = {};  // "2026-11-26T19:20:31Z": by this start, not by that it resumes
  std::optional<Ranks> ranks = {};
  int64_t first_step = 0, last_step = 0;  // global steps run: [first, last)
  int64_t fingerprint_every = 0;          // steps; 0: none were taken
  int64_t epochs = 0;
  double seconds = 0, seconds_to_first_step = 0;
  uint64_t arena_bytes = 0, peak_memory_bytes = 0;
  int exit_status = 0;
  std::string error;  // empty when there was none
  std::string
      stop_reason;  // "done", "signal", "command", "hook: ...", "failure", "early_stopping: ..."
  std::map<std::string, std::string> libraries;  // "onednn": "2.6.3"
  std::map<std::string, Data> data = {};         // by column ("digits.labels") or input
};
std::string to_json(const RunRecord& record);

/// scope.json: what a `watch_scope` delivers, in the order of a step.
struct ScopeRecord {
  struct Array {
    std::string name;   // "output/bias_add"
    std::string event;  // "watch" or "watch_diff"
    std::string op;     // that makes the tensor, or "variable"
    std::string dtype;  // "float32"
    std::vector<int64_t> shape;
  };
  std::string scope, placement;  // "output", "cpu"; "cpu+gpu" where it is on both
  std::vector<Array> arrays;
};
std::string to_json(const ScopeRecord& record);

}  // namespace flow::plan
