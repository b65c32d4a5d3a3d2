// Starts a program in a process of its own.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "runtime/base/file.h"

namespace flow::io {

/// Descriptors: as which number the child is to have them says the name; negative ones it lacks.
struct ChildOptions {
  std::vector<std::string> words;        // the program, looked up in PATH, and its arguments
  std::vector<std::string> environment;  // NAME=VALUE
  fs::path directory;                    // where it works
  int standard_input = -1;               // above 3
  bool output_to_stderr = false;
  int third = -1;   // descriptor 3; above 3
  int keeper = -1;  // told of the child's process group before the program starts (keeper.h)
};

/// Starts the program as leader of a new process group, without any other descriptor, and with
/// default signals. Returns its id. RunError when it cannot. REQUIRES: SIGPIPE is ignored.
pid_t start_child(ChildOptions options);

}  // namespace flow::io
