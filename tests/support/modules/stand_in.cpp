// The CUDA backend as a module for programs, on a device that is not there: what they do with a GPU
// runs end to end without one.
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>

#include "flow_build_id.h"
#include "runtime/base/error.h"
#include "runtime/cuda/program/backend.h"
#include "runtime/exec/core/module.h"
#include "tests/support/cuda/fake_driver.h"
#include "tests/support/cuda/naive_libraries.h"
#include "tests/support/modules/file_nccl.h"

namespace {

constexpr int kGpus = 8;

/// Ends the program where the driver was misused or is left with what nobody destroyed.
class JudgingDriver final : public flow::test::FakeDriver {
 public:
  /// The runtime beside this module is not instrumented, and touches pinned memory.
  JudgingDriver()
      : FakeDriver({.graphs = flow::test::GraphOrder::kLatestFirst, .watched = false}) {}
  ~JudgingDriver() override {
    if (problems().empty()) return;
    for (const std::string& problem : problems()) fmt::print(stderr, "stand-in GPU: {}\n", problem);
    std::fflush(nullptr);
    std::abort();
  }
};

}  // namespace

extern "C" {
flow::exec::ModuleEntries::BuildId flow_module_build_id;
flow::exec::ModuleEntries::Find flow_module_find;
flow::exec::ModuleEntries::MakeBackend flow_module_make_backend;

const char* flow_module_build_id() { return FLOW_BUILD_ID; }

const char* flow_module_find(const char**, const char**) {
  return "GPU-0,GPU-1,GPU-2,GPU-3,GPU-4,GPU-5,GPU-6,GPU-7";
}

flow::exec::Backend* flow_module_make_backend(int device) {
  if (device >= kGpus) throw flow::RunError(fmt::format("no GPU {}: there are {}", device, kGpus));
  auto driver = std::make_unique<JudgingDriver>();
  // STAND_IN_FAILS=1:500 lets call 500 of GPU 1 fail.
  int failing = 0, call = 0;
  const char* const fails = std::getenv("STAND_IN_FAILS");
  if (fails && std::sscanf(fails, "%d:%d", &failing, &call) == 2 && failing == device)
    driver->fail_at(call);
  auto libraries = std::make_unique<flow::cuda::NaiveLibraries>(*driver);
  flow::stand_in::use_file_nccl(*driver);
  return flow::cuda::make_backend(std::move(driver), std::move(libraries),
                                  flow::stand_in::open_file_nccl)
      .release();
}
}
