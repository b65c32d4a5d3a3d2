// Which rank a launcher's variables say that a process is.
#include "runtime/exec/ranks/mpi_module.h"

#include <catch2/catch.hpp>
#include <map>
#include <string>

#include "runtime/base/error.h"

namespace flow::exec {
namespace {

using Variables = std::map<std::string, std::string>;

std::optional<LaunchedRank> launched_with(const Variables& variables) {
  return launched_rank([&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

std::string refusal_of(const Variables& variables) {
  try {
    launched_with(variables);
  } catch (const RequestError& error) {
    return error.what();
  }
  return "";
}

const Variables kOpenMpiRank = {{"OMPI_COMM_WORLD_RANK", "5"},
                                {"OMPI_COMM_WORLD_SIZE", "8"},
                                {"OMPI_COMM_WORLD_LOCAL_RANK", "1"}};
const Variables kHydraRank = {{"PMI_RANK", "3"}, {"PMI_SIZE", "4"}, {"MPI_LOCALRANKID", "2"}};
const Variables kSlurmRank = {{"SLURM_STEP_ID", "0"},
                              {"SLURM_PROCID", "6"},
                              {"SLURM_STEP_NUM_TASKS", "9"},
                              {"SLURM_LOCALID", "4"}};

Variables joined(Variables variables, const Variables& others) {
  variables.insert(others.begin(), others.end());
  return variables;
}

TEST_CASE("each launcher has variables of its own", "[exec]") {
  struct Row {
    Variables variables;
    int rank, size, local_rank;
    std::string launcher;
    std::optional<MpiKind> kind;
  };
  const std::vector<Row> rows = {
      {kOpenMpiRank, 5, 8, 1, "Open MPI", MpiKind::kOpenMpi},
      {kHydraRank, 3, 4, 2, "PMI", MpiKind::kMpich},
      {{{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}}, 1, 2, 0, "PMI", MpiKind::kMpich},
      {kSlurmRank, 6, 9, 4, "Slurm", std::nullopt},
      // `srun --mpi=pmi2`
      {joined(kSlurmRank, {{"PMI_RANK", "6"}, {"PMI_SIZE", "9"}}), 6, 9, 4, "Slurm",
       MpiKind::kMpich},
      // mpirun within Slurm: its daemons are Slurm's tasks.
      {joined(kOpenMpiRank, kSlurmRank), 5, 8, 1, "Open MPI", MpiKind::kOpenMpi},
      {joined(kHydraRank, kSlurmRank), 3, 4, 2, "PMI", MpiKind::kMpich},
  };
  for (const Row& row : rows) {
    const std::optional<LaunchedRank> launched = launched_with(row.variables);
    REQUIRE(launched);
    CHECK(launched->rank == row.rank);
    CHECK(launched->size == row.size);
    CHECK(launched->local_rank == row.local_rank);
    CHECK(launched->launcher == row.launcher);
    CHECK(launched->kind == row.kind);
  }
}

TEST_CASE("a process that no launcher started has no rank", "[exec]") {
  CHECK_FALSE(launched_with({}));
  // A batch script of Slurm, outside of srun.
  CHECK_FALSE(launched_with({{"SLURM_JOB_ID", "7"}, {"SLURM_PROCID", "0"}}));
}

TEST_CASE("a launcher's variable that makes no sense is named", "[exec]") {
  const auto with = [](Variables variables, const std::string& name, const std::string& value) {
    variables[name] = value;
    return refusal_of(variables);
  };
  CHECK(with(kOpenMpiRank, "OMPI_COMM_WORLD_RANK", "one") ==
        "environment variable OMPI_COMM_WORLD_RANK is \"one\"; expected a whole number");
  CHECK(with(kHydraRank, "PMI_SIZE", "4.5") ==
        "environment variable PMI_SIZE is \"4.5\"; expected a whole number");
  CHECK(with(kHydraRank, "PMI_RANK", "-1") ==
        "environment variable PMI_RANK is \"-1\"; expected a whole number");
  CHECK(with(kSlurmRank, "SLURM_STEP_NUM_TASKS", "9999999999") ==
        "environment variable SLURM_STEP_NUM_TASKS is \"9999999999\"; expected a whole number");
  CHECK(with(kSlurmRank, "SLURM_PROCID", "9") ==
        "environment variable SLURM_PROCID is 9; expected less than SLURM_STEP_NUM_TASKS, 9");
  CHECK(with(kOpenMpiRank, "OMPI_COMM_WORLD_LOCAL_RANK", "") ==
        "environment variable OMPI_COMM_WORLD_LOCAL_RANK is \"\"; expected a whole number");
  CHECK(refusal_of({{"PMI_RANK", "0"}}) == "environment variable PMI_SIZE is missing");
  CHECK(refusal_of({{"SLURM_STEP_ID", "0"}}) == "environment variable SLURM_PROCID is missing");
}

}  // namespace
}  // namespace flow::exec
