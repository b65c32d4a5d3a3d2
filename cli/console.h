// What all programs share at the terminal: how failures are told, colour, the progress bar.
#pragma once

#include <cstdio>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/exec/run.h"

namespace CLI {
class App;
}

namespace flow::cli {

/// Runs `body` and turns what it throws into a message on standard error and an exit status:
/// "flowrun: error: ..." with its hint, or a defect's "please report". `program` is its name.
int guarded(const char* program, const std::function<int()>& body);

/// Parses the command line; usage errors are told with the nearest flag and `--help`.
/// Returns -1 to go on, or the exit status to leave with (0 after --help and --version).
int parse(CLI::App& app, int argc, char** argv);

/// Names a program, gives it --version and the shape of its --help.
void dress(CLI::App& app, const std::string& name);

/// Is colour wanted on this stream? A terminal, NO_COLOR unset, TERM not dumb.
bool wants_color(std::FILE* stream);

/// Writes to standard error. That nobody reads it any more is no reason to fail.
void tell(const std::string& text);

/// Writes "error: TEXT" and "hint: HINT" lines to standard error.
void tell_error(const char* program, const std::string& message, const std::string& hint);

/// "12 s", "3 min 20 s", "2 h 05 min"
std::string human_seconds(double seconds);

/// Progress on standard error: a bar on a terminal, silence elsewhere, one object a line as JSON.
class ProgressBar {
 public:
  enum class Style { kBar, kJson, kSilent };
  ProgressBar(Style style, std::string job) : style_(style), job_(std::move(job)) {}
  void show(const exec::Progress& progress);
  /// Takes the bar off the line, so that other text may follow.
  void clear();

 private:
  Style style_;
  std::string job_;
  double shown_at_ = -1;
  bool visible_ = false;
};

}  // namespace flow::cli
