// Parts of a plan in a few words.
#pragma once

#include <string>
#include <vector>

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

}  // namespace flow::cli
