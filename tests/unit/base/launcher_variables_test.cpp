// Which environment variables belong to a launcher.
#include "runtime/base/process.h"

#include <catch2/catch.hpp>

namespace flow {
namespace {

TEST_CASE("variables of launchers are recognized", "[base]") {
  for (const char* variable :
       {"OMPI_COMM_WORLD_RANK=1", "OPAL_PREFIX=/usr", "PRTE_MCA_ras=slurm", "PMI_RANK=1",
        "PMI2_RANK=1", "PMIX_SERVER_URI41=pmix", "HYDI_CONTROL_FD=8", "HYDRA_BOOTSTRAP=ssh",
        "SLURM_PROCID=1", "MPIR_CVAR_CH3_INTERFACE_HOSTNAME=a", "MPI_LOCALRANKID=0",
        "MPI_LOCALNRANKS=2"})
    CHECK(is_of_launcher(variable));
}

TEST_CASE("other variables are not of a launcher", "[base]") {
  for (const char* variable : {"PATH=/usr/bin", "MY_SLURM_JOB=1", "slurm_procid=1", "PMIN=0",
                               "MPI_LOCALRANKIDS=0", "MPI_HOME=/usr", "FLOW=OMPI_", ""})
    CHECK_FALSE(is_of_launcher(variable));
}

}  // namespace
}  // namespace flow
