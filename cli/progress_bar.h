// Progress on standard error: a bar on a terminal, a line every 30 s elsewhere, or JSON objects.
#pragma once

#include <cstdio>
#include <functional>
#include <memory>
#include <string>

#include "cli/console.h"
#include "runtime/exec/run/run.h"

namespace flow::cli {

/// "train [=====     ] 300/600  21 steps/s  loss 0.7441  14 s left" in fewer than `width` columns;
/// a narrow line omits the least important parts. `first`: the number of steps of earlier runs.
std::string bar_text(const std::string& job, const exec::Progress& at, int64_t first, int width);

/// The same without a bar: "train 300/600  21 steps/s  loss 0.7441  14 s left".
std::string line_text(const std::string& job, const exec::Progress& at, int64_t first);

class ProgressBar {
 public:
  /// kLines: a line every 30 s, so a shorter run has no line.
  enum class Style { kBar, kLines, kJson, kSilent };
  ProgressBar(Style style, std::string job,
              std::function<void(const std::string&)> write = print_painted_to_stderr)
      : style_(style), job_(std::move(job)), write_(std::move(write)) {}

  /// Call before the first step, which may take long.
  void begin();
  void show(const exec::Progress& progress);
  /// Clears the bar's line for other text.
  void clear();

 private:
  void show_line(const exec::Progress& progress);
  void draw(const std::string& text, int width);

  Style style_;
  std::string job_;
  std::function<void(const std::string&)> write_;
  double shown_at_ = -1;  // in seconds of the run
  int64_t first_ = -1;    // steps of earlier runs, once known
  int drawn_ = 0;         // columns on the line
};

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
/// Standard output that clears the bar before each write, since both share a terminal. Calls
/// `on_closed` once, when the reader closes it. The bar must outlive it.
std::unique_ptr<std::FILE, CloseFile> output_beside(ProgressBar& bar,
                                                    std::function<void()> on_closed);

}  // namespace flow::cli
