// Calls of MPI whose failures are RunError.
#pragma once

#include <mpi.h>

namespace flow::mpi {

/// REQUIRES: `code` is what the MPI function `function` returned.
void check(int code, const char* function);

}  // namespace flow::mpi

/// FLOW_MPI(MPI_Test, &request, &done, &status): calls the function, and checks what it returns.
#define FLOW_MPI(function, ...) ::flow::mpi::check(function(__VA_ARGS__), #function)
