// Checkpoints: written whole, loaded, resumed from.
#include "runtime/exec/checkpoint/checkpoint.h"

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <csignal>
#include <set>

#include "runtime/base/error.h"
#include "runtime/base/text.h"
#include "runtime/io/npy.h"
#include "tests/support/fresh_directory.h"
#include "tests/unit/exec/fake_job.h"

namespace flow::exec {
namespace {

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder))
    names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  return names;
}

/// A train job over ten rows, shuffled, with a momentum, watched and returned.
plan::Job long_job() {
  plan::Job job = make_job(true, 3);
  job.run.shuffle = true;
  job.run.steps = 20;
  job.returns = returns(kLoss);
  job.hooks = {watch(kY, "y", {{0, 100, 3}})};
  return job;
}

/// Trains for `steps` and returns where the last state is.
fs::path train(const FreshDirectory& home, const std::string& out, int64_t steps) {
  write_rows(home / "x.npy", 10);
  TestRun run(long_job(), home.path(), out);
  run.request.steps = steps;
  return *run.run().checkpoint;
}

TEST_CASE("checkpoints are written as it goes and the newest kept", "[exec]") {
  const FreshDirectory home;
  write_rows(home / "x.npy", 10);
  plan::Job job = long_job();
  job.run.checkpoint.every_steps = 4;
  job.run.checkpoint.keep = 2;
  TestRun run(job, home.path());
  run.run();
  CHECK(names_in(run / "checkpoints") == std::vector<std::string>{"000016", "000020"});
  job.run.checkpoint.every_steps = 0;
  job.run.checkpoint.every_epochs = 2;
  job.run.checkpoint.keep = 10;
  TestRun epochs(job, home.path(), "epochs");
  epochs.run();
  CHECK(names_in(epochs / "checkpoints") ==
        std::vector<std::string>{"000006", "000012", "000018", "000020"});
}

TEST_CASE("a checkpoint by time replaces the one before, unless a number of them is kept",
          "[exec]") {
  const FreshDirectory home;
  write_rows(home / "x.npy", 10);
  plan::Job job = long_job();
  job.run.checkpoint.every_minutes = 1e-12;  // after each step
  job.run.checkpoint.keep = 2;
  const std::string end = "000020";
  for (const bool rolls : {true, false}) {
    job.run.checkpoint.rolls = rolls;
    TestRun run(job, home.path(), rolls ? "rolling" : "kept");
    std::set<std::string> seen;
    run.backend.on_launch = [&](const Call& call) {
      if (call.step > 5)
        for (const std::string& name : names_in(run / "checkpoints")) seen.insert(name);
    };
    run.run();
    // A checkpoint is written while later steps run, so that not every launch sees another one.
    CHECK(seen.size() >= 3);
    CHECK(names_in(run / "checkpoints") ==
          (rolls ? std::vector<std::string>{end} : std::vector<std::string>{"000019", end}));
  }
  job.run.checkpoint.every_minutes = 1e9;
  TestRun rarely(job, home.path(), "rarely");
  rarely.run();
  CHECK(names_in(rarely / "checkpoints") == std::vector<std::string>{end});
}

TEST_CASE("a run resumed anywhere ends in the bits of an uninterrupted one", "[exec]") {
  const FreshDirectory home;
  const fs::path whole = train(home, "whole", 20);
  const auto outputs = {"returns/loss/value.npy", "returns/loss/steps.npy", "watch/y/value.npy",
                        "watch/y/steps.npy"};
  for (const int64_t stop : {1, 3, 7, 20}) {
    const std::string out = "parts" + std::to_string(stop);
    train(home, out, stop);
    // What the run wrote after its checkpoint is cut off.
    TestRun beyond(long_job(), home.path(), out);
    beyond.request.resume = true;
    beyond.request.steps = stop + 2;
    fs::copy(beyond / "checkpoints", home / ("kept" + out), fs::copy_options::recursive);
    beyond.run();
    fs::remove_all(beyond / "checkpoints");
    fs::rename(home / ("kept" + out), beyond / "checkpoints");

    TestRun resumed(long_job(), home.path(), out);
    resumed.request.resume = true;
    const RunOutcome outcome = resumed.run();
    CHECK(outcome.steps == 20);
    for (const char* name : {"net/w.npy", "net/w/momentum.npy"})
      CHECK(read_text(*outcome.checkpoint / name) == read_text(whole / name));
    for (const char* name : outputs)
      CHECK(read_text(resumed / name) == read_text(home / "whole" / name));
    CHECK(split(read_text(resumed / "metrics.jsonl"), '\n').size() == 21);
  }
}

