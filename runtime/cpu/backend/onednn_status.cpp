// The first failure of oneDNN that a call has met.
#include "runtime/cpu/backend/onednn_status.h"

#include <dnnl_debug.h>
#include <fmt/format.h>

#include <atomic>

#include "runtime/base/error.h"

namespace flow::cpu {
namespace {

std::atomic<dnnl_status_t> failure{dnnl_success};

}  // namespace

void must_succeed(dnnl_status_t status) {
  if (status != dnnl_success) failure.store(status, std::memory_order_relaxed);
}

void throw_failure() {
  if (failure.load(std::memory_order_relaxed) == dnnl_success) return;
  const dnnl_status_t status = failure.exchange(dnnl_success);
  throw RunError(fmt::format("oneDNN could not compute a step: {}", dnnl_status2str(status)),
                 status == dnnl_out_of_memory ? "use a smaller batch" : "");
}

}  // namespace flow::cpu
