// Progress on standard error: a bar on a terminal, silence elsewhere, one object a line as JSON.
#pragma once

#include <cstdio>
#include <memory>
#include <string>

#include "runtime/exec/run.h"

namespace flow::cli {

/// "train [=====     ] 300/600  21 steps/s  loss 0.7441  14 s left" in less than `width` columns:
/// where they are few, what matters least is left out. `first`: the steps of earlier runs.
std::string bar_text(const std::string& job, const exec::Progress& at, int64_t first, int width);

class ProgressBar {
 public:
  enum class Style { kBar, kJson, kSilent };
  ProgressBar(Style style, std::string job) : style_(style), job_(std::move(job)) {}

  /// Before the first step, which may be long in coming.
  void begin();
  void show(const exec::Progress& progress);
  /// Takes the bar off the line, so that other text may follow.
  void clear();

 private:
  void draw(const std::string& text, int width);

  Style style_;
  std::string job_;
  double shown_at_ = -1;
  int64_t first_ = -1;  // steps of earlier runs, once known
  int drawn_ = 0;       // columns on the line
};

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
/// Standard output that takes the bar off its line before anything is written: both are seen at one
/// place. The bar outlives it.
std::unique_ptr<std::FILE, CloseFile> output_beside(ProgressBar& bar);

}  // namespace flow::cli
