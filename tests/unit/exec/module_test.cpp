// Modules that cannot be used: each is refused with its reason.
#include "runtime/exec/core/module.h"

#include <catch2/catch.hpp>
#include <cstdlib>

#include "flow_version.h"
#include "tests/support/fresh_directory.h"

namespace flow::exec {
namespace {

void check_refused(const fs::path& module, const std::string& problem, const std::string& remedy) {
  const Gpu gpu = open_module(module);
  CHECK_FALSE(gpu.found());
  CHECK(gpu.problem().find(problem) != std::string::npos);
  CHECK(gpu.remedy().find(remedy) != std::string::npos);
}

TEST_CASE("a module of another build is refused before anything of it is used", "[exec]") {
  check_refused(FLOW_STALE_MODULE, "has build 0.0.0-stale; this flow has build " FLOW_VERSION "-",
                "rebuild or reinstall both");
}

TEST_CASE("a shared object that is no module of flow is refused", "[exec]") {
  check_refused(FLOW_RUNTIME_LIBRARY, "is not a flow module", "rebuild or reinstall flow");
}

TEST_CASE("what the loader cannot open is told in its words", "[exec]") {
  const FreshDirectory folder;
  File::create(folder / "libflow_cuda.so").write(std::string_view("not a library"));
  check_refused(folder / "libflow_cuda.so", "cannot load the CUDA module ",
                "rebuild or reinstall flow");
}

TEST_CASE("a library that the module needs and this machine lacks is named", "[exec]") {
  check_refused(FLOW_LACKING_MODULE, "libcudnn_absent.so is missing; the CUDA module requires it",
                "install cuDNN 9");
}

TEST_CASE("a library that a Python environment has is found there", "[exec]") {
  const fs::path module = FLOW_SEARCHING_MODULE;
  REQUIRE(::setenv("VIRTUAL_ENV", (module.parent_path() / "venv").c_str(), 1) == 0);
  check_refused(module, "is not a flow module", "rebuild or reinstall flow");  // it was opened
  const auto opened = opened_nvidia_libraries();
  const auto found = opened.find("libcudnn_elsewhere.so");
  REQUIRE(found != opened.end());
  CHECK(found->second.find("/venv/lib/python3.11/site-packages/nvidia/cudnn/lib/") !=
        std::string::npos);
  ::unsetenv("VIRTUAL_ENV");
}

TEST_CASE("where no GPU is found there is a reason and a remedy", "[exec]") {
  const Gpu gpu = find_gpu();
  CHECK(gpu.found() == gpu.problem().empty());
  CHECK(gpu.found() == gpu.remedy().empty());
}

}  // namespace
}  // namespace flow::exec
