// Readable texts of jobs, plans, memory and profiles, and short descriptions of parts of a plan.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "compiler/source/source.h"
#include "runtime/exec/core/profile.h"
#include "runtime/exec/run/run.h"
#include "runtime/plan/difference.h"
#include "runtime/plan/model/plan.h"

namespace flow::cli {

/// Returns a type such as "float32 [100, 10]". For a tensor that is cut into shards, this is the
/// type of one shard.
std::string type_of(const plan::Tensor& tensor);
/// Returns the type of a tensor for the whole batch.
std::string type_of(const plan::Job& job, const plan::Tensor& tensor);

/// Returns the source of an input: "mnist.images", "random_normal mean=0 stddev=1".
std::string source_text(const plan::InputSource& source);

/// Returns a text such as "npy, print mean every 20".
std::string sinks_text(const std::vector<plan::Sink>& sinks);

/// Returns a text such as "cosine 0.1 steps=600, linear warmup from 0.01x over 60 steps".
std::string schedule_text(const plan::Schedule& schedule);

/// Describes the best of a value that a run monitors: "largest test.accuracy".
std::string followed_text(const plan::FollowedValue& value);

/// Returns the length of a run, such as "1 epoch, shuffled", or an empty string if the job file
/// does not specify it.
std::string run_text(const plan::Run& run);

/// Returns "gpu", or "gpu and cpu" if a part of the job is placed on the other device.
std::string devices_text(const plan::Job& job);

/// Returns a text such as "training on cpu, float32, seed 1".
std::string job_text(const plan::Job& job);

/// Returns a text such as "4 of 25 rows, 6 tensors combined, 1.2 MiB", or an empty string if the
/// batch is not cut into shards.
std::string shards_text(const plan::Job& job);

/// Returns a line about results that may vary from run to run, or an empty string if the job is
/// deterministic.
std::string determinism_text(const plan::Job& job);

/// Returns true if the hook belongs to `metrics`.
bool prints_metric(const plan::Hook& hook);

/// Lists the values that are computed only for hooks, one per line, and how much longer a step
/// takes if the hook fires.
std::string probes_text(const plan::Job& job);

/// Returns the line that `where` names: "25" in the job's own file, or "base.yaml:25" in another
/// file.
std::string line_of(const std::string& where, const std::string& source);

/// Returns a line for each input and entry, with the contents of networks indented, followed by the
/// job's totals. With `all`, equal copies and networks are also listed. `source` is the job file.
/// If `columns` is small, the least important columns of the table are left out.
std::string show_job(const plan::Job& job, std::span<const WrittenEntry> written,
                     const std::string& source, bool all, int columns = 100);

/// A job with the entries of its file.
struct WrittenJob {
  const plan::Job& job;
  std::vector<WrittenEntry> entries;
};

/// Lists the entries that are added, removed or changed, and the changes of the whole job, one per
/// line. `found` contains all values of the job that differ, with paths that begin at the job:
/// "run.epochs".
std::string diff_text(const WrittenJob& a, const WrittenJob& b,
                      std::span<const plan::Difference> found);

/// Returns one line for each value of a plan that differs.
std::string list_values(std::span<const plan::Difference> found);

/// Returns all inputs, variables, steps and outputs of a call as aligned columns.
std::string show_steps(const plan::Job& job);

/// Lists in full the commands that a run of the job starts: the purpose of each, when and how it
/// runs, and its command line.
std::string show_commands(const plan::Job& job);

/// Returns a line for each tensor that ranks combine, and the totals. Throws RequestError if this
/// number of ranks cannot share the job's shards.
std::string show_ranks(const plan::Job& job, int ranks);

/// Shows the memory at each step of a call, in plain tensor sizes, and the lifetimes of the results
/// at the fullest step. A backend needs additional memory for workspaces and for its layouts.
std::string show_memory(const plan::Job& job);

/// Returns the exact memory that a device uses.
std::string memory_text(const exec::JobMemory& job);
/// Returns the sums of this memory in bytes as an object on one line.
std::string memory_json(const exec::JobMemory& job);

/// Returns a line for each entry of the job's graphs, the longest first, with the median times of a
/// step's forward pass, gradients and updates, and the share of the roofline performance that they
/// reach. An op that is fused onto another entry counts there. `source` is the job file, whose name
/// is omitted before its line numbers.
std::string entries_table(const exec::ProfileReport& report, const plan::Job& job,
                          const std::string& source);

/// Returns a line for each activity of a run's threads, a line for each entry of the job (see
/// entries_table), and a line for each step of a call, the longest first. The shortest steps are
/// summed up.
std::string profile_table(const exec::ProfileReport& report, const plan::Job& job,
                          const std::string& source);

}  // namespace flow::cli
