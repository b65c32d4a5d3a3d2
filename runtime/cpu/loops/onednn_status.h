// Records the status of oneDNN's work in a call, because that work runs where nothing may be
// thrown.
#pragma once

#include <dnnl.h>

#include <cerrno>

#include "runtime/base/error.h"

namespace flow::cpu {

/// Records a failure. It may be called on any thread.
void must_succeed(dnnl_status_t status);

/// Records the failure of a call that left `code` in errno. A call that got no memory, or no
/// executable memory, may have succeeded in another way whose results differ. It counts as a
/// failure, too.
void must_succeed(dnnl_status_t status, int code);
template <typename Call>
void must_succeed(Call call) {
  errno = 0;
  const dnnl_status_t status = call();
  must_succeed(status, errno);
}

/// Throws RunError once if a recorded failure exists. The results of the call must then not be
/// used.
void throw_failure();

/// Throws RunError if this process may not make memory executable, as oneDNN does.
void require_executable_memory();

/// Throws RunError if `code`, a value of errno, states that a permission was denied.
void throw_if_denied(int code);

/// Returns the result of `make`, which creates oneDNN kernels. REQUIRES: errno is 0 before the
/// call.
template <typename Make>
auto generate_code(Make make) {
  require_executable_memory();
  try {
    auto made = make();
    throw_if_denied(errno);
    return made;
  } catch (const RunError&) {
    throw_if_denied(errno);
    throw;
  }
}

}  // namespace flow::cpu
