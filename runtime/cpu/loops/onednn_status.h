// What oneDNN says of the work of a call, which runs where nothing may be thrown.
#pragma once

#include <dnnl.h>

#include <cerrno>

#include "runtime/base/error.h"

namespace flow::cpu {

/// Remembers a failure. On any thread.
void must_succeed(dnnl_status_t status);

/// The same of a call that left `code` in errno. One that got no memory, or none that is
/// executable, may have succeeded in another way, whose results differ: that is a failure.
void must_succeed(dnnl_status_t status, int code);
template <typename Call>
void must_succeed(Call call) {
  errno = 0;
  const dnnl_status_t status = call();
  must_succeed(status, errno);
}

/// RunError, once, where something had to succeed and did not: what it made is not to be used.
void throw_failure();

/// RunError where this process may not make memory executable, as oneDNN does.
void require_executable_memory();

/// RunError where `code`, of errno, says that it was not allowed to.
void throw_if_denied(int code);

/// What `make` returns, which makes kernels of oneDNN. REQUIRES: errno is 0 before.
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