TEST_CASE("a checkpoint that counts no rows of metrics is resumed with those of its steps",
          "[exec]") {
  const FreshDirectory home;
  const fs::path stopped = train(home, "out", 7);
  plan::CheckpointRecord record = Checkpoint(stopped).record();
  CHECK(record.metrics_rows == 7);
  record.metrics_rows.reset();
  const fs::path metrics = home / "out/metrics.jsonl";
  write_text_atomically(metrics, read_text(metrics) + read_text(metrics));
  write_text_atomically(stopped / "checkpoint.json", plan::to_json(record));
  TestRun resumed(long_job(), home.path());
  resumed.request.resume = true;
  resumed.run();
  const std::vector<Json> lines = resumed.metrics();
  REQUIRE(lines.size() == 20);
  for (size_t step = 0; step < lines.size(); ++step) CHECK(lines[step]["step"] == step);
}

TEST_CASE("a stop signal finishes the step, saves, and can be resumed", "[exec]") {
  const FreshDirectory home;
  write_rows(home / "x.npy", 10);
  TestRun run(long_job(), home.path());
  std::atomic<int> signal = 0;
  run.backend.on_launch = [&](const Call& call) {
    if (call.step == 4) signal = SIGINT;
  };
  run.request.stop_signal = [&] { return signal.load(); };
  run.request.save = (home / "final").string();
  const RunOutcome outcome = run.run();
  CHECK(outcome.interrupted());
  CHECK(outcome.steps == 5);
  CHECK(outcome.checkpoint == run / "checkpoints/000005");
  CHECK_FALSE(fs::exists(home / "final"));
  TestRun resumed(long_job(), home.path());
  resumed.request.resume = true;
  CHECK(resumed.run().steps == 20);
}

/// Runs, and returns what it printed.
std::string printed(TestRun& run) {
  const FreshDirectory home;
  std::FILE* file = std::fopen((home / "printed").c_str(), "w");
  run.request.out = file;
  run.run();
  std::fclose(file);
  return read_text(home / "printed");
}

TEST_CASE("what print sinks sum up goes on where a run stopped", "[exec]") {
  const FreshDirectory home;
  write_rows(home / "x.npy", 10);
  plan::Job job = long_job();
  const plan::PrintSink of_epoch{
      .label = "epoch", .reduce = plan::Reduce::kMean, .over = plan::Over::kEpoch};
  const plan::PrintSink of_run{
      .label = "run", .reduce = plan::Reduce::kSum, .over = plan::Over::kRun};
  job.hooks = {watch(kY, "y", {{0, 100, 1}}), watch(kLoss, "loss", {{0, 100, 1}})};
  for (plan::Hook& hook : job.hooks) hook.sinks = {of_epoch, of_run, of_epoch};
  TestRun whole(job, home.path(), "whole");
  const std::string all = printed(whole);
  CHECK(split(all, '\n').size() ==
        1 + 2 * (2 * 7 + 1));  // six epochs of three steps, and two steps

  TestRun interrupted(job, home.path());
  std::atomic<int> signal = 0;
  interrupted.backend.on_launch = [&](const Call& call) {
    if (call.step == 7) signal = SIGINT;
  };
  interrupted.request.stop_signal = [&] { return signal.load(); };
  const std::string before = printed(interrupted);
  TestRun resumed(job, home.path());
  resumed.request.resume = true;
  CHECK(before + printed(resumed) == all);
  TestRun longer(job, home.path());
  longer.request.resume = true;
  longer.request.steps = 21;
  CHECK(split(printed(longer), '\n').size() == 1 + 2 * (2 + 1));

  // Other hooks have sums of their own.
  job.hooks = {watch(kY, "y", {{0, 100, 1}})};
  job.hooks[0].sinks = {of_run};
  TestRun others(job, home.path());
  others.request.resume = true;
  others.request.steps = 22;
  CHECK(printed(others).starts_with("run: "));
}

