// What sinks of files write: arrays that NumPy reads.
#include <algorithm>
#include <catch2/catch.hpp>

#include "runtime/base/element_types.h"
#include "runtime/io/npy.h"
#include "tests/support/fresh_directory.h"
#include "tests/unit/io/sink_case.h"

namespace flow::io {
namespace {

template <typename T>
std::vector<T> content(const fs::path& path) {
  const Array array = read_npy(path);
  return {array.as<T>().begin(), array.as<T>().end()};
}

/// The names in a folder, sorted.
std::vector<std::string> names_in(const fs::path& directory) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(directory))
    names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  return names;
}

TEST_CASE("a stacked sink writes values and steps", "[io]") {
  const FreshDirectory directory;
  const Array value = array_of<float>({2}, {1, 2});
  const auto sink = make_npy_sink({}, context_of(value, directory / "watch" / "x"));
  CHECK(read_npy(directory / "watch/x/value.npy").shape() == Shape{0, 2});
  deliver(*sink, 0, value);
  deliver(*sink, 100, value);
  CHECK(read_npy(directory / "watch/x/value.npy").shape() == Shape{2, 2});
  CHECK(content<int64_t>(directory / "watch/x/steps.npy") == std::vector<int64_t>{0, 100});
}

TEST_CASE("a gradient has files of its own beside the value's", "[io]") {
  const FreshDirectory directory;
  const Array value = floats({1});
  SinkContext context = context_of(value, directory.path());
  context.gradient = true;
  for (const bool per_step : {false, true}) {
    const auto sink = make_npy_sink({per_step}, context);
    deliver(*sink, 7, value);
  }
  CHECK(names_in(directory.path()) ==
        std::vector<std::string>{"diff.npy", "diff_000007.npy", "diff_steps.npy"});
}

TEST_CASE("rows of a predict job are joined", "[io]") {
  const FreshDirectory directory;
  const Array full = array_of<int64_t>({4}, {1, 2, 3, 4});
  SinkContext context = context_of(full, directory.path());
  context.rows_at = [](int64_t step) { return step == 0 ? 4 : 2; };
  const auto sink = make_npy_sink({}, context);
  deliver(*sink, 0, full);
  deliver(*sink, 1, array_of<int64_t>({2}, {5, 6}));
  CHECK(content<int64_t>(directory / "value.npy") == std::vector<int64_t>{1, 2, 3, 4, 5, 6});
  CHECK(content<int64_t>(directory / "steps.npy") == std::vector<int64_t>{0, 1});
}

TEST_CASE("bfloat16 is written as float32", "[io]") {
  const FreshDirectory directory;
  Array value(DType::kBFloat16, {2});
  const uint16_t bits[] = {float_to_bfloat16(1.5f), float_to_bfloat16(-2)};
  std::memcpy(value.bytes().data(), bits, sizeof(bits));
  const auto sink = make_npy_sink({}, context_of(value, directory.path()));
  deliver(*sink, 0, value);
  CHECK(content<float>(directory / "value.npy") == std::vector<float>{1.5f, -2});
}

TEST_CASE("one file a step is named by the step", "[io]") {
  const FreshDirectory directory;
  const Array value = floats({1, 2});
  const auto sink = make_npy_sink({true}, context_of(value, directory / "x"));
  deliver(*sink, 20, value);
  deliver(*sink, 1234567, value);
  CHECK(names_in(directory / "x") == std::vector<std::string>{"000020.npy", "1234567.npy"});
  CHECK(content<float>(directory / "x/000020.npy") == std::vector<float>{1, 2});
}

TEST_CASE("a resumed run keeps the steps before and drops those after", "[io]") {
  const FreshDirectory directory;
  const Array value = floats({1});
  SinkContext context = context_of(value, directory.path());
  for (const bool per_step : {false, true}) {
    const auto sink = make_npy_sink({per_step}, context);
    for (int64_t step = 0; step < 50; step += 10)
      deliver(*sink, step, floats({static_cast<float>(step)}));
  }
  context.resume_from = 25;
  for (const bool per_step : {false, true}) {
    const auto sink = make_npy_sink({per_step}, context);
    deliver(*sink, 30, floats({-30}));
  }
  CHECK(content<float>(directory / "value.npy") == std::vector<float>{0, 10, 20, -30});
  CHECK(content<int64_t>(directory / "steps.npy") == std::vector<int64_t>{0, 10, 20, 30});
  CHECK(names_in(directory.path()) == std::vector<std::string>{"000000.npy", "000010.npy",
                                                               "000020.npy", "000030.npy",
                                                               "steps.npy", "value.npy"});
}

TEST_CASE("a hook that is new to a resumed run starts its files", "[io]") {
  const FreshDirectory directory;
  const Array value = floats({1});
  SinkContext context = context_of(value, directory / "new");
  context.resume_from = 25;
  const auto sink = make_npy_sink({}, context);
  deliver(*sink, 30, value);
  CHECK(content<int64_t>(directory / "new/steps.npy") == std::vector<int64_t>{30});
}

TEST_CASE("joined rows are cut at a step, or not at all where batches were incomplete", "[io]") {
  const FreshDirectory directory;
  const Array full = array_of<int64_t>({2}, {1, 2});
  SinkContext context = context_of(full, directory.path());
  context.rows_at = [](int64_t step) { return step == 1 ? 1 : 2; };
  const auto whole = [&](const Sink& /*fresh*/) {
    return content<int64_t>(directory / "value.npy");
  };
  {
    const auto sink = make_npy_sink({}, context);
    deliver(*sink, 0, full);
    deliver(*sink, 1, array_of<int64_t>({1}, {9}));
    deliver(*sink, 2, full);
  }
  context.resume_from = 3;
  CHECK(whole(*make_npy_sink({}, context)) == std::vector<int64_t>{1, 2, 9, 1, 2});
  context.resume_from = 2;
  CHECK(whole(*make_npy_sink({}, context)) == std::vector<int64_t>{1, 2, 9});
  // A value without its step, as a crash may leave it.
  write_npy(directory / "value.npy", array_of<int64_t>({5}, {1, 2, 9, 7, 7}).view());
  CHECK(whole(*make_npy_sink({}, context)) == std::vector<int64_t>{1, 2, 9});
  write_npy(directory / "value.npy", full.view());
  CHECK_THROWS_AS(make_npy_sink({}, context), RunError);
}

TEST_CASE("a place that cannot be written is refused at once", "[io]") {
  const FreshDirectory directory;
  write_text_atomically(directory / "file", "");
  const Array value = floats({1});
  CHECK_THROWS_AS(make_npy_sink({}, context_of(value, directory / "file" / "x")), RunError);
  CHECK_THROWS_AS(make_npy_sink({true}, context_of(value, directory / "file" / "x")), RunError);
}

TEST_CASE("a sink of variety none is none", "[io]") {
  CHECK_FALSE(make_sink(plan::NoSink{}, context_of(floats({1})), stdout));
  CHECK(make_sink(plan::PrintSink{}, context_of(floats({1})), stdout));
}

}  // namespace
}  // namespace flow::io
