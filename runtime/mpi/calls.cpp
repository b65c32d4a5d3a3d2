// Calls of MPI whose failures are RunError.
#include "runtime/mpi/calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "runtime/base/error.h"

namespace flow::mpi {

void check(int code, const char* function) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  std::replace(text, text + length, '\n', ' ');  // MPICH adds a stack of calls
  throw RunError(fmt::format("{} failed: {}", function, text),
                 "another rank may have ended; its messages say why");
}

}  // namespace flow::mpi
