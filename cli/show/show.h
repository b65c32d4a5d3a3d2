// Jobs, plans, memory and profiles, as people read them, and parts of a plan in a few words.
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

/// "float32 [100, 10]"; of a tensor that is cut into shards, of one of them.
std::string type_of(const plan::Tensor& tensor);
/// The same of the whole batch.
std::string type_of(const plan::Job& job, const plan::Tensor& tensor);

/// Where an input comes from: "mnist.images", "random_normal mean=0 stddev=1".
std::string source_text(const plan::InputSource& source);

/// "npy, print mean every 20"
std::string sinks_text(const std::vector<plan::Sink>& sinks);

/// "cosine 0.1 steps=600, linear warmup from 0.01x over 60 steps"
std::string schedule_text(const plan::Schedule& schedule);

/// "largest test.accuracy": the best of a value that a run follows.
std::string followed_text(const plan::FollowedValue& value);

/// How long a run is: "1 epoch, shuffled"; empty where the job file does not say.
std::string run_text(const plan::Run& run);

/// "gpu", or where a part of it is placed apart, "gpu and cpu"
std::string devices_text(const plan::Job& job);

/// "training on cpu, float32, seed 1"
std::string job_text(const plan::Job& job);

/// "4 of 25 rows, 6 tensors combined, 1.2 MiB"; empty where the batch is not cut.
std::string shards_text(const plan::Job& job);

/// What may change from run to run, as a line; empty where nothing does.
std::string determinism_text(const plan::Job& job);

/// Is the hook one of `metrics`?
bool prints_metric(const plan::Hook& hook);

/// What hooks read that no step makes by itself, a line each: how much longer a call takes in which
/// they fire.
std::string probes_text(const plan::Job& job);

/// The line that `where` names: in the job's own file "25"; in another, "base.yaml:25".
std::string line_of(const std::string& where, const std::string& source);

/// A line for each input and entry, networks indented, and the job's totals below. `all`:
/// equal copies and networks are listed, too. `source`: the job file. Where `columns` are few,
/// the least important ones of the table are left out.
std::string show_job(const plan::Job& job, std::span<const WrittenEntry> written,
                     const std::string& source, bool all, int columns = 100);

/// A job with the entries of its file.
struct WrittenJob {
  const plan::Job& job;
  std::vector<WrittenEntry> entries;
};

/// Entries that are added, removed or changed, and what changed of the job as a whole, a line each.
/// `found`: all values of it that differ, with paths from the job on: "run.epochs".
std::string diff_text(const WrittenJob& a, const WrittenJob& b,
                      std::span<const plan::Difference> found);

/// A line for each value of a plan that differs.
std::string list_values(std::span<const plan::Difference> found);

/// All inputs, variables, steps and outputs of a call, as aligned columns.
std::string show_steps(const plan::Job& job);

/// The commands that a run of the job starts, in full: for what, when, how and which.
std::string show_commands(const plan::Job& job);

/// A line for each tensor that ranks combine, and totals. RequestError if this many ranks cannot
/// share the job's shards.
std::string show_ranks(const plan::Job& job, int ranks);

/// What each step of a call holds, in plain sizes, and at the fullest step, which results live from
/// when to when. A backend adds its workspaces and what its layouts take.
std::string show_memory(const plan::Job& job);

/// What a device takes, exactly.
std::string memory_text(const exec::JobMemory& job);
/// Its sums as an object on a line, in bytes.
std::string memory_json(const exec::JobMemory& job);

/// A line for each entry of the job's graphs, the longest first: the median time of a step's
/// forward pass, its gradients and its updates, and what that makes of the roof. An entry that is
/// fused onto another one is counted there. `source`: the job file, whose lines go without its
/// name.
std::string entries_table(const exec::ProfileReport& report, const plan::Job& job,
                          const std::string& source);

/// A line for each thing that the threads of a run do, one for each entry of the job (see
/// entries_table), then one for each step of a call, the longest first; the shortest are summed up.
std::string profile_table(const exec::ProfileReport& report, const plan::Job& job,
                          const std::string& source);

}  // namespace flow::cli
