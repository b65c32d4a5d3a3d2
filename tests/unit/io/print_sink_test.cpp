// What print sinks write: lines that people read.
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <csignal>
#include <limits>

#include "runtime/base/element_types.h"
#include "tests/unit/io/sink_case.h"

namespace flow::io {
namespace {

/// What a print sink writes.
class Printed {
 public:
  Printed(const plan::PrintSink& options, SinkContext context, bool json = false)
      : file_(std::tmpfile()), sink_(make_print_sink(options, context, file_, json)) {}
  ~Printed() { std::fclose(file_); }
  Sink& operator*() { return *sink_; }
  std::string text() {
    sink_->end_call();
    std::string text(static_cast<size_t>(std::ftell(file_)), '\0');
    std::rewind(file_);
    REQUIRE(std::fread(text.data(), 1, text.size(), file_) == text.size());
    return text;
  }

 private:
  std::FILE* file_;
  std::unique_ptr<Sink> sink_;
};

plan::PrintSink sums_of_epochs() {
  plan::PrintSink options;
  options.label = "";
  options.reduce = plan::Reduce::kSum;
  options.over = plan::Over::kEpoch;
  return options;
}

TEST_CASE("a print sink absorbs what it only sums up, and prints what it does not absorb", "[io]") {
  const Array value = floats({1, 2});
  const auto printed_when_not_absorbed = [&](plan::Over over) {
    plan::PrintSink options;
    options.reduce = plan::Reduce::kSum;
    options.over = over;
    options.every = over == plan::Over::kStep ? 3 : 1;
    std::FILE* file = std::tmpfile();
    const auto sink = make_print_sink(options, context_of(value), file);
    std::string pattern;
    for (int64_t step = 0; step < 8; ++step) {
      const Event event{step, step / 4, step % 4 == 3, value.view()};
      const long before = std::ftell(file);
      const bool absorbs = sink->absorbs(event.last_of_epoch);
      sink->deliver(event);
      CHECK(absorbs == (std::ftell(file) == before));
      pattern += absorbs ? '-' : 'p';
    }
    std::fclose(file);
    return pattern;
  };
  CHECK(printed_when_not_absorbed(plan::Over::kStep) == "p--p--p-");
  CHECK(printed_when_not_absorbed(plan::Over::kEpoch) == "---p---p");
  CHECK(printed_when_not_absorbed(plan::Over::kRun) == "--------");
  CHECK_FALSE(make_print_sink({}, context_of(value), stdout)->absorbs(false));
}

TEST_CASE("an epoch is told at its end, also where its last step is not watched", "[io]") {
  plan::PrintSink options = sums_of_epochs();
  Printed printed(options, context_of(floats({1})));
  deliver(*printed, 0, floats({1}), 0);
  (*printed).end_epoch();
  CHECK((*printed).held().empty());
  (*printed).end_epoch();  // of one in which nothing was watched
  deliver(*printed, 4, floats({5}), 2);
  CHECK(printed.text() == "1.0\n5.0\n");
}

TEST_CASE("sums that were held go on in their epoch, and not over another span", "[io]") {
  plan::PrintSink options = sums_of_epochs();
  const Array value = floats({1});
  Printed first(options, context_of(value), true);
  deliver(*first, 7, value, 3);
  const std::vector<uint64_t> held = (*first).held();
  Printed second(options, context_of(value), true);
  (*second).resume(held);
  CHECK_THAT(second.text(), Catch::Contains(R"("step":7,"epoch":3,"value":1.0)"));
  options.over = plan::Over::kRun;
  Printed other(options, context_of(value), true);
  (*other).resume(held);
  CHECK(other.text().empty());
}

TEST_CASE("every counts epochs where it prints epochs, after a resume too", "[io]") {
  plan::PrintSink options = sums_of_epochs();
  options.every = 2;
  const Array value = floats({1});
  SinkContext context = context_of(value);
  context.resume_from = context.delivered_before = 6;
  context.epochs_before = 3;
  Printed printed(options, context);
  deliver(*printed, 6, value, 3, true);
  deliver(*printed, 8, floats({5}), 4, true);
  CHECK(printed.text() == "5.0\n");
}

TEST_CASE("every counts calls where it prints what a whole call gave", "[io]") {
  plan::PrintSink options;
  options.label = "";
  options.reduce = plan::Reduce::kSum;
  options.over = plan::Over::kRun;
  options.every = 2;
  const Array value = floats({1});
  SinkContext context = context_of(value);
  context.resume_from = context.delivered_before = 6;
  context.calls_before = 3;
  Printed printed(options, context);
  for (int call = 0; call < 2; ++call) {
    deliver(*printed, 6 + call, value);
    (*printed).end_call();
  }
  CHECK(printed.text() == "1.0\n");
}

TEST_CASE("a value that was held is one of the tensor's shape", "[io]") {
  plan::PrintSink options;
  options.label = "";
  options.over = plan::Over::kRun;
  const Array value = floats({1, 2, 3});
  Printed first(options, context_of(value));
  deliver(*first, 4, floats({5, 6}));  // a batch that lacks a row
  std::vector<uint64_t> held = (*first).held();
  Printed second(options, context_of(value));
  (*second).resume(held);
  (*second).end_call();
  CHECK(second.text() == "[5. 6.]\n");
  held.push_back(0);
  Printed third(options, context_of(value));
  CHECK_THROWS_AS((*third).resume(held), RequestError);
}

TEST_CASE("a reader that goes away ends the printing and nothing else", "[io]") {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  ::close(ends[0]);
  std::FILE* out = ::fdopen(ends[1], "w");
  const auto before = std::signal(SIGPIPE, SIG_IGN);
  const Array value = floats({1, 2});
  {
    const auto sink = make_print_sink({}, context_of(value), out);
    for (int step = 0; step < 2; ++step) CHECK_NOTHROW(deliver(*sink, step, value));
    CHECK_NOTHROW(sink->end_call());
  }
  std::fclose(out);
  std::signal(SIGPIPE, before);
}

TEST_CASE("a line is the label and the array as NumPy prints it", "[io]") {
  const Array value = floats({1, -2.5f});
  Printed plain({}, context_of(value));
  deliver(*plain, 0, value);
  CHECK(plain.text() == "lenet/x: [ 1.  -2.5]\n");
  plan::PrintSink options;
  options.label = "";
  Printed bare(options, context_of(value));
  deliver(*bare, 0, value);
  CHECK(bare.text() == "[ 1.  -2.5]\n");
}

std::string printed_at(plan::PrintSink options, bool on_terminal) {
  const Array value = floats({1});
  SinkContext context = context_of(value);
  context.print_steps = on_terminal;
  Printed printed(options, context);
  (*printed).deliver({20, 2, true, value.view()});
  return printed.text();
}

TEST_CASE("a line begins with its step where the sink says so, else on a terminal", "[io]") {
  CHECK(printed_at({}, false) == "lenet/x: [1.]\n");
  CHECK(printed_at({}, true) == "step 20 lenet/x: [1.]\n");
  CHECK(printed_at({.label = {}, .step = true}, false) == "step 20 lenet/x: [1.]\n");
  CHECK(printed_at({.label = {}, .step = false}, true) == "lenet/x: [1.]\n");
  CHECK(printed_at({.label = ""}, true) == "step 20: [1.]\n");
  CHECK(printed_at({.label = {}, .over = plan::Over::kEpoch}, true) == "epoch 3 lenet/x: [1.]\n");
  CHECK(printed_at({.label = {}, .over = plan::Over::kRun}, true) == "lenet/x: [1.]\n");
  CHECK(printed_at({.label = {}, .over = plan::Over::kRun, .step = true}, false) ==
        "step 20 lenet/x: [1.]\n");
}

TEST_CASE("a terminal obeys nothing in a format, but for tabs", "[io]") {
  CHECK(printed_at({.label = {}, .format = "\x1b[31m\t%g\n"}, false) ==
        "lenet/x: [\\x1b[31m\t1\\n]\n");
}

std::string printed_in_call(const plan::CallPlace& call, const std::string& label, bool json) {
  plan::PrintSink options;
  options.label = label;
  const Array value = floats({1});
  SinkContext context = context_of(value);
  context.job = "eval";
  Printed printed(options, context, json);
  (*printed).deliver({7, 2, false, value.view(), call});
  return printed.text();
}

TEST_CASE("a line of a called job says which job and when it was called", "[io]") {
  CHECK(printed_in_call({600, 3, true}, "accuracy", false) == "eval epoch 3 accuracy: [1.]\n");
  CHECK(printed_in_call({600, 3, false}, "accuracy", false) == "eval step 600 accuracy: [1.]\n");
  CHECK(printed_in_call({600, 3, true}, "", false) == "eval epoch 3: [1.]\n");
  CHECK(printed_in_call({600, 3, true}, "accuracy", true) ==
        R"({"event":"print","job":"eval","name":"lenet/x","label":"accuracy","step":7,"epoch":2,)"
        R"("main_step":600,"main_epoch":3,"value":[1.0]})"
        "\n");
}

TEST_CASE("each number that is reduced and printed is kept, as JSON, with its place", "[io]") {
  plan::PrintSink options;
  options.label = "sum";
  options.every = 2;
  const Array value = floats({1, 0.1F});
  SinkContext context = context_of(value);
  std::vector<plan::ReducedMetrics> kept;
  context.keep_reduced = [&](const plan::ReducedMetrics& reduced) { kept.push_back(reduced); };
  Printed whole(options, context);
  deliver(*whole, 0, value);
  CHECK(kept.empty());  // an array is no number
  options.reduce = plan::Reduce::kSum;
  Printed printed(options, context);
  for (int64_t step = 3; step < 6; ++step) deliver(*printed, step, value, 1);
  CHECK(printed.text() == "sum: 1.1\nsum: 1.1\n");
  REQUIRE(kept.size() == 2);
  CHECK(kept[0].place.step == 3);
  CHECK(kept[1].place.step == 5);
  CHECK(kept[1].place.epoch == 1);
  CHECK(kept[1].place.job == "train");
  CHECK_FALSE(kept[1].place.job_step);
  CHECK(kept[1].name == "lenet/x");
  CHECK(kept[1].label == "sum");
  CHECK(kept[1].value == "1.1");
}

TEST_CASE("a gradient, and what a scope gives, tell their shape and dtype", "[io]") {
  const Array value = floats({1, 2});
  SinkContext context = context_of(value);
  (GENERATE(false, true) ? context.gradient : context.in_scope) = true;
  Printed printed({}, context);
  deliver(*printed, 0, value);
  CHECK(printed.text() == "lenet/x: [1. 2.] (2,) float32\n");
}

TEST_CASE("a reduced value prints as a scalar of the tensor's dtype", "[io]") {
  plan::PrintSink options;
  options.label = "loss";
  options.reduce = plan::Reduce::kMean;
  const Array value = floats({2, 2.6051702f});
  Printed printed(options, context_of(value));
  deliver(*printed, 0, value);
  CHECK(printed.text() == "loss: 2.3025851\n");
}

std::string reduced(plan::Reduce reduce, const Array& value, double scale = 1) {
  plan::PrintSink options;
  options.label = "";
  options.reduce = reduce;
  options.scale = scale;
  Printed printed(options, context_of(value));
  deliver(*printed, 0, value);
  const std::string text = printed.text();
  return text.substr(0, text.size() - 1);
}

TEST_CASE("every reduction gives what NumPy gives", "[io]") {
  using plan::Reduce;
  const Array values = floats({3, -4, 1});
  CHECK(reduced(Reduce::kSum, values) == "0.0");
  CHECK(reduced(Reduce::kMin, values) == "-4.0");
  CHECK(reduced(Reduce::kMax, values) == "3.0");
  CHECK(reduced(Reduce::kNorm, floats({3, 4})) == "5.0");
  CHECK(reduced(Reduce::kMax, values, 0.5) == "1.5");
  const Array whole = array_of<int32_t>({3}, {1, 2, 4});
  CHECK(reduced(Reduce::kSum, whole) == "7");
  CHECK(reduced(Reduce::kMax, whole) == "4");
  CHECK(reduced(Reduce::kMean, whole) == "2.3333333333333335");
  const Array flags = array_of<bool>({4}, {true, true, false, true});
  CHECK(reduced(Reduce::kSum, flags) == "3");
  CHECK(reduced(Reduce::kMin, flags) == "False");
  CHECK(reduced(Reduce::kMean, flags, 100) == "75.0");
  const Array large = array_of<int64_t>({2}, {std::numeric_limits<int64_t>::max(), 3});
  CHECK(reduced(Reduce::kMax, large) == "9223372036854775807");
  CHECK(reduced(Reduce::kMax, floats({1, std::nanf(""), 2})) == "nan");
  CHECK(reduced(Reduce::kMean, floats({})) == "nan");
  CHECK(reduced(Reduce::kMin, floats({1, std::nanf(""), 2})) == "nan");
  CHECK(reduced(Reduce::kSum, floats({INFINITY, 1})) == "inf");
  CHECK(reduced(Reduce::kSum, whole, 0.5) == "3.5");
  CHECK(reduced(Reduce::kSum, floats({1e30f, 1, -1e30f})) == "1.0");
}

TEST_CASE("a reduction over epochs prints one line an epoch", "[io]") {
  plan::PrintSink options;
  options.label = "m";
  options.reduce = plan::Reduce::kMean;
  options.over = plan::Over::kEpoch;
  const Array value = floats({0});
  Printed printed(options, context_of(value));
  deliver(*printed, 0, floats({1}), 0);
  deliver(*printed, 1, floats({2}), 0, true);
  deliver(*printed, 2, floats({5}), 1);
  (*printed).end_epoch();  // its last step does not fire
  deliver(*printed, 4, floats({7}), 2);
  CHECK(printed.text() == "m: 1.5\nm: 5.0\nm: 7.0\n");
}

TEST_CASE("a reduction over the run prints once, at its end", "[io]") {
  plan::PrintSink options;
  options.label = "accuracy";
  options.reduce = plan::Reduce::kMean;
  options.over = plan::Over::kRun;
  options.scale = 100;
  options.format = "%.2f %%";
  const Array value = floats({0, 0, 0});
  Printed printed(options, context_of(value));
  deliver(*printed, 0, floats({1, 1, 0}));
  deliver(*printed, 1, floats({1}));  // an incomplete batch counts by its rows
  CHECK(printed.text() == "accuracy: 75.00 %\n");
}

TEST_CASE("without reduction a longer span prints its last value", "[io]") {
  plan::PrintSink options;
  options.label = "";
  options.over = plan::Over::kRun;
  options.scale = 2;
  const Array value = floats({0});
  Printed printed(options, context_of(value));
  for (int64_t step = 0; step < 3; ++step)
    deliver(*printed, step, floats({static_cast<float>(step)}));
  CHECK(printed.text() == "[4.]\n");
}

TEST_CASE("a reduced gradient is a number, which has no shape to tell", "[io]") {
  plan::PrintSink options;
  options.reduce = plan::Reduce::kNorm;
  SinkContext context = context_of(floats({3, 4}));
  context.gradient = true;
  Printed printed(options, context);
  deliver(*printed, 0, floats({3, 4}));
  CHECK(printed.text() == "lenet/x: 5.0\n");
}

TEST_CASE("nothing delivered, nothing printed", "[io]") {
  plan::PrintSink options;
  options.over = plan::Over::kRun;
  CHECK(Printed(options, context_of(floats({1}))).text().empty());
}

TEST_CASE("every counts what would be printed, and goes on after a resume", "[io]") {
  plan::PrintSink options;
  options.label = "";
  options.reduce = plan::Reduce::kSum;
  options.every = 3;
  const Array value = floats({0});
  Printed first(options, context_of(value));
  for (int64_t step = 0; step < 5; ++step)
    deliver(*first, step, floats({static_cast<float>(step)}));
  CHECK(first.text() == "0.0\n3.0\n");
  SinkContext context = context_of(value);
  context.resume_from = context.delivered_before = 5;
  Printed second(options, context);
  for (int64_t step = 5; step < 10; ++step)
    deliver(*second, step, floats({static_cast<float>(step)}));
  CHECK(second.text() == "6.0\n9.0\n");
}

TEST_CASE("a printf format applies to every element", "[io]") {
  plan::PrintSink options;
  options.format = "%.1e";
  const Array value = array_of<float>({2, 2}, {1, 2, 3, 4000});
  Printed printed(options, context_of(value));
  deliver(*printed, 0, value);
  CHECK(printed.text() == "lenet/x: [[1.0e+00 2.0e+00]\n [3.0e+00 4.0e+03]]\n");
}

TEST_CASE("a format that is not one conversion of a double is refused", "[io]") {
  for (const char* format :
       {"%s", "%n", "%d", "%.2f %.2f", "none", "%", "%999999f", "%*f", "%lf"}) {
    plan::PrintSink options;
    options.format = format;
    INFO(format);
    CHECK_THROWS_AS(make_print_sink(options, context_of(floats({1})), stdout), RequestError);
  }
}

TEST_CASE("JSON lines carry numbers, nested as the array is", "[io]") {
  plan::PrintSink options;
  options.label = "a \"label\"";
  const Array value = array_of<float>({2, 2}, {-INFINITY, 1, std::nanf(""), -1e-7f});
  Printed printed(options, context_of(value), true);
  deliver(*printed, 20, value, 3);
  CHECK(
      printed.text() ==
      R"({"event":"print","job":"train","name":"lenet/x","label":"a \"label\"","step":20,"epoch":3,)"
      R"("value":[[null,1.0],[null,-1e-07]]})"
      "\n");
}

}  // namespace
}  // namespace flow::io
