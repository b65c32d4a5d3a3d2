// A table of prefixes, as `mpirun -np 1 env` shows them.
#include "runtime/base/launcher_variables.h"

#include <algorithm>
#include <string_view>

namespace flow {

namespace {

// With "=": a whole name.
constexpr std::string_view kLauncherPrefixes[] = {"OMPI_",
                                                  "OPAL_",
                                                  "PRTE_",
                                                  "PMI_",
                                                  "PMI2_",
                                                  "PMIX_",
                                                  "HYDI_",
                                                  "HYDRA_",
                                                  "SLURM_",
                                                  "MPIR_",
                                                  "MPI_LOCALRANKID=",
                                                  "MPI_LOCALNRANKS="};

}  // namespace

bool is_of_launcher(const char* assignment) {
  return std::ranges::any_of(kLauncherPrefixes, [text = std::string_view(assignment)](auto prefix) {
    return text.starts_with(prefix);
  });
}

}  // namespace flow
