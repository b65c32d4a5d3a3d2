// ListNumpy: an array for each device of the placement.
#include <catch2/catch.hpp>

#include "runtime/io/npy.h"
#include "runtime/plan/json/json.h"
#include "tests/support/fresh_directory.h"
#include "tests/unit/exec/fake_job.h"

namespace flow::exec {
namespace {

TEST_CASE("each device's array has its part of the batch, without padded rows", "[exec]") {
  const FreshDirectory home;
  write_rows(home / "x.npy", 7);
  plan::Job job = make_job(false, 4);
  job.devices = 2;
  job.returns = returns(kX);
  job.returns->value.kind = plan::ReturnValue::Kind::kListNumpy;
  job.hooks = {watch(kY, "y", {{0, 100, 1}}), watch(kW, "w", {{0, 1, 1}})};
  for (plan::Hook& hook : job.hooks) hook.per_device = true;
  TestRun run(job, home.path());
  run.run();
  // Of the rows (2i, 2i + 1): 0, 1 and 4, 5 on one device, 2, 3 and 6 on the other.
  CHECK(numbers(run / "returns/x/0/value.npy") == std::vector<double>{0, 1, 2, 3, 8, 9, 10, 11});
  CHECK(numbers(run / "returns/x/1/value.npy") == std::vector<double>{4, 5, 6, 7, 12, 13});
  CHECK(numbers(run / "watch/y/1/value.npy") ==
        std::vector<double>{4.5, 5.5, 6.5, 7.5, 12.5, 13.5});
  CHECK(numbers(run / "watch/w/0/value.npy") == std::vector<double>{0.5, 0.5});
  CHECK(numbers(run / "watch/w/1/value.npy") == std::vector<double>{0.5, 0.5});
  REQUIRE(run.said.size() == 1);
  CHECK(run.said[0] == "hooks will write 80 B");  // two halves of [4, 2] twice, [2] twice
}

TEST_CASE("what a device delivers says its part's shape, also where no row was delivered",
          "[exec]") {
  const FreshDirectory home;
  write_rows(home / "x.npy", 4);
  plan::Job job = make_job(true, 4);
  job.devices = 2;
  job.hooks = {watch(kY, "y", {{0, 100, 1}})};
  job.hooks[0].per_device = true;
  TestRun run(job, home.path());
  run.request.steps = 1;
  run.run();
  CHECK(io::read_npy(run / "watch/y/0/value.npy").shape() == Shape{1, 2, 2});
}

TEST_CASE("a device whose part of the last batch is all padding gets no rows", "[exec]") {
  const FreshDirectory home;
  write_rows(home / "x.npy", 5);
  plan::Job job = make_job(false, 4);
  job.devices = 4;
  job.returns = returns(kX, {plan::NpySink{}, plan::PrintSink{}});
  job.returns->value.kind = plan::ReturnValue::Kind::kListNumpy;
  TestRun run(job, home.path());
  run.request.out = std::tmpfile();
  run.run();
  std::fclose(run.request.out);
  CHECK(numbers(run / "returns/x/0/value.npy") == std::vector<double>{0, 1, 8, 9});
  CHECK(numbers(run / "returns/x/3/value.npy") == std::vector<double>{6, 7});
  CHECK(numbers(run / "returns/x/3/steps.npy") == std::vector<double>{0, 1});
}

TEST_CASE("a scope's files come with a list of what they are", "[exec]") {
  const FreshDirectory home;
  write_rows(home / "x.npy", 4);
  plan::Job job = make_job(true, 4);
  job.hooks = {watch(kY, "net/y", {{0, 1, 1}}), watch(kDiff, "net/y", {{0, 1, 1}})};
  job.hooks[1].kind = plan::Hook::Kind::kWatchDiff;
  for (plan::Hook& hook : job.hooks) {
    hook.scope = "net";
    hook.op = "add";
  }
  TestRun run(job, home.path());
  run.run();
  const Json scope = Json::parse(read_text(run / "watch/net/scope.json"));
  CHECK(scope["scope"] == "net");
  CHECK(scope["placement"] == "cpu");
  REQUIRE(scope["arrays"].size() == 2);
  CHECK(scope["arrays"][0]["event"] == "watch");
  CHECK(scope["arrays"][1] == Json::parse(R"({"name":"net/y","event":"watch_diff","op":"add",
                                              "dtype":"float32","shape":[4,2]})"));
}

}  // namespace
}  // namespace flow::exec
