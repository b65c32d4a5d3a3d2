// Shows progress on standard error.
#include "cli/flowrun/progress_bar.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <new>
#include <string_view>
#include <utility>

#include "cli/shared/console.h"
#include "runtime/base/display.h"
#include "runtime/base/error.h"
#include "runtime/base/text.h"
#include "runtime/plan/json/json.h"

namespace flow::cli {

namespace {

constexpr std::string_view kErase = "\r\033[J";  // erases from the cursor's line to the end
std::atomic<bool> bar_is_drawn = false;
static_assert(std::atomic<bool>::is_always_lock_free);

std::string rate_text(double steps_a_second) {
  if (steps_a_second >= 100) return fmt::format("  {:.0f} steps/s", steps_a_second);
  if (steps_a_second >= 1) return fmt::format("  {:.3g} steps/s", steps_a_second);
  return fmt::format("  {} per step", human_seconds(1 / steps_a_second));
}

std::string count_text(const exec::Progress& at) {
  if (at.steps == 0) return fmt::format(" {}", at.step);
  const std::string all = std::to_string(at.steps);
  return fmt::format(" {:>{}}/{}", at.step, all.size(), all);
}

/// Returns the epoch, the rate, the loss and the remaining time. Unknown values are empty.
std::array<std::string, 4> details_of(const exec::Progress& at, int64_t first) {
  const double rate = at.seconds > 0 ? static_cast<double>(at.step - first) / at.seconds : 0;
  std::array<std::string, 4> details;
  if (at.epochs > 0) details[0] = fmt::format("  epoch {}/{}", at.epoch + 1, at.epochs);
  if (rate > 0) details[1] = rate_text(rate);
  if (at.loss) details[2] = "  loss " + human_number(*at.loss);
  if (rate > 0 && at.steps > 0)
    details[3] =
        fmt::format("  {} left", human_seconds(static_cast<double>(at.steps - at.step) / rate));
  return details;
}

/// Writes to standard output and calls a function when the reader closes it.
struct StandardOutput {
  ProgressBar& bar;
  std::function<void()> on_closed;  // empty after the call
  bool on_terminal = isatty(STDOUT_FILENO);

  ssize_t write(std::string_view text) {
    int error = 0;
    const auto write_text = [&] { error = write_all(STDOUT_FILENO, text) ? 0 : errno; };
    if (on_terminal)
      bar.write_above(write_text);
    else
      write_text();
    if (error == 0) return static_cast<ssize_t>(text.size());
    if (error == EPIPE && on_closed) std::exchange(on_closed, {})();
    errno = error;
    return 0;
  }
};

}  // namespace

std::string bar_text(const std::string& job, const exec::Progress& at, int64_t first, int width) {
  const std::string name = escaped(job), count = count_text(at);
  std::array<std::string, 4> more = details_of(at, first);
  const auto room = [&] {
    // The last column stays empty, because some terminals wrap after it.
    return width - 1 - static_cast<int>(name.size() + count.size() + join(more, "").size());
  };
  for (const size_t least : {1, 0, 3, 2})
    if (room() < 0) more[least].clear();
  std::string bar;
  constexpr int kLeast = 8, kFrame = 3, kMost = 60;
  if (at.steps > 0 && room() >= kLeast + kFrame) {
    const int length = std::min(kMost, room() - kFrame);
    const auto full = static_cast<size_t>(
        length * (static_cast<double>(at.step) / static_cast<double>(at.steps)));
    bar = fmt::format(" [{:<{}}]", std::string(full, '='), length);
  }
  std::string text = name + bar + count + join(more, "");
  text.resize(std::min(text.size(), static_cast<size_t>(std::max(0, width - 1))));
  return text;
}

std::string line_text(const std::string& job, const exec::Progress& at, int64_t first) {
  return escaped(job) + count_text(at) + join(details_of(at, first), "");
}

void ProgressBar::begin() {
  const std::lock_guard lock(drawing_);
  if (style_ == Style::kBar) draw(escaped(job_) + "  starting");
}

void ProgressBar::show(const exec::Progress& progress) {
  if (style_ == Style::kSilent) return;
  const std::lock_guard lock(drawing_);
  if (first_ < 0) first_ = progress.step - 1;
  if (style_ == Style::kLines) return show_line(progress);
  // Ten updates per second are as many as a reader can follow.
  if (shown_at_ >= 0 && progress.seconds - shown_at_ < 0.1 && progress.step != progress.steps)
    return;
  shown_at_ = progress.seconds;
  if (style_ == Style::kBar) return draw(bar_text(job_, progress, first_, screen_columns(stderr)));
  OrderedJson line{{"event", "progress"}, {"job", job_}, {"step", progress.step}};
  if (progress.steps > 0) line["steps"] = progress.steps;
  line["epoch"] = progress.epoch;
  if (progress.loss) line["loss"] = *progress.loss;
  line["seconds"] = progress.seconds;
  print_object(line);
}

void ProgressBar::show_line(const exec::Progress& progress) {
  constexpr double kBetween = 30;  // seconds
  if (progress.seconds < std::max(shown_at_, 0.0) + kBetween) return;
  shown_at_ = progress.seconds;
  write_(fmt::format("flowrun: {}\n", line_text(job_, progress, first_)));
}

/// Replaces the text below the cursor. It occupies several lines if the terminal became narrower.
void ProgressBar::draw(std::string text) {
  text.resize(std::min(text.size(), static_cast<size_t>(screen_columns(stderr)) - 1));
  bar_is_drawn = !text.empty();
  write_(std::string(kErase) + (text.empty() ? "" : fmt::format("\n{}\033[A\r", text)));
  drawn_ = std::move(text);
}

void ProgressBar::clear() {
  const std::lock_guard lock(drawing_);
  if (!drawn_.empty()) draw("");
}

void ProgressBar::write_above(const std::function<void()>& write) {
  const std::lock_guard lock(drawing_);
  if (drawn_.empty()) return write();
  const std::string bar = drawn_;
  draw("");
  write();
  draw(bar);
}

void clear_bar_for_signal() {
  if (bar_is_drawn) print_in_handler(kErase);
}

std::unique_ptr<std::FILE, CloseFile> output_beside(ProgressBar& bar,
                                                    std::function<void()> on_closed) {
  const cookie_io_functions_t functions{
      .read = nullptr,
      .write = [](void* cookie, const char* text, size_t bytes) -> ssize_t {
        return static_cast<StandardOutput*>(cookie)->write({text, bytes});
      },
      .seek = nullptr,
      .close =
          [](void* cookie) {
            delete static_cast<StandardOutput*>(cookie);
            return 0;
          }};
  auto output = std::make_unique<StandardOutput>(StandardOutput{bar, std::move(on_closed)});
  std::unique_ptr<std::FILE, CloseFile> file(::fopencookie(output.get(), "w", functions));
  if (!file) throw std::bad_alloc();
  output.release();
  return file;
}

}  // namespace flow::cli
