// What oneDNN says of the work of a call, which runs where nothing may be thrown.
#pragma once

#include <dnnl.h>

namespace flow::cpu {

/// Remembers a failure. On any thread.
void must_succeed(dnnl_status_t status);

/// RunError, once, where something had to succeed and did not: what it made is not to be used.
void throw_failure();

}  // namespace flow::cpu
