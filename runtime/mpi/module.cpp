// What libflow_openmpi.so and libflow_mpich.so export (see runtime/exec/ranks/mpi_module.h).
#include <mpi.h>
#include <pthread.h>
#include <signal.h>

#include "flow_build_id.h"
#include "runtime/base/error.h"
#include "runtime/exec/ranks/mpi_module.h"
#include "runtime/mpi/calls.h"
#include "runtime/mpi/mpi_collectives.h"

namespace {

/// Keeps what signals do: MPICH takes SIGUSR1, Open MPI those of defects. Threads that a library
/// starts meanwhile get no signals.
class KeptSignals {
 public:
  KeptSignals() {
    for (int signal = 1; signal < SIGRTMIN; ++signal) sigaction(signal, nullptr, &actions_[signal]);
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &mask_);
  }
  ~KeptSignals() {
    for (int signal = 1; signal < SIGRTMIN; ++signal) sigaction(signal, &actions_[signal], nullptr);
    pthread_sigmask(SIG_SETMASK, &mask_, nullptr);
  }
  KeptSignals(const KeptSignals&) = delete;
  KeptSignals& operator=(const KeptSignals&) = delete;

 private:
  struct sigaction actions_[NSIG] = {};
  sigset_t mask_ = {};
};

void initialize() {
  const KeptSignals kept;
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
