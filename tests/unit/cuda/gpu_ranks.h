// Ranks that are threads, each with a GPU that is not there.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "runtime/plan/model/plan.h"
#include "tests/support/cuda/fake_gpu.h"
#include "tests/support/cuda/fake_nccl.h"
#include "tests/support/run_job.h"
#include "tests/support/thread_ranks.h"

namespace flow::test {

/// Runs `body` on each rank of `world`, with a device of its own that is empty again afterwards.
/// Throws what the first rank throws.
void on_ranks(ThreadRanks& world, FakeNccl& nccl, const FakeDevice& device,
              const std::function<void(FakeGpu&, exec::Collectives&)>& body);

/// As random_values, but that no variable is negative: second moments never are, and NaN would hide
/// differences.
Arrays positive_values(const plan::Job& job);

/// The job on one device and on several gives rank 0 the same bits, which are finite.
void require_bits(const plan::Job& job, const std::vector<std::string>& wanted, int size,
                  const FakeDevice& device, bool eager, unsigned seed);

/// Runs `body` on two ranks, each time with another call of NCCL that fails on rank `failing`,
/// until none is left. Checks that each failure ends both ranks with an error that begins with
/// `place`. The number of runs.
int64_t check_failing_nccl(int failing, const std::string& place,
                           const std::function<void(FakeGpu&, exec::Collectives&)>& body);

/// Names of the job's variables.
std::vector<std::string> variables_of(const plan::Job& job);

}  // namespace flow::test
