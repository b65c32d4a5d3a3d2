// Opening the module of the CUDA backend. No CUDA library is linked here.
#include "runtime/exec/run/module.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <string_view>

#include "flow_build_id.h"

namespace flow::exec {
namespace {

constexpr const char* kModule = "libflow_cuda.so";
constexpr const char* kDriver = "libcuda.so.1";

/// What the loader says of an object that it could not open, as flow says it.
Gpu not_loaded(const fs::path& module, const std::string& said) {
  const std::string library = said.substr(0, said.find(':'));
  const std::string missing = fmt::format("{} is missing; the CUDA module requires it", library);
  if (library.find("libcudnn") != std::string::npos)
    return {missing, "install cuDNN 9 for CUDA 13, or add its directory to LD_LIBRARY_PATH"};
  if (library != module.string() && said.find("cannot open shared object") != std::string::npos)
    return {missing, "install the libraries of CUDA 13, or add their directory to LD_LIBRARY_PATH"};
  return {fmt::format("cannot load the CUDA module {}: {}", module.string(), said),
          "rebuild or reinstall flow"};
}

/// The driver's library, which every use of a GPU needs. Asked for first: the module brings
/// hundreds of megabytes with it. It stays open for the module.
bool has_driver() { return ::dlopen(kDriver, RTLD_LAZY | RTLD_LOCAL) != nullptr; }

template <typename Function>
Function* entry(void* module, const char* name) {
  return reinterpret_cast<Function*>(::dlsym(module, name));
}

}  // namespace

const char* build_id() { return FLOW_BUILD_ID; }

Gpu find_gpu() {
  Dl_info library{};
  std::error_code ignored;
  fs::path folder;
  if (::dladdr(reinterpret_cast<const void*>(&build_id), &library) != 0)
    folder = fs::weakly_canonical(library.dli_fname, ignored).parent_path();
  const fs::path module = folder / kModule;
  if (!fs::exists(module, ignored))
    return {
        "flow was built without CUDA",
        fmt::format("build flow with the CUDA toolkit and cuDNN; {} is missing", module.string())};
  if (!has_driver())
    return {"this machine has no NVIDIA driver",
            fmt::format("install the driver of the GPU; {} is missing", kDriver)};
  return open_module(module);
}

Gpu open_module(const fs::path& module) {
  void* opened = ::dlopen(module.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!opened) return not_loaded(module, ::dlerror());
  auto* id = entry<ModuleEntries::BuildId>(opened, "flow_module_build_id");
  auto* find = entry<ModuleEntries::Find>(opened, "flow_module_find");
  auto* make = entry<ModuleEntries::MakeBackend>(opened, "flow_module_make_backend");
  if (!id || !find || !make)
    return {fmt::format("{} is not a flow module", module.string()), "rebuild or reinstall flow"};
  if (std::string_view(id()) != build_id())
    return {
        fmt::format("{} has build {}; this flow has build {}", module.string(), id(), build_id()),
        "rebuild or reinstall both from the same sources"};
  const char *problem = "", *remedy = "";
  if (!find(&problem, &remedy)) return {problem, remedy};
  return Gpu(make);
}

}  // namespace flow::exec
