// What a report knows of a run: what its directory says, as far as it can be read.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cli/report/series.h"
#include "runtime/base/file.h"
#include "runtime/plan/model/plan.h"

namespace flow::cli::report {

/// One number of a run over its steps.
struct Curve {
  std::string job;         // empty: the job itself
  std::string label;       // "loss", "accuracy"
  bool own_steps = false;  // x counts steps of that job, not of the one that calls it
  Series series = {};

  std::string title() const { return job.empty() || job == label ? label : job + ": " + label; }
};

/// The last value of a metric that is an array, such as a confusion matrix.
struct Matrix {
  std::string title;
  double step = 0;
  std::vector<std::vector<double>> rows;
};

/// run.json. Of a run that was killed, or still runs, there is none.
struct Record {
  std::string job, source, device, instruction_set, version, host, started, stop_reason, error;
  std::vector<std::string> load = {};
  std::vector<std::string> overrides = {};  // "--set vars.lr=0.1"
  std::map<std::string, std::string> libraries = {};
  std::map<std::string, std::string> data = {};  // "train.x": "60000 rows, 3f0c..."
  std::optional<int64_t> seed, threads, first_step, last_step, epochs, exit_status;
  std::optional<int64_t> ranks = {};
  std::optional<int64_t> arena_bytes, peak_memory_bytes;
  std::optional<double> seconds = {};
};

struct RunData {
  fs::path directory;
  std::string name;  // short, and another one for each run of a report
  std::optional<Record> record;
  std::optional<plan::Plan> plan;
  const plan::Job* job = nullptr;  // of the plan: that ran
  std::vector<Curve> curves;
  std::vector<Matrix> matrices;
  std::vector<std::string> notes;  // what could not be read, or was left out

  void note(std::string text) { notes.push_back(std::move(text)); }
};

/// Reads run.json, plan.json and metrics.jsonl. RequestError where the directory is not one of a
/// run.
RunData read_run(const fs::path& directory);

/// The text of a regular file. Nothing if it is absent; nothing and a note in `run` if it is larger
/// than `most` bytes, not a file, or cannot be read.
std::optional<std::string> read_bounded(const fs::path& path, uint64_t most, RunData& run);

/// Adds the curves of a metrics.jsonl.
void read_metrics(const fs::path& path, RunData& run);

}  // namespace flow::cli::report
