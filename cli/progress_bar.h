// Progress on standard error: a bar on a terminal, a line now and then elsewhere, objects as JSON.
#pragma once

#include <cstdio>
#include <functional>
#include <memory>
#include <string>

#include "cli/console.h"
#include "runtime/exec/run.h"

namespace flow::cli {

/// "train [=====     ] 300/600  21 steps/s  loss 0.7441  14 s left" in less than `width` columns:
/// where they are few, what matters least is left out. `first`: the steps of earlier runs.
std::string bar_text(const std::string& job, const exec::Progress& at, int64_t first, int width);

/// The same where there is no terminal: "train 300/600  21 steps/s  loss 0.7441  14 s left".
std::string line_text(const std::string& job, const exec::Progress& at, int64_t first);

class ProgressBar {
 public:
  /// kLines: one after each 30 s, none in a shorter run.
  enum class Style { kBar, kLines, kJson, kSilent };
  ProgressBar(Style style, std::string job,
              std::function<void(const std::string&)> write = tell_painted)
      : style_(style), job_(std::move(job)), write_(std::move(write)) {}

  /// Before the first step, which may be long in coming.
  void begin();
  void show(const exec::Progress& progress);
  /// Takes the bar off the line, so that other text may follow.
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
/// Standard output that takes the bar off its line before anything is written: both are seen at one
/// place. `on_closed` is called once, when its reader has closed it. The bar outlives it.
std::unique_ptr<std::FILE, CloseFile> output_beside(ProgressBar& bar,
                                                    std::function<void()> on_closed);

}  // namespace flow::cli
