// What the ranks of a run are, and what they must have in common before the first step: the build,
// the CPU, the device, the data, and shards for each. Results are the same only where these are.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "runtime/exec/core/collectives.h"
#include "runtime/exec/core/run_request.h"
#include "runtime/exec/input/input_pipeline.h"
#include "runtime/exec/input/source.h"
#include "runtime/exec/ranks/ranks.h"
#include "runtime/plan/model/plan.h"

namespace flow::exec {

/// What a rank says of itself.
struct RankIdentity {
  std::string host;  // containers of one name count as one host
  std::string build, version;
  std::string cpu;  // its model; empty where the system does not say
  std::string instruction_set, device;
  std::string cores;      // that the process may run on: "0-3,8"
  std::string gpus = {};  // that it may use: Gpu::names

  bool operator==(const RankIdentity&) const = default;
};

/// Of this process. The texts are its backend's and Gpu::names.
RankIdentity identify(const std::string& instruction_set, const std::string& device,
                      const std::string& gpus = {});

/// Of each rank, on every rank.
std::vector<RankIdentity> gather_identities(Collectives& collectives, const RankIdentity& mine);

/// The GPUs of one host have numbers: "cuda:1 NVIDIA H100" -> "cuda NVIDIA H100".
std::string device_model(const std::string& device);

/// RequestError that names the first rank that differs from rank 0 in build, CPU or device.
void require_alike(std::span<const RankIdentity> ranks);

/// Where a rank is among those of its host.
struct PlaceOnHost {
  int rank = 0, ranks = 1;
};
PlaceOnHost place_on_host(std::span<const RankIdentity> ranks, int rank);

/// The GPU that a rank takes, by its index. Ranks of one host that may use the same ones take one
/// each, in order; a launcher may also have given each rank GPUs of its own. RequestError where
/// there are too few.
int gpu_of(std::span<const RankIdentity> ranks, int rank);

/// The same where `ids` names the GPU of each rank. RequestError where there are not as many, or
/// where ranks that `ids` puts on one machine run on two hosts, or the other way round.
int gpu_of(std::span<const RankIdentity> ranks, int rank, std::span<const plan::DeviceRange> ids);

/// Compute threads of a rank that is not given a number: ranks of one host that may run on the same
/// cores share them. At least 1. `usable_cores`: of this rank.
int threads_here(std::span<const RankIdentity> ranks, int rank, int usable_cores);

/// What a rank runs on, and its data without their contents: lengths, and which files it reads.
/// `device`: Backend::device.
std::string describe_data(const std::string& device, const RunRequest& request,
                          const StepIndex& step_index);

/// `texts`: what describe_data made on each rank. All ranks call it. Ranks that read different
/// files hash them; what rank 0 has hashed is in `known`. Where something differs, RequestError on
/// rank 0 and EndedByLeader on the others.
void require_same_data(const Ranks& ranks, const RunRequest& request,
                       const std::vector<std::string>& texts, const DataFiles& known);

/// RequestError where the job's shards cannot be divided among the ranks.
void require_ranks_divide(int64_t ranks, const plan::Job& job);

}  // namespace flow::exec
