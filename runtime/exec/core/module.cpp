// Opening the module of the CUDA backend. No CUDA library is linked here.
#include "runtime/exec/core/module.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include "flow_build_id.h"
#include "runtime/exec/core/library_search.h"
#include "runtime/exec/core/shared_object.h"

namespace flow::exec {
namespace {

constexpr const char* kModule = "libflow_cuda.so";
constexpr const char* kDriver = "libcuda.so.1";

std::string remedy_without(const std::string& library) {
  if (library.find("libcudnn") != std::string::npos)
    return "install cuDNN 9 for CUDA 13 (such as the Python package nvidia-cudnn-cu13), or add its "
           "directory to LD_LIBRARY_PATH";
  return "install the libraries of CUDA 13 (such as the Python packages of PyTorch), or add their "
         "directory to LD_LIBRARY_PATH";
}

bool find_nvidia_library(const std::string& library) {
  return open_from(nvidia_folders(), library);
}

/// The driver's library, which every use of a GPU needs. Asked for first: the module brings
/// hundreds of megabytes with it. It stays open for the module.
bool has_driver() { return ::dlopen(kDriver, RTLD_LAZY | RTLD_LOCAL) != nullptr; }

}  // namespace

const char* build_id() { return FLOW_BUILD_ID; }

Gpu find_gpu() {
  std::error_code ignored;
  const fs::path module = library_folder() / kModule;
  if (!fs::exists(module, ignored))
    return is_packaged()
               ? Gpu("the CUDA module is not installed", "install the package flow-cuda")
               : Gpu("flow was built without CUDA",
                     fmt::format("build flow with the CUDA toolkit and cuDNN; {} is missing",
                                 module.string()));
  if (!has_driver())
    return {"this machine has no NVIDIA driver",
            fmt::format("install the driver of the GPU; {} is missing", kDriver)};
  return open_module(module);
}

Gpu open_module(const fs::path& module) {
  constexpr const char *kFind = "flow_module_find", *kMakeBackend = "flow_module_make_backend";
  const auto opened =
      SharedObject::open(module, RTLD_NOW | RTLD_LOCAL, "CUDA module", remedy_without,
                         {kFind, kMakeBackend}, find_nvidia_library);
  if (!opened) return {opened.error().what(), opened.error().hint()};
  const char *problem = "", *remedy = "";
  const std::string names = opened->entry<ModuleEntries::Find>(kFind)(&problem, &remedy);
  if (names.empty()) return {problem, remedy};
  return {opened->entry<ModuleEntries::MakeBackend>(kMakeBackend), names};
}

}  // namespace flow::exec
