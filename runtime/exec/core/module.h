// Shared objects that are opened when they are needed: modules of flow, such as the CUDA backend,
// and NVIDIA's libraries.
#pragma once

#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/base/file.h"
#include "runtime/exec/core/backend.h"

namespace flow::exec {

/// The value of a variable of the environment, or null.
using Environment = std::function<const char*(const char* name)>;

/// The folder of this library, where the modules are too.
fs::path library_folder();

/// Was flow installed as packages of Debian, of which each module is one?
bool is_packaged();

/// A module that was opened. It stays open until the process ends.
class SharedObject {
 public:
  /// How to get a library that the module needs.
  using Remedy = std::string(const std::string& library);
  /// Opens a library that the loader does not find. False where that fails.
  using FindLibrary = bool(const std::string& library);

  /// Opens a module of this build that exports `entries` and flow_module_build_id. `mode` is that
  /// of dlopen, `title` is for messages: "CUDA module". `find` may be null.
  static Expected<SharedObject> open(const fs::path& path, int mode, const std::string& title,
                                     Remedy* remedy, std::initializer_list<const char*> entries,
                                     FindLibrary* find = nullptr);

  template <typename Function>
  Function* entry(const char* name) const {
    return reinterpret_cast<Function*>(find(name));
  }

 private:
  explicit SharedObject(void* handle) : handle_(handle) {}
  void* find(const char* name) const;

  void* handle_;
};

/// The folders where NVIDIA's libraries may be beyond the places that the loader knows: beside
/// flow, in a CUDA toolkit, or in the wheels of a Python environment, as PyTorch installs them.
/// They are in the order of the search, as far as they exist. `own`: the folder of flow.
std::vector<fs::path> nvidia_folders(const fs::path& own, const Environment& environment);

/// The same for this process.
std::vector<fs::path> nvidia_folders();

/// Opens the library of that file name from the first folder where that succeeds. It stays open:
/// what needs it by its name finds it.
bool open_from(const std::vector<fs::path>& folders, const std::string& library);

/// The libraries of NVIDIA that this process has opened: files by their names, "libcudnn.so.9".
std::map<std::string, std::string> opened_nvidia_libraries();

/// What a module of a backend exports, with C linkage. It and the library that opens it are of one
/// build: the interfaces between them are C++.
struct ModuleEntries {
  /// flow_module_build_id: compared before anything else is called.
  using BuildId = const char*();
  /// flow_module_find: the names of the devices, with commas between them, that no two devices of a
  /// machine have in common. Where there are none: "", why, and what to do. All texts stay valid.
  using Find = const char*(const char** problem, const char** remedy);
  /// flow_module_make_backend: for a device, by its index; the caller owns it. Throws RunError.
  using MakeBackend = Backend*(int device);
};

/// The build that this library is of.
const char* build_id();

/// The GPUs of this machine, or why none can be used.
class Gpu {
 public:
  Gpu(ModuleEntries::MakeBackend* make, std::string names)
      : make_(make), names_(std::move(names)) {}
  Gpu(std::string problem, std::string remedy)
      : problem_(std::move(problem)), remedy_(std::move(remedy)) {}

  bool found() const { return make_ != nullptr; }
  /// Where none is found: "this machine has no NVIDIA driver", "install it".
  const std::string& problem() const { return problem_; }
  const std::string& remedy() const { return remedy_; }
  /// "GPU-0b9e...,GPU-5f21...": of those that this process may use.
  const std::string& names() const { return names_; }
  /// Takes a device into use. RunError where that fails. REQUIRES: found().
  std::unique_ptr<Backend> open(int device) const {
    return std::unique_ptr<Backend>(make_(device));
  }

 private:
  ModuleEntries::MakeBackend* make_ = nullptr;
  std::string names_;
  std::string problem_, remedy_;
};

/// Looks for a driver, and for the CUDA module beside this library. Takes no device into use.
Gpu find_gpu();

/// Opens a module; it stays open until the process ends.
Gpu open_module(const fs::path& module);

}  // namespace flow::exec
