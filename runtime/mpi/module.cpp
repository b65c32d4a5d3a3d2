// What libflow_openmpi.so and libflow_mpich.so export (see runtime/exec/ranks/mpi_module.h).
#include <mpi.h>

#include "flow_build_id.h"
#include "runtime/base/error.h"
#include "runtime/exec/ranks/mpi_module.h"
#include "runtime/mpi/calls.h"
#include "runtime/mpi/mpi_collectives.h"

namespace {

void initialize() {
  int threads = MPI_THREAD_SINGLE;
  FLOW_MPI(MPI_Init_thread, nullptr, nullptr, MPI_THREAD_SERIALIZED, &threads);
  for (MPI_Comm communicator : {MPI_COMM_WORLD, MPI_COMM_SELF})
    FLOW_MPI(MPI_Comm_set_errhandler, communicator, MPI_ERRORS_RETURN);
  if (threads < MPI_THREAD_SERIALIZED)
    throw flow::RunError("this MPI library supports one thread only", "use a build with threads");
}

}  // namespace

extern "C" {
flow::exec::MpiModuleEntries::BuildId flow_module_build_id;
flow::exec::MpiModuleEntries::Open flow_mpi_open;

const char* flow_module_build_id() { return FLOW_BUILD_ID; }

flow::exec::Collectives* flow_mpi_open() {
  initialize();
  return new flow::mpi::MpiCollectives();
}
}
