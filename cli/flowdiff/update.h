// `flowdiff update GOLDEN OUT`.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace flow::cli {

struct UpdateOptions {
  std::string golden, out, reason;
  bool prune = false;
};

/// Adds the command to the program.
CLI::App* declare_update(CLI::App& app, UpdateOptions& options);

int run_update(const UpdateOptions& options);

}  // namespace flow::cli
