// Lists folders, and opens libraries from them.
#include "runtime/exec/core/library_search.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "runtime/base/text.h"
#include "runtime/exec/core/shared_object.h"

namespace flow::exec {
namespace {

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

/// Sorted, so that every run finds the same library.
std::vector<fs::path> folders_in(const fs::path& path) {
  std::vector<fs::path> found;
  std::error_code ignored;
  for (fs::directory_iterator entry(path, ignored), end; entry != end; entry.increment(ignored))
    if (is_folder(entry->path())) found.push_back(entry->path());
  std::ranges::sort(found);
  return found;
}

/// An absolute path that a variable holds, or an empty one.
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

  /// Wheels have their libraries in nvidia/cudnn/lib, nvidia/cu13/lib and the like.
  void add_python(const fs::path& root) {
    if (root.empty()) return;
    for (const fs::path& python : folders_in(root / "lib")) {
      if (!python.filename().string().starts_with("python")) continue;
      for (const char* packages : {"site-packages", "dist-packages"})
        for (const fs::path& wheel : folders_in(python / packages / "nvidia")) add(wheel / "lib");
    }
  }

  /// A link to an interpreter leads to its environment; a virtual one keeps what it links to.
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

}  // namespace

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

}  // namespace flow::exec
