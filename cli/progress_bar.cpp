// Progress on standard error.
#include "cli/progress_bar.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <new>
#include <string_view>
#include <utility>

#include "cli/console.h"
#include "runtime/base/check.h"
#include "runtime/base/display.h"
#include "runtime/base/text.h"
#include "runtime/plan/json/json.h"

namespace flow::cli {

namespace {

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

/// The rate, the loss and the time that is left; what is not known is empty.
std::array<std::string, 3> details_of(const exec::Progress& at, int64_t first) {
  const double rate = at.seconds > 0 ? static_cast<double>(at.step - first) / at.seconds : 0;
  std::array<std::string, 3> details;
  if (rate > 0) details[0] = rate_text(rate);
  if (at.loss) details[1] = "  loss " + human_number(*at.loss);
  if (rate > 0 && at.steps > 0)
    details[2] =
        fmt::format("  {} left", human_seconds(static_cast<double>(at.steps - at.step) / rate));
  return details;
}

/// Standard output, and what to do when its reader closes it.
struct Output {
  ProgressBar& bar;
  std::function<void()> on_closed;  // empty once called

  ssize_t write(std::string_view text) {
    bar.clear();
    if (write_all(STDOUT_FILENO, text)) return static_cast<ssize_t>(text.size());
    const int error = errno;
    if (error == EPIPE && on_closed) std::exchange(on_closed, {})();
    errno = error;
    return 0;
  }
};

}  // namespace

std::string bar_text(const std::string& job, const exec::Progress& at, int64_t first, int width) {
  const std::string name = escaped(job), count = count_text(at);
  std::array<std::string, 3> more = details_of(at, first);
  const auto room =
      [&] {  // the last column stays free: some terminals go on to the next line there
        return width - 1 -
               static_cast<int>(name.size() + count.size() + more[0].size() + more[1].size() +
                                more[2].size());
      };
  for (const size_t least : {0, 2, 1})
    if (room() < 0) more[least].clear();
  std::string bar;
  constexpr int kLeast = 8, kFrame = 3, kMost = 60;
  if (at.steps > 0 && room() >= kLeast + kFrame) {
    const int length = std::min(kMost, room() - kFrame);
    const auto full = static_cast<size_t>(
        length * (static_cast<double>(at.step) / static_cast<double>(at.steps)));
    bar = fmt::format(" [{:<{}}]", std::string(full, '='), length);
  }
  std::string text = name + bar + count + more[0] + more[1] + more[2];
  text.resize(std::min(text.size(), static_cast<size_t>(std::max(0, width - 1))));
  return text;
}

std::string line_text(const std::string& job, const exec::Progress& at, int64_t first) {
  const std::array<std::string, 3> details = details_of(at, first);
  return escaped(job) + count_text(at) + details[0] + details[1] + details[2];
}

void ProgressBar::begin() {
  if (style_ == Style::kBar) draw(escaped(job_) + "  starting", columns_of(stderr));
}

void ProgressBar::show(const exec::Progress& progress) {
  if (style_ == Style::kSilent) return;
  if (first_ < 0) first_ = progress.step - 1;
  if (style_ == Style::kLines) return show_line(progress);
  // Ten times a second is as often as an eye follows.
  if (shown_at_ >= 0 && progress.seconds - shown_at_ < 0.1 && progress.step != progress.steps)
    return;
  shown_at_ = progress.seconds;
  if (style_ == Style::kBar) {
    const int width = columns_of(stderr);
    return draw(bar_text(job_, progress, first_, width), width);
  }
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

/// What was drawn may take more than a line by now: the terminal may have become narrower.
void ProgressBar::draw(const std::string& text, int width) {
  const int lines_above = drawn_ > 0 ? (drawn_ - 1) / std::max(1, width) : 0;
  const std::string up = lines_above > 0 ? fmt::format("\033[{}A", lines_above) : "";
  write_(fmt::format("\r{}\033[J{}", up, text));
  drawn_ = static_cast<int>(text.size());
}

void ProgressBar::clear() {
  if (drawn_ > 0) draw("", columns_of(stderr));
}

std::unique_ptr<std::FILE, CloseFile> output_beside(ProgressBar& bar,
                                                    std::function<void()> on_closed) {
  const cookie_io_functions_t functions{
      .read = nullptr,
      .write = [](void* cookie, const char* text, size_t bytes) -> ssize_t {
        return static_cast<Output*>(cookie)->write({text, bytes});
      },
      .seek = nullptr,
      .close =
          [](void* cookie) {
            delete static_cast<Output*>(cookie);
            return 0;
          }};
  auto output = std::make_unique<Output>(Output{bar, std::move(on_closed)});
  std::unique_ptr<std::FILE, CloseFile> file(::fopencookie(output.get(), "w", functions));
  if (!file) throw std::bad_alloc();
  output.release();
  return file;
}

}  // namespace flow::cli
