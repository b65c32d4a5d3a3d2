// Shared objects that are opened on demand: modules of flow, such as the CUDA backend, and NVIDIA's
// libraries.
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

/// Returns the value of an environment variable, or null.
using Environment = std::function<const char*(const char* name)>;

/// The folder that contains this library and the modules.
fs::path library_folder();

/// Returns true if flow was installed from Debian packages, of which each module is one.
bool is_packaged();

/// An opened module. It stays open until the process ends.
class SharedObject {
 public:
  /// Returns a text that explains how to get a library that the module needs.
  using Remedy = std::string(const std::string& library);
  /// Opens a library that the loader does not find. Returns false on failure.
  using FindLibrary = bool(const std::string& library);

  /// Opens a module of this build that exports `entries` and flow_module_build_id. `mode` is that
  /// of dlopen, `title` appears in messages: "CUDA module". `find` may be null.
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

/// The existing folders, in search order, that may contain NVIDIA's libraries besides the places
/// that the loader searches: the folder of flow, a CUDA toolkit, and the wheels in a Python
/// environment, as PyTorch installs them. `own` is the folder of flow.
std::vector<fs::path> nvidia_folders(const fs::path& own, const Environment& environment);

/// Returns the folders for this process.
std::vector<fs::path> nvidia_folders();

/// Opens the library with this file name from the first folder where opening succeeds. It stays
/// open, so that later loads by this name find it.
bool open_from(const std::vector<fs::path>& folders, const std::string& library);

/// The NVIDIA libraries that this process has opened: their files by name, such as "libcudnn.so.9".
std::map<std::string, std::string> opened_nvidia_libraries();

/// The functions that a backend module exports, with C linkage. The module and the library that
/// opens it must be of the same build, because the interfaces between them are C++.
struct ModuleEntries {
  /// flow_module_build_id: the caller compares the result before it calls anything else.
  using BuildId = const char*();
  /// flow_module_find: returns the names of the devices, separated by commas; each name is unique
  /// on the machine. If there are no devices, returns "" and sets `problem` to the reason and
  /// `remedy` to the solution. All texts stay valid.
  using Find = const char*(const char** problem, const char** remedy);
  /// flow_module_make_backend: makes the backend of the device with this index. The caller owns it.
  /// Throws RunError.
  using MakeBackend = Backend*(int device);
};

/// Identifies the build of this library.
const char* build_id();

/// The GPUs of this machine, or the reason why none can be used.
class Gpu {
 public:
  Gpu(ModuleEntries::MakeBackend* make, std::string names)
      : make_(make), names_(std::move(names)) {}
  Gpu(std::string problem, std::string remedy)
      : problem_(std::move(problem)), remedy_(std::move(remedy)) {}

  bool found() const { return make_ != nullptr; }
  /// If no GPU is found: "this machine has no NVIDIA driver", "install it".
  const std::string& problem() const { return problem_; }
  const std::string& remedy() const { return remedy_; }
  /// The GPUs that this process may use: "GPU-0b9e...,GPU-5f21...".
  const std::string& names() const { return names_; }
  /// Initializes a device for use. Throws RunError on failure. REQUIRES: found().
  std::unique_ptr<Backend> open(int device) const {
    return std::unique_ptr<Backend>(make_(device));
  }

 private:
  ModuleEntries::MakeBackend* make_ = nullptr;
  std::string names_;
  std::string problem_, remedy_;
};

/// Looks for a driver, and for the CUDA module in the folder of this library. Does not initialize
/// any device.
Gpu find_gpu();

/// Opens a module, which stays open until the process ends.
Gpu open_module(const fs::path& module);

}  // namespace flow::exec
