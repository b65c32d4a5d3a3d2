// metrics.jsonl: which rows stay.
#include "runtime/exec/events/tensorboard.h"

#include <catch2/catch.hpp>

#include "tests/support/fresh_directory.h"

namespace flow::exec {
namespace {

void append_steps(MetricsLog& log, int64_t first, int64_t end) {
  for (int64_t step = first; step < end; ++step)
    log.append(plan::CalledMetrics{{step, 0, "tune", step}, 0.5, 0.1});
}

std::string steps_in(const fs::path& path) {
  std::string steps;
  const std::string text = read_text(path);
  for (size_t at = 0; at < text.size(); at = text.find('\n', at) + 1)
    steps += text.substr(at + std::string_view("{\"step\":").size(), 1);
  return steps;
}

TEST_CASE("a resumed run keeps as many rows as its checkpoint counts", "[exec]") {
  const FreshDirectory home;
  const fs::path path = home / "metrics.jsonl";
  {
    MetricsLog log(path, 0);
    append_steps(log, 0, 5);
    CHECK(log.length().rows == 5);
  }
  {
    MetricsLog resumed(path, 3);
    CHECK(resumed.length().rows == 3);
    append_steps(resumed, 7, 9);
  }
  CHECK(steps_in(path) == "01278");
  MetricsLog anew(path, 0);
  CHECK(read_text(path).empty());
}

TEST_CASE("rows that a power cut lost or tore are no rows", "[exec]") {
  const FreshDirectory home;
  const fs::path path = home / "metrics.jsonl";
  {
    MetricsLog log(path, 0);
    append_steps(log, 0, 2);
  }
  write_text_atomically(path, read_text(path) + R"({"step":2,"ep)");
  MetricsLog resumed(path, 6);
  CHECK(resumed.length().rows == 2);
  append_steps(resumed, 6, 7);
  CHECK(steps_in(path) == "016");
}

TEST_CASE("rows of what is made again are taken back", "[exec]") {
  const FreshDirectory home;
  const fs::path path = home / "metrics.jsonl";
  MetricsLog log(path, 0);
  append_steps(log, 0, 3);
  const MetricsLog::Length before = log.length();
  append_steps(log, 3, 6);
  log.cut(before);
  append_steps(log, 8, 9);
  CHECK(steps_in(path) == "0128");
  CHECK(log.length().rows == 4);
}

}  // namespace
}  // namespace flow::exec
