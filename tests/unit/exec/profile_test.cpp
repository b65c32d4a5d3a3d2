// Where the time of a run went.
#include "runtime/exec/core/profile.h"

#include <catch2/catch.hpp>

#include "runtime/base/file.h"
#include "runtime/plan/json/json.h"
#include "tests/support/fresh_directory.h"
#include "tests/unit/exec/fake_job.h"

namespace flow::exec {
namespace {

TEST_CASE("a median of durations is near the one in the middle, from nanoseconds to minutes",
          "[exec]") {
  CHECK(Durations().median() == 0);
  for (const int64_t middle : {1, 17, 31, 32, 33, 1000, 123456, 987654321}) {
    Durations durations;
    for (const int64_t each : {middle, int64_t{0}, middle, middle * 90, middle})
      durations.add(each);
    CHECK(durations.count() == 5);
    CHECK(durations.seconds() == Approx(static_cast<double>(middle) * 93e-9));
    CHECK(durations.median() == Approx(static_cast<double>(middle) * 1e-9).epsilon(0.032));
  }
}

TEST_CASE("a duration that is longer than any that is counted apart counts as long", "[exec]") {
  Durations durations;
  durations.add(int64_t{1} << 60);
  CHECK(durations.median() > 3600);
}

struct Profiled {
  explicit Profiled(bool train, int64_t epochs = 3) {
    write_rows(home / "x.npy", 4);
    plan::Job job = make_job(train, 2);
    job.run.epochs = epochs;
    job.returns = returns(kY);
    run.emplace(job, home.path());
    run->backend.timed = true;
    run->request.profile = true;
    outcome = run->run();
  }
  Json trace() const { return Json::parse(read_text(*run / "profile.json")); }

  FreshDirectory home;
  std::optional<TestRun> run;
  RunOutcome outcome;
};

const ProfileRow& row(const std::vector<ProfileRow>& rows, const std::string& name) {
  const auto found = std::ranges::find(rows, name, &ProfileRow::name);
  REQUIRE(found != rows.end());
  return *found;
}

TEST_CASE("a profile counts what the threads do and the steps that ran", "[exec]") {
  const Profiled profiled(true);
  REQUIRE(profiled.outcome.profiles.size() == 1);
  const ProfileReport& report = profiled.outcome.profiles[0];
  CHECK(report.job == "train");
  CHECK(report.calls == 6);
  CHECK(report.seconds > 0);
  CHECK(row(report.compute, "launch").calls == 6);
  CHECK(row(report.compute, "wait for inputs").calls == 6);
  CHECK(row(report.beside, "load inputs").calls == 6);
  CHECK(row(report.beside, "deliver").calls == 6);
  // The fake's steps take 1000 and 3000 ns; the second one runs in every other call.
  REQUIRE(report.steps.size() == 2);
  CHECK(report.steps[0].name == "y/often");
  CHECK(report.steps[0].calls == 6);
  CHECK(report.steps[0].seconds == Approx(18e-6));
  CHECK(report.steps[0].kernel == "by hand");
  CHECK(row(report.steps, "y/rarely").calls == 3);
  CHECK(row(report.steps, "y/rarely").median == Approx(1e-6).epsilon(0.03));
}

TEST_CASE("the trace has the first calls in full, and stays small", "[exec]") {
  const Json trace = Profiled(false, 150).trace();
  int launches = 0, named = 0, last_step = 0;
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] == "M") {
      ++named;
      continue;
    }
    CHECK(event["ph"] == "X");
    CHECK(event["ts"].get<double>() >= 0);
    last_step = std::max(last_step, event["args"]["step"].get<int>());
    if (event["name"] == "launch") ++launches;
  }
  CHECK(named == 5);  // the process and its tracks
  CHECK(launches == 200);
  CHECK(last_step == 199);
  CHECK(trace["jobs"][0]["calls"] == 300);
}

TEST_CASE("a run that is not profiled leaves no profile", "[exec]") {
  const FreshDirectory home;
  write_rows(home / "x.npy", 4);
  TestRun run(make_job(true, 2), home.path());
  CHECK(run.run().profiles.empty());
  CHECK_FALSE(fs::exists(run / "profile.json"));
}

}  // namespace
}  // namespace flow::exec
