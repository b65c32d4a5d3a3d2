// A backend in a shared object of its own, opened when a job asks for it.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "runtime/base/file.h"
#include "runtime/exec/core/backend.h"

namespace flow::exec {

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
