// Shared objects of flow that are opened when they are needed.
#include "runtime/exec/core/shared_object.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "runtime/exec/core/module.h"

namespace flow::exec {
namespace {

/// The library that an object needs and the loader does not find, as it says; or "".
std::string missing_library(const fs::path& path, const std::string& said) {
  const std::string library = said.substr(0, said.find(':'));
  const bool missing = said.find("cannot open shared object") != std::string::npos;
  return missing && library != path.string() ? library : "";
}

/// What the loader says of an object that it could not open, as flow says it.
RunError not_loaded(const fs::path& path, const std::string& said, const std::string& title,
                    SharedObject::Remedy* remedy) {
  if (const std::string library = missing_library(path, said); !library.empty())
    return RunError(fmt::format("{} is missing; the {} requires it", library, title),
                    remedy(library));
  return RunError(fmt::format("cannot load the {} {}: {}", title, path.string(), said),
                  "rebuild or reinstall flow");
}

/// Each library that the loader misses is looked for once. `said`: why the result is null.
void* open_with_libraries(const fs::path& path, int mode, SharedObject::FindLibrary* find,
                          std::string& said) {
  std::string looked_for;
  for (;;) {
    if (void* handle = ::dlopen(path.c_str(), mode)) return handle;
    said = ::dlerror();
    const std::string library = missing_library(path, said);
    if (!find || library.empty() || library == looked_for || !find(library)) return nullptr;
    looked_for = library;
  }
}

}  // namespace

fs::path library_folder() {
  Dl_info library{};
  std::error_code ignored;
  if (::dladdr(reinterpret_cast<const void*>(&build_id), &library) == 0) return {};
  return fs::weakly_canonical(library.dli_fname, ignored).parent_path();
}

bool is_packaged() {
  std::error_code ignored;
  return library_folder().string().starts_with("/usr/lib/") &&
         fs::exists("/var/lib/dpkg/info/flow.list", ignored);
}

Expected<SharedObject> SharedObject::open(const fs::path& path, int mode, const std::string& title,
                                          Remedy* remedy,
                                          std::initializer_list<const char*> entries,
                                          FindLibrary* find) {
  std::string said;
  void* handle = open_with_libraries(path, mode, find, said);
  if (!handle) return not_loaded(path, said, title, remedy);
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
