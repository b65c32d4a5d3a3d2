// How many threads pay.
#include "runtime/cpu/backend/cost.h"

#include <algorithm>

#include "runtime/cpu/loops/features.h"
#include "runtime/plan/model/cost.h"

namespace flow::cpu {
namespace {

constexpr int kMostThreads = 256;
constexpr double kSharedCall = 60e-6, kSharedStep = 4e-6;  // seconds worth more than one thread

}  // namespace

int choose_threads(const plan::Job& job, int requested) {
  if (requested > 0) return std::min(requested, kMostThreads);
  return plan::estimate_call_seconds(job) < kSharedCall ? 1
                                                        : std::min(usable_cores(), kMostThreads);
}

int choose_threads(const plan::Job& job, const plan::Step& step, int threads) {
  return plan::estimate_seconds(job, step) < kSharedStep ? 1 : threads;
}

}  // namespace flow::cpu
