// Shows progress on standard error: a bar on a terminal, a line every 30 s elsewhere, or JSON
// objects.
#pragma once

#include <cstdio>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "cli/shared/console.h"
#include "runtime/exec/run/run.h"

namespace flow::cli {

/// Returns "train [=====     ] 300/600  epoch 1/2  21 steps/s  loss 0.7441  14 s left" in fewer
/// than `width` columns. A narrow line omits the least important parts. `first` is the number of
/// steps of earlier runs.
std::string bar_text(const std::string& job, const exec::Progress& at, int64_t first, int width);

/// Returns the same text without a bar: "train 300/600  21 steps/s  loss 0.7441  14 s left".
std::string line_text(const std::string& job, const exec::Progress& at, int64_t first);

/// Draws the bar on the line below the cursor, which stays at the beginning of its line. The bar is
/// thus at the bottom, and lines that other programs write to the terminal stay readable. Several
/// threads may call the functions.
class ProgressBar {
 public:
  /// kLines prints a line every 30 s, so a shorter run prints none.
  enum class Style { kBar, kLines, kJson, kSilent };
  ProgressBar(Style style, std::string job,
              std::function<void(const std::string&)> write = print_painted_to_stderr)
      : style_(style), job_(std::move(job)), write_(std::move(write)) {}
  ~ProgressBar() { clear(); }
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  /// Shows the bar. Called before the first step, which may take long.
  void begin();
  void show(const exec::Progress& progress);
  /// Removes the bar.
  void clear();
  /// Calls `write`, which writes other text to the terminal. The bar stays below this text.
  void write_above(const std::function<void()>& write);

 private:
  void show_line(const exec::Progress& progress);
  void draw(std::string text);

  Style style_;
  std::string job_;
  std::function<void(const std::string&)> write_;
  double shown_at_ = -1;  // in seconds of the run
  int64_t first_ = -1;    // number of steps of earlier runs; -1 until known
  std::string drawn_;     // the text on the screen
  std::mutex drawing_;
};

/// Removes the bar if there is one. For signal handlers in a program that is about to end.
void clear_bar_for_signal();

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
/// Returns standard output, which may share a terminal with the bar. Calls `on_closed` once when
/// the reader closes it. REQUIRES: `bar` outlives the returned file.
std::unique_ptr<std::FILE, CloseFile> output_beside(ProgressBar& bar,
                                                    std::function<void()> on_closed);

}  // namespace flow::cli
