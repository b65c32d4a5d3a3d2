// Identities of the ranks of a run, and checks before the first step that all ranks have the same
// build, CPU, device and data, and that the shards can be divided among them. Otherwise results
// would differ.
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

/// The properties that a rank reports about itself.
struct RankIdentity {
  std::string host;  // containers with the same name count as one host
  std::string build, version;
  std::string cpu;  // the model; empty if the system does not provide it
  std::string instruction_set, device;
  std::string cores;      // the cores on which the process may run: "0-3,8"
  std::string gpus = {};  // the GPUs that it may use: Gpu::names

  bool operator==(const RankIdentity&) const = default;
};

/// Returns the identity of this process. The arguments are texts of its backend, and Gpu::names.
RankIdentity identify(const std::string& instruction_set, const std::string& device,
                      const std::string& gpus = {});

/// Returns the identities of all ranks, on every rank.
std::vector<RankIdentity> gather_identities(Collectives& collectives, const RankIdentity& mine);

/// Returns the device without the number that distinguishes the GPUs of one host: "cuda:1 NVIDIA
/// H100" -> "cuda NVIDIA H100".
std::string device_model(const std::string& device);

/// Throws RequestError that names the first rank whose build, CPU or device differs from that of
/// rank 0.
void require_alike(std::span<const RankIdentity> ranks);

/// The position of a rank among those of its host.
struct PlaceOnHost {
  int rank = 0, ranks = 1;
};
PlaceOnHost place_on_host(std::span<const RankIdentity> ranks, int rank);

/// Returns the index of the GPU that a rank uses. Ranks of one host that may use the same GPUs use
/// one each, in order; a launcher may also have assigned different GPUs to each rank. Throws
/// RequestError if there are not enough GPUs.
int gpu_of(std::span<const RankIdentity> ranks, int rank);

/// Returns the GPU if `ids` specifies the GPU of each rank. Throws RequestError if `ids` has
/// another number of GPUs than there are ranks, if ranks that `ids` puts on one machine run on two
/// hosts, or if ranks of one host are on two machines in `ids`.
int gpu_of(std::span<const RankIdentity> ranks, int rank, std::span<const plan::DeviceRange> ids);

/// Returns the number of compute threads of a rank for which none is specified, at least 1: ranks
/// of one host that may run on the same cores share them. `usable_cores` is the number for this
/// rank.
int threads_here(std::span<const RankIdentity> ranks, int rank, int usable_cores);

/// Describes the device of a rank and its data without their contents: lengths, and the files that
/// it reads. `device` is Backend::device.
std::string describe_data(const std::string& device, const RunRequest& request,
                          const StepIndex& step_index);

/// Checks that all ranks have the same data. All ranks call it. `texts` contains the results of
/// describe_data on each rank. Ranks that read different files hash them; `known` contains the
/// hashes that rank 0 has. If anything differs, throws RequestError on rank 0 and EndedByLeader on
/// the other ranks.
void require_same_data(const Ranks& ranks, const RunRequest& request,
                       const std::vector<std::string>& texts, const DataFiles& known);

/// Throws RequestError if the job's shards cannot be divided among the ranks.
void require_ranks_divide(int64_t ranks, const plan::Job& job);

}  // namespace flow::exec
