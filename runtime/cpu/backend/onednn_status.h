// What oneDNN says of the work of a call, which runs where nothing may be thrown.
#pragma once

#include <dnnl.h>

#include <cerrno>

namespace flow::cpu {

/// Remembers a failure. On any thread.
void must_succeed(dnnl_status_t status);

/// The same of a call, which also fails where it got no memory and did without: oneDNN then goes
/// another way, whose results differ.
template <typename Call>
void must_succeed(Call call) {
  errno = 0;
  const dnnl_status_t status = call();
  must_succeed(status == dnnl_success && errno == ENOMEM ? dnnl_out_of_memory : status);
}

/// RunError, once, where something had to succeed and did not: what it made is not to be used.
void throw_failure();

}  // namespace flow::cpu
