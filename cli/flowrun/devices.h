// The devices that a run takes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cli/flowrun/options.h"
#include "cli/flowrun/rank_session.h"
#include "cli/shared/job_source.h"
#include "runtime/exec/core/backend.h"
#include "runtime/exec/core/module.h"

namespace flow::cli {

/// The GPUs of this machine, as far as the options allow them. RequestError where they require one
/// that is not there.
exec::Gpu find_gpu(const RunOptions& options);

/// What the ranks of this process compute on.
struct RunDevices {
  std::vector<int> gpus;  // by rank of this process, by index; none: the CPU computes
  bool cpu_too = false;   // as entries of the job say

  /// Takes the device of a rank into use. RunError where that fails.
  std::unique_ptr<exec::Backend> open(const exec::Gpu& gpu, size_t rank = 0) const;
  /// By rank, for messages: "GPU 2".
  std::vector<std::string> names() const;
};

/// RequestError where the job or the options want other devices than there are. `session`: of a
/// distributed run, in which each process is one rank; else null.
RunDevices choose_devices(const LoadedPlan& loaded, const plan::Job& job, const RunOptions& options,
                          const exec::Gpu& gpu, const RankSession* session);

/// Why the CPU computes where no flag asked for it; "" where one did, or a GPU computes.
std::string why_cpu(const RunOptions& options, const LoadedPlan& loaded, const plan::Job& job,
                    const exec::Gpu& gpu);

}  // namespace flow::cli