TEST_CASE("a last value that is not told yet is told where the run goes on", "[exec]") {
  const FreshDirectory home;
  write_rows(home / "x.npy", 10);
  plan::Job job = long_job();
  const plan::PrintSink of_epoch{.label = "epoch", .over = plan::Over::kEpoch};
  const plan::PrintSink of_run{.label = "run", .over = plan::Over::kRun};
  // One fires in every step, one no more when the run goes on.
  job.hooks = {watch(kY, "y", {{0, 100, 1}}), watch(kLoss, "loss", {{5, 7, 1}})};
  for (plan::Hook& hook : job.hooks) hook.sinks = {of_epoch, of_run};
  TestRun whole(job, home.path(), "whole");
  const std::string all = printed(whole);
  TestRun interrupted(job, home.path());
  std::atomic<int> signal = 0;
  interrupted.backend.on_launch = [&](const Call& call) {
    if (call.step == 6) signal = SIGINT;
  };
  interrupted.request.stop_signal = [&] { return signal.load(); };
  const std::string before = printed(interrupted);
  // Another sink beside them takes nothing from what is held.
  for (plan::Hook& hook : job.hooks) hook.sinks.insert(hook.sinks.begin(), plan::NpySink{true});
  TestRun resumed(job, home.path());
  resumed.request.resume = true;
  CHECK(before + printed(resumed) == all);
}

TEST_CASE("a checkpoint holds the sums of the steps before it, whatever has been computed since",
          "[exec]") {
  const FreshDirectory home;
  write_rows(home / "x.npy", 10);
  plan::Job job = long_job();
  job.run.steps = 200;
  job.run.checkpoint.every_steps = 2;
  job.run.checkpoint.keep = 100;
  job.returns.reset();
  job.hooks = {watch(kLoss, "loss", {{0, 200, 1}})};
  job.hooks[0].sinks = {plan::PrintSink{
      .label = {}, .reduce = plan::Reduce::kSum, .over = plan::Over::kRun, .format = "%.6g"}};
  TestRun run(job, home.path());
  printed(run);
  const std::vector<std::string> kept = names_in(run / "checkpoints");
  REQUIRE(kept.size() == 100);
  for (const std::string& name : kept) {
    const auto record = Checkpoint(run / "checkpoints" / name).record();
    REQUIRE(record.sums.value().size() == 1);
    const auto last_step = static_cast<int64_t>(record.sums->begin()->second[2]);
    CHECK(last_step == record.step - 1);
  }
}

TEST_CASE("what cannot be resumed is refused, and left as it was", "[exec]") {
  const FreshDirectory home;
  train(home, "out", 5);
  const std::string before = read_text(home / "out/run.json");
  const auto refusal = [&](plan::Job job, const std::string& out = "out") {
    TestRun run(std::move(job), home.path(), out);
    run.request.resume = true;
    return run.refusal();
  };
  plan::Job other = long_job();
  other.seed = 2;
  CHECK_THAT(refusal(other), Catch::Contains("job `train` differs from the run"));
  const std::string run = (home / "out").string();
  CHECK_THAT(refusal(other), Catch::Contains("continue the unchanged run with `flowrun train " +
                                             run + "/plan.json -o " + run + " --resume`"));
  CHECK_THAT(refusal(long_job(), "empty"), Catch::Contains("no complete checkpoint"));
  write_rows(home / "x.npy", 6);
  CHECK_THAT(refusal(long_job()), Catch::Contains("the length of the data changed"));
  CHECK(read_text(home / "out/run.json") == before);
  TestRun both(long_job(), home.path());
  both.request.resume = true;
  both.request.load = {"none"};
  CHECK_THAT(both.refusal(), Catch::Contains("omit one of them"));
}

TEST_CASE("data that changed at their beginning, middle or end are refused by a resumed run",
          "[exec]") {
  const FreshDirectory home;
  const fs::path data = home / "x.npy";
  write_rows(data, (1 << 20) / 8);
  const auto run = [&](bool resume) {
    TestRun made(long_job(), home.path());
    made.request.steps = 2;
    made.request.resume = resume;
    return made.refusal();
  };
  REQUIRE(run(false) == "no error");
  REQUIRE(run(true) == "no error");
  File file = File::open_update(data);
  const uint64_t size = file.size();
  const uint64_t middle = (size - 4096) / 63 * 32 + 100;  // also where 64 blocks are a sample
  for (const uint64_t place : {uint64_t{200}, middle, size - 1}) {
    std::byte before{};
    file.read_at(place, {&before, 1});
    const std::byte other = before ^ std::byte{1};
    file.write_at(place, {&other, 1});
    CHECK_THAT(run(true), Catch::Contains("data"));
    file.write_at(place, {&before, 1});
  }
  CHECK(run(true) == "no error");
}

