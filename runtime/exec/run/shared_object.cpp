// Shared objects of flow that are opened when they are needed.
#include "runtime/exec/run/shared_object.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "runtime/exec/run/module.h"

namespace flow::exec {
namespace {

/// What the loader says of an object that it could not open, as flow says it.
RunError not_loaded(const fs::path& path, const std::string& said, const std::string& title,
                    SharedObject::Remedy* remedy) {
  const std::string library = said.substr(0, said.find(':'));
  if (library != path.string() && said.find("cannot open shared object") != std::string::npos)
    return RunError(fmt::format("{} is missing; the {} requires it", library, title),
                    remedy(library));
  return RunError(fmt::format("cannot load the {} {}: {}", title, path.string(), said),
                  "rebuild or reinstall flow");
}

}  // namespace

fs::path library_folder() {
  Dl_info library{};
  std::error_code ignored;
  if (::dladdr(reinterpret_cast<const void*>(&build_id), &library) == 0) return {};
  return fs::weakly_canonical(library.dli_fname, ignored).parent_path();
}

Expected<SharedObject> SharedObject::open(const fs::path& path, int mode, const std::string& title,
                                          Remedy* remedy,
                                          std::initializer_list<const char*> entries) {
  void* handle = ::dlopen(path.c_str(), mode);
  if (!handle) return not_loaded(path, ::dlerror(), title, remedy);
  const SharedObject object(handle);
  auto* id = object.entry<ModuleEntries::BuildId>("flow_module_build_id");
  if (!id || !std::ranges::all_of(entries, [&](const char* name) { return object.find(name); }))
    return RunError(fmt::format("{} is not a flow module", path.string()),
                    "rebuild or reinstall flow");
  if (std::string_view(id()) != build_id())
    return RunError(
        fmt::format("{} has build {}; this flow has build {}", path.string(), id(), build_id()),
        "rebuild or reinstall both from the same sources");
  return object;
}

void* SharedObject::find(const char* name) const { return ::dlsym(handle_, name); }

}  // namespace flow::exec
