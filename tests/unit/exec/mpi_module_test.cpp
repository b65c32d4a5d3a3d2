// MPI libraries that cannot be opened. Tests under mpirun open them.
#include "runtime/exec/ranks/mpi_module.h"

#include <catch2/catch.hpp>

#include "runtime/base/error.h"

namespace flow::exec {
namespace {

TEST_CASE("an MPI library that flow does not know is refused", "[exec]") {
  const LaunchedRank launched{.rank = 1, .size = 2, .launcher = "Slurm"};
  CHECK_THROWS_AS(open_mpi(launched, "mpi"), RequestError);
  CHECK_THROWS_WITH(open_mpi(launched, "mpi"),
                    "unknown MPI library `mpi`; expected openmpi or mpich");
}

}  // namespace
}  // namespace flow::exec