TEST_CASE("save replaces a checkpoint whole and refuses anything else", "[exec]") {
  const FreshDirectory home;
  write_rows(home / "x.npy", 10);
  const auto save = [&](const std::string& path, int64_t steps) {
    TestRun run(long_job(), home.path(), "out" + std::to_string(steps));
    run.request.save = path;
    run.request.steps = steps;
    return run.refusal();
  };
  const std::string final = (home / "deep/final").string();
  CHECK(save(final, 1) == "no error");
  write_text_atomically(home / "deep/final/left_over.npy", "x");
  CHECK(save(final + "/", 2) == "no error");
  CHECK(names_in(final) == std::vector<std::string>{"checkpoint.json", "net"});
  CHECK(names_in(home / "deep") == std::vector<std::string>{"final"});
  CHECK(Checkpoint(final).record().step == 2);

  write_text_atomically(home / "letter.txt", "dear");
  fs::create_directories(home / "letters");
  for (const char* name : {"letter.txt", "letters"})
    CHECK_THAT(save((home / name).string(), 3), Catch::Contains("is not a checkpoint"));
  CHECK_THAT(save((home / "letter.txt/final").string(), 3), Catch::Contains("cannot be created"));
  CHECK(fs::is_empty(home / "out3"));
}

TEST_CASE("`--save none` drops the file's key, whose path is relative to the root", "[exec]") {
  const FreshDirectory home;
  write_rows(home / "x.npy", 10);
  plan::Job job = long_job();
  job.run.checkpoint.save = "final";
  TestRun none(job, home.path(), "none");
  none.request.save = "none";
  none.run();
  CHECK_FALSE(fs::exists(home / "final"));
  TestRun run(job, home.path());
  CHECK(run.run().saved == home / "final");
  CHECK(io::is_checkpoint(home / "final"));
}

TEST_CASE("a run or a checkpoint is loaded; slots and step start fresh", "[exec]") {
  const FreshDirectory home;
  const fs::path trained = train(home, "train", 5);
  const std::vector<double> w = numbers(trained / "net/w.npy");
  for (const fs::path& path : {home / "train", trained}) {
    plan::Job job = long_job();
    job.hooks = {watch(kW, "net/w", {{0, 1, 1}}), watch(kSlot, "net/w/momentum", {{0, 1, 1}})};
    TestRun run(job, home.path(), "out" + path.filename().string());
    run.request.load = {path.string()};
    run.run();
    CHECK(numbers(run / "watch/net/w/value.npy") == w);
    CHECK(numbers(run / "watch/net/w/momentum/value.npy") == std::vector<double>{0, 0});
    CHECK(numbers(run / "returns/loss/steps.npy").front() == 0);
  }
}

TEST_CASE("a run is loaded by its newest checkpoint", "[exec]") {
  const FreshDirectory home;
  write_rows(home / "x.npy", 10);
  plan::Job job = long_job();
  job.run.checkpoint.every_steps = 9;
  TestRun trained(job, home.path(), "train");
  trained.run();
  REQUIRE(names_in(trained / "checkpoints") ==
          std::vector<std::string>{"000009", "000018", "000020"});
  fs::remove_all(trained / "checkpoints/000020");
  REQUIRE(numbers(trained / "checkpoints/000009/net/w.npy") !=
          numbers(trained / "checkpoints/000018/net/w.npy"));
  for (const char* name : {"train", "train/checkpoints"}) {
    job.hooks = {watch(kW, "net/w", {{0, 1, 1}})};
    TestRun run(job, home.path(), "out");
    run.request.load = {(home / name).string()};
    run.run();
    CHECK(numbers(run / "watch/net/w/value.npy") ==
          numbers(trained / "checkpoints/000018/net/w.npy"));
  }
}

TEST_CASE("a variable of another shape is not loaded, though it has as many elements", "[exec]") {
  const FreshDirectory home;
  const fs::path trained = train(home, "train", 5);
  plan::Job job = long_job();
  job.tensors[kW.index()].shape = {1, 2};
  TestRun run(job, home.path());
  run.request.load = {trained.string()};
  CHECK_THAT(run.refusal(), Catch::Contains("! net/w [1, 2] float32"));
}

