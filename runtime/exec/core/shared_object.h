// Shared objects of flow that are opened when they are needed.
#pragma once

#include <initializer_list>
#include <string>

#include "runtime/base/expected.h"
#include "runtime/base/file.h"

namespace flow::exec {

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

}  // namespace flow::exec
