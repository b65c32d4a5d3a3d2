// Collects what a bug report needs to know of flow and its machine.
#include "cli/flowrun/version_report.h"

#include "flow_version.h"
#include "runtime/base/text.h"
#include "runtime/cpu/loops/features.h"
#include "runtime/exec/core/library_search.h"
#include "runtime/exec/core/module.h"
#include "runtime/exec/ranks/mpi_module.h"
#include "runtime/plan/json/json.h"

namespace flow::cli {
namespace {

OrderedJson describe_gpus() {
  const exec::Gpu gpu = exec::find_gpu();
  if (gpu.found()) return {{"usable", true}, {"devices", split(gpu.names(), ',')}};
  return {{"usable", false}, {"problem", gpu.problem()}, {"remedy", gpu.remedy()}};
}

}  // namespace

std::string version_report() {
  OrderedJson report{
      {"name", "flowrun"},
      {"version", FLOW_VERSION},
      {"build", exec::build_id()},
      {"cpu", {{"instruction_set", cpu::instruction_set()}, {"cores", cpu::usable_cores()}}},
      {"gpu", describe_gpus()},
      {"mpi", exec::built_mpi()}};
  report["libraries"] = exec::opened_nvidia_libraries();
  return report.dump();
}

}  // namespace flow::cli