TEST_CASE("loading converts between float32 and float64", "[exec]") {
  const FreshDirectory home;
  const fs::path trained = train(home, "train", 5);
  plan::Job job = make_job(false, 2);
  for (plan::Tensor& tensor : job.tensors)
    if (tensor.role == plan::Role::kVariable) tensor.dtype = DType::kFloat64;
  State state({&job});
  load(Checkpoint(trained), job, state);
  const std::vector<double> w = numbers(trained / "net/w.npy");
  CHECK(state.entries()[0].value.as<double>()[1] == w[1]);
}

TEST_CASE("a predict job with variables needs something to load", "[exec]") {
  const FreshDirectory home;
  write_rows(home / "x.npy", 4);
  plan::Job job = make_job(false, 2);
  job.run.checkpoint.load.clear();
  TestRun run(job, home.path());
  CHECK(run.refusal() ==
        "job.yaml:4:3: job `eval` has 1 variables, but nothing to load them from\n"
        "add --load CHECKPOINT or --load RUN; --load none initializes them");
}

TEST_CASE("variables that do not fit are one error with both lists", "[exec]") {
  const FreshDirectory home;
  const fs::path trained = train(home, "train", 5);
  plan::Job job = make_job(false, 2);
  job.tensors[kW.index()].name = "net/v";
  TestRun run(job, home.path());
  run.request.load = {trained.string()};
  CHECK(run.refusal() ==
        trained.string() +
            " does not match: 1 of 1 variables are missing or have a different shape\n"
            "  job `eval` has\n"
            "  ! net/v [2] float32\n"
            "  the loaded checkpoint has\n"
            "    net/w [2] float32\n"
            "rename the variables: they are matched by name, and none match");
}

TEST_CASE("a damaged checkpoint is refused, naming the file", "[exec]") {
  const FreshDirectory home;
  const fs::path trained = train(home, "train", 5);
  const auto message_of_load = [&](int* status) {
    TestRun run(long_job(), home.path());
    run.request.load = {(home / "train").string()};
    return run.refusal(status);
  };
  std::string bytes = read_text(trained / "net/w.npy");
  bytes.back() ^= 1;
  write_text_atomically(trained / "net/w.npy", bytes);
  int status = 0;
  CHECK_THAT(message_of_load(&status), Catch::Contains("net/w.npy is damaged"));
  CHECK(status == 3);
  fs::remove(trained / "net/w.npy");
  CHECK_THAT(message_of_load(&status), Catch::Contains("net/w.npy"));
  write_text_atomically(trained / "checkpoint.json", "{}");
  CHECK_THAT(message_of_load(&status), Catch::Contains("checkpoint.json"));
  CHECK(status == 2);
  fs::remove(trained / "checkpoint.json");
  CHECK_THAT(message_of_load(&status),
             Catch::Contains("checkpoints/000005 has no checkpoint.json"));
  CHECK(status == 2);
  fs::remove_all(trained);
  CHECK_THAT(message_of_load(&status), Catch::Contains("is not a checkpoint, a run with one"));
}

TEST_CASE("files outside the checkpoint are not read, whatever its record names", "[exec]") {
  const FreshDirectory home;
  const fs::path trained = train(home, "train", 5);
  plan::CheckpointRecord record = Checkpoint(trained).record();
  record.checksums["../000005/net/w.npy"] = "0123456789abcdef";
  write_text_atomically(trained / "checkpoint.json", plan::to_json(record));
  CHECK_THROWS_AS(Checkpoint(trained).items(), RunError);
}

TEST_CASE("a checkpoint whose write was cut short does not count", "[exec]") {
  const FreshDirectory home;
  train(home, "out", 5);
  fs::create_directories(home / "out/checkpoints/.000009.77.tmp/net");
  fs::create_directories(home / "out/checkpoints/000009");
  fs::create_directories(home / "out/checkpoints/000002/net");
  const io::CheckpointFolder folder(home / "out");
  CHECK(folder.steps() == std::vector<int64_t>{5});
  CHECK_THROWS_WITH(folder.newest(), Catch::Contains("000009 has no checkpoint.json"));
  folder.remove_leftovers();
  CHECK(names_in(home / "out/checkpoints") == std::vector<std::string>{"000005", "000009"});
}

}  // namespace
}  // namespace flow::exec
