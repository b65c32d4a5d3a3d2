// Opens modules of flow and the libraries that they need. This file links to no CUDA library.
#include "runtime/exec/core/module.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>

#include <algorithm>
#include <cstdlib>

#include "flow_build_id.h"
#include "runtime/base/text.h"

namespace flow::exec {
namespace {

/// Returns the library that the loader's message `said` reports as missing, or "" if it reports
/// another error.
std::string missing_library(const fs::path& path, const std::string& said) {
  const std::string library = said.substr(0, said.find(':'));
  const bool missing = said.find("cannot open shared object") != std::string::npos;
  return missing && library != path.string() ? library : "";
}

/// Translates the loader's message about an object that it could not open into an error of flow.
RunError not_loaded(const fs::path& path, const std::string& said, const std::string& title,
                    SharedObject::Remedy* remedy) {
  if (const std::string library = missing_library(path, said); !library.empty())
    return RunError(fmt::format("{} is missing; the {} requires it", library, title),
                    remedy(library));
  return RunError(fmt::format("cannot load the {} {}: {}", title, path.string(), said),
                  "rebuild or reinstall flow");
}

/// Looks once for each library that the loader does not find. If the result is null, `said` is the
/// reason.
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

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

/// Returns the subfolders in sorted order, so that every run finds the same library.
std::vector<fs::path> folders_in(const fs::path& path) {
  std::vector<fs::path> found;
  std::error_code ignored;
  for (fs::directory_iterator entry(path, ignored), end; entry != end; entry.increment(ignored))
    if (is_folder(entry->path())) found.push_back(entry->path());
  std::ranges::sort(found);
  return found;
}

/// Returns the absolute path that an environment variable contains, or an empty path.
fs::path path_in(const Environment& environment, const char* name) {
  const char* value = environment(name);
  fs::path path(value ? value : "");
  return path.is_absolute() ? path : fs::path();
}

class Search {
 public:
  explicit Search(const Environment& environment) : environment_(environment) {}

  std::vector<fs::path> run(const fs::path& own) {
    add(own);
    for (const char* name : {"CUDA_HOME", "CUDA_PATH"}) add_toolkit(path_in(environment_, name));
    add_toolkit("/usr/local/cuda");
    for (const char* name : {"VIRTUAL_ENV", "CONDA_PREFIX"})
      add_python(path_in(environment_, name));
    add_pythons_on_path();
    if (const fs::path home = path_in(environment_, "HOME"); !home.empty())
      add_python(home / ".local");
    add_python("/usr/local");
    add_python("/usr");
    return std::move(found_);
  }

 private:
  void add(const fs::path& folder) {
    if (!folder.empty() && is_folder(folder) && std::ranges::count(found_, folder) == 0)
      found_.push_back(folder);
  }

  void add_toolkit(const fs::path& root) {
    if (!root.empty()) add(root / "lib64");
  }

  /// Wheels store their libraries in nvidia/cudnn/lib, nvidia/cu13/lib and similar folders.
  void add_python(const fs::path& root) {
    if (root.empty()) return;
    for (const fs::path& python : folders_in(root / "lib")) {
      if (!python.filename().string().starts_with("python")) continue;
      for (const char* packages : {"site-packages", "dist-packages"})
        for (const fs::path& wheel : folders_in(python / packages / "nvidia")) add(wheel / "lib");
    }
  }

  /// Adds the environments of the interpreters on PATH: the folder of the path, because the
  /// interpreter of a virtual environment is a link to another one, and the folder of the link's
  /// target.
  void add_pythons_on_path() {
    const char* path = environment_("PATH");
    for (const std::string& folder : split(path ? path : "", ':')) {
      const fs::path python = fs::path(folder) / "python3";
      std::error_code missing;
      if (!python.is_absolute() || !fs::exists(python, missing)) continue;
      add_python(python.parent_path().parent_path());
      add_python(fs::weakly_canonical(python, missing).parent_path().parent_path());
    }
  }

  const Environment& environment_;
  std::vector<fs::path> found_;
};

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

/// Returns true if the driver's library is present, which every use of a GPU requires. This is
/// checked first because the module loads hundreds of megabytes. The library stays open for the
/// module.
bool has_driver() { return ::dlopen(kDriver, RTLD_LAZY | RTLD_LOCAL) != nullptr; }

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

std::vector<fs::path> nvidia_folders(const fs::path& own, const Environment& environment) {
  return Search(environment).run(own);
}

std::vector<fs::path> nvidia_folders() {
  return nvidia_folders(library_folder(), [](const char* name) { return std::getenv(name); });
}

bool open_from(const std::vector<fs::path>& folders, const std::string& library) {
  return std::ranges::any_of(folders, [&](const fs::path& folder) {
    const fs::path file = folder / library;
    std::error_code missing;
    return fs::exists(file, missing) && ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  });
}

std::map<std::string, std::string> opened_nvidia_libraries() {
  std::map<std::string, std::string> files;
  ::dl_iterate_phdr(
      [](dl_phdr_info* object, size_t, void* into) {
        const std::string name = fs::path(object->dlpi_name).filename();
        for (const std::string_view library :
             {"libcuda.so", "libcublas", "libcudnn", "libnvrtc", "libnccl"})
          if (name.starts_with(library))
            (*static_cast<std::map<std::string, std::string>*>(into))[name] = object->dlpi_name;
        return 0;
      },
      &files);
  return files;
}

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
