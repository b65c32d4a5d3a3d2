// Runs that are stopped at any change of a file, by a kill or a power cut: what is left resumes to
// the same results, and what a record promises is there.
//
// FLOW_POWER_LOSSES=N tries N losses of each kind at every change; without it a sample is tried.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <set>

#include "cli/flowrun/directory.h"
#include "runtime/base/digest.h"
#include "runtime/base/error.h"
#include "runtime/base/text.h"
#include "runtime/exec/checkpoint/checkpoint.h"
#include "runtime/exec/core/run_files.h"
#include "runtime/exec/events/tensorboard.h"
#include "runtime/io/event_records.h"
#include "runtime/io/npy.h"
#include "runtime/plan/model/lifetimes.h"
#include "tests/support/disk_model.h"
#include "tests/support/fresh_directory.h"
#include "tests/unit/exec/fake_job.h"

namespace flow::exec {
namespace {

constexpr int64_t kAllSteps = 30, kStoppedAt = 17;

/// Steps as a plan must have, which a resumed run reads; the fake device looks at none.
plan::Job readable(plan::Job job) {
  const auto add = [&](std::string_view op, plan::TensorId result,
                       std::vector<plan::TensorId> inputs,
                       const std::vector<plan::Attributes::Entry>& attributes) {
    plan::Step step;
    step.op = op;
    step.name = job[result].name;
    step.inputs = std::move(inputs);
    step.outputs = {result};
    for (const auto& [name, value] : attributes) step.attributes.set(name, value);
    job.steps.push_back(std::move(step));
  };
  using Integers = std::vector<int64_t>;
  const std::vector<plan::Attributes::Entry> mean = {{"axes", Integers{0, 1}}, {"keepdims", false}};
  const std::vector<plan::Attributes::Entry> ones = {
      {"dtype", DType::kFloat32}, {"shape", Integers{2, 2}}, {"value", 1.0}};
  add("add", kY, {kX, kW}, {});
  add("reduce_mean", kLoss, {kY}, mean);
  add("fill", kDiff, {}, ones);
  job.tensors[kDiff.index()].batch_axis = plan::kNoBatch;
  plan::assign_lifetimes(job);
  return job;
}

/// All that a train job writes: returned and watched arrays of both layouts, statistics, metrics,
/// checkpoints, the best of them, a called job's arrays, and a copy of the last state. start() asks
/// for fingerprints and events, too.
plan::Job saving_job(int64_t keep) {
  plan::Job job = make_job(true, 2);
  job.returns = returns(kY);
  job.hooks = {watch(kLoss, "loss", {{0, kAllSteps, 3}}), watch(kY, "y", {{0, kAllSteps, 4}})};
  job.hooks[0].sinks.emplace_back(plan::StatsSink{4});
  job.hooks[1].sinks = {plan::NpySink{true}};
  job.run.steps = kAllSteps;
  job.run.shuffle = true;
  job.run.checkpoint.every_steps = 7;
  job.run.checkpoint.keep = keep;
  const plan::FollowedValue followed{
      .text = "loss", .job = {}, .tensor = "loss", .every_steps = 5, .where = "job.yaml:13:9"};
  job.run.checkpoint.keep_best = followed;
  job.hooks.push_back(watch(kLoss, "loss", {{0, kAllSteps, 1}}));
  job.hooks.back().sinks = {plan::MeanSink{followed.key()}};
  job.run.also = {{"eval", 10, 0, "job.yaml:12:9"}};
  return readable(job);
}

plan::Job called_job() {
  plan::Job job = make_job(false, 2);
  job.returns = returns(kY);
  job.run.steps = 2;
  // It trains nothing: its second variable is no slot of the other job's.
  job.tensors[kSlot.index()].name = "net/constant";
  for (plan::Variable& variable : job.variables) variable.trainable = variable.slot = false;
  job.variables[1].initializer = plan::initializers::Constant{0};
  return readable(job);
}

struct Case {
  std::optional<plan::Job> called;
  plan::Job job;
};

/// A folder in memory, where there is one: nothing here needs a disk.
struct MemoryHome : FreshDirectory {
  MemoryHome()
      : FreshDirectory(fs::is_directory("/dev/shm") ? "/dev/shm" : fs::temp_directory_path()) {}
};

/// As `flowrun --resume`.
RunOutcome start(const Case& of, const fs::path& home, std::optional<int64_t> steps = {}) {
  TestRun run(of.job, home, "out", of.called);
  run.request.steps = steps;
  if (of.job.train) run.request.save = home / "model";
  run.request.fingerprints = FingerprintOptions{.every = 2};
  run.request.tensorboard = home / "events";
  const cli::DirectoryLock lock = cli::lock_directory(run.request.directory);
  run.request.resume = find_resumable(run.request) == Resumable::kCheckpoint;
  run.request.restarts = !run.request.resume;
  if (run.request.restarts) cli::remove_run(run.request.directory, true);
  return exec::run(run.backend, run.request);
}

/// Metrics without times, which differ from run to run.
std::string timeless(const std::string& text) {
  std::string all;
  for (const std::string& row : split(text, '\n')) {
    if (row.empty()) continue;
    Json line = Json::parse(row);
    line.erase("seconds");
    all += line.dump() + '\n';
  }
  return all;
}

/// Events without their times, and without the name of their file, which has one. In one order:
/// several threads append. Without the mark of the checkpoint of a run that stopped early.
std::string timeless_events(const fs::path& path) {
  const std::string text = read_text(path);
  const auto timeless = [](std::string_view event) {
    return std::string(event.substr(std::min(event.size(), event::kTimeBytes)));
  };
  std::multiset<std::string> events;
  io::visit_records(std::as_bytes(std::span(text)),
                    [&](std::string_view record, size_t) { events.insert(timeless(record)); });
  events.erase(timeless(event::checkpoint(kStoppedAt)));
  std::string all;
  for (const std::string& event : events) all += digest(event) + '\n';
  return all;
}

/// What status 0 promises: files by their paths, with their contents.
std::map<std::string, std::string> outputs(const fs::path& home) {
  std::map<std::string, std::string> all;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(home)) {
    const std::string name = entry.path().lexically_relative(home);
    const bool old =
        name.starts_with("out/checkpoints/") && !name.starts_with("out/checkpoints/000030/");
    if (!entry.is_regular_file() || old || name.find(kTemporarySuffix) != name.npos) continue;
    if (name.ends_with(".npy") || name.ends_with(".csv") || name == "out/fingerprints.bin")
      all[name] = read_text(entry.path());
    if (name.ends_with(".jsonl")) all[name] = timeless(read_text(entry.path()));
    if (name.starts_with("events/")) all["events"] += timeless_events(entry.path());
  }
  return all;
}

/// Of the record that says all steps were made.
bool is_done(const fs::path& home) {
  const fs::path path = home / "out" / kRunRecord;
  if (!fs::exists(path)) return false;
  const Json record = Json::parse(read_text(path));  // whole at any moment
  return record.at("exit_status") == 0 && record.at("last_step") == kAllSteps;
}

/// The variables of all checkpoints, by step and name. None is damaged: before its parts go, so
/// does its name.
std::map<std::string, Bytes> states(const fs::path& home) {
  std::map<std::string, Bytes> all;
  for (const char* name : {"checkpoints", kBestFolder}) {
    const auto folder = io::CheckpointFolder::at_path(home / "out" / name);
    for (const int64_t step : folder.steps()) {
      const Checkpoint checkpoint(folder.at(step));
      CHECK(checkpoint.record().step == step);
      for (const Checkpoint::Item& item : checkpoint.items()) {
        const Array array = checkpoint.read(item.name);
        all[fmt::format("{} {}", step, item.name)].assign(array.bytes().begin(),
                                                          array.bytes().end());
      }
    }
  }
  return all;
}

/// A job, and what it leaves when nothing stops it.
class Stopped {
 public:
  explicit Stopped(Case of) : case_(std::move(of)) {
    const MemoryHome home;
    write_rows(home / "x.npy", 10);
    REQUIRE(start(case_, home.path()).exit_status == 0);
    outputs_ = outputs(home.path());
    Case keeping = case_;
    keeping.job.run.checkpoint.every_steps = 1;
    keeping.job.run.checkpoint.keep = kAllSteps;
    const MemoryHome all;
    write_rows(all / "x.npy", 10);
    start(keeping, all.path());
    states_ = states(all.path());
  }

  /// Stops at the changes of a run in a new directory, or of one that goes on from `steps`.
  void stop_at_changes(std::optional<int64_t> steps, size_t stride) {
    const MemoryHome home;
    write_rows(home / "x.npy", 10);
    if (steps) start(case_, home.path(), steps);
    stop_at_changes(home.path(), asked_ ? 1 : stride, 1);
  }

  size_t runs() const { return runs_; }
  size_t resumed() const { return resumed_; }

 private:
  /// Runs what lies in the folder, and stops at each `stride`th of the changes that it makes, with
  /// one kind of loss. `depth`: how many more power cuts hit what goes on.
  void stop_at_changes(const fs::path& home, size_t stride, int depth) {
    DiskModel disk(home);
    std::vector<DiskChange> changes;
    {
      const DiskTrace trace(home);
      REQUIRE(start(case_, home).exit_status == 0);
      changes = trace.changes();
    }
    check_result(home);
    std::set<DiskImage> seen;
    for (size_t cut = 0; cut <= changes.size(); ++cut) {
      if (cut % stride == 0 || cut == changes.size())
        lose(disk, cut, stride, cut == changes.size(), depth, seen);
      if (cut < changes.size()) disk.apply(changes[cut]);
    }
  }

  void lose(const DiskModel& disk, size_t cut, size_t stride, bool ended, int depth,
            std::set<DiskImage>& seen) {
    const bool all = asked_ || ended;
    const size_t times = asked_ ? std::stoul(asked_) : 1;
    for (size_t kind = 0; kind < kLosses; ++kind) {
      if (!all && kind != cut / stride % kLosses) continue;
      const bool by_chance = static_cast<Loss>(kind) >= Loss::kGarbage;
      for (size_t time = 0; time < (by_chance ? times : 1); ++time) {
        std::mt19937_64 chance(cut * 1000 + kind * 100 + time);
        const DiskImage image = disk.after(static_cast<Loss>(kind), chance);
        if (!seen.insert(image).second) continue;
        INFO("after change " << cut << ", loss " << kind << ", time " << time);
        go_on(image, ended, depth > 0 && cut % 50 == 25);
      }
    }
  }

  /// Of what is left: the promise of a record, whole checkpoints, and the results of a resumed run.
  void go_on(const DiskImage& image, bool ended, bool again) {
    const MemoryHome home;
    write_image(image, home.path());
    if (ended) CHECK(is_done(home.path()));
    if (is_done(home.path())) CHECK(outputs(home.path()) == outputs_);
    for (const auto& [name, state] : states(home.path())) {
      INFO(name);
      CHECK(states_.contains(name));
      if (states_.contains(name)) CHECK(states_.at(name) == state);
    }
    ++runs_;
    resumed_ += io::CheckpointFolder(home / "out").newest().has_value();
    if (again) return stop_at_changes(home.path(), 40, 0);
    try {
      CHECK(start(case_, home.path()).exit_status == 0);
    } catch (const RunError& error) {
      FAIL_CHECK(error.what() << "\n" << error.hint());
    }
    check_result(home.path());
    CHECK(io::CheckpointFolder(home / "out").steps().size() <=
          static_cast<size_t>(case_.job.run.checkpoint.keep));
  }

  void check_result(const fs::path& home) const {
    CHECK(is_done(home));
    const auto found = outputs(home);
    for (const auto& [name, text] : outputs_) {
      INFO(name);
      REQUIRE(found.contains(name));
      CHECK(found.at(name) == text);
    }
    CHECK(found.size() == outputs_.size());
  }

  const Case case_;
  std::map<std::string, std::string> outputs_;
  std::map<std::string, Bytes> states_;
  const char* const asked_ = std::getenv("FLOW_POWER_LOSSES");
  size_t runs_ = 0, resumed_ = 0;
};

TEST_CASE("a train job that is stopped at any change of a file resumes to the same results",
          "[exec]") {
  const int64_t keep = GENERATE(1, 2);
  Stopped stopped({called_job(), saving_job(keep)});
  SECTION("from its start") { stopped.stop_at_changes({}, 7); }
  SECTION("from a checkpoint") { stopped.stop_at_changes(kStoppedAt, 9); }
  CHECK(stopped.resumed() > stopped.runs() / 3);
  CHECK(stopped.runs() > 20);
}

TEST_CASE("a predict job that is stopped at any change of a file runs again to the same results",
          "[exec]") {
  plan::Job job = make_job(false, 2);
  job.returns = returns(kY, {plan::NpySink{}, plan::NpySink{true}});
  job.hooks = {watch(kLoss, "loss", {{0, kAllSteps, 3}})};
  job.run.steps = kAllSteps;
  Stopped stopped({{}, readable(job)});
  stopped.stop_at_changes({}, 7);
  CHECK(stopped.runs() > 5);
}

TEST_CASE("a disk keeps what is synced, and may lose anything else", "[exec]") {
  const MemoryHome home;
  write_text_atomically(home / "kept", "old");
  std::vector<DiskChange> changes;
  DiskModel disk(home.path());
  {
    const DiskTrace trace(home.path());
    write_text_atomically(home / "kept", "new");
    File::create(home / "loose").write("text");
    changes = trace.changes();
  }
  const auto text = [](const DiskImage& image, const std::string& name) -> std::string {
    const auto found = image.find(name);
    if (found == image.end() || !found->second) return "none";
    return {reinterpret_cast<const char*>(found->second->data()), found->second->size()};
  };
  std::set<std::string> kept, loose;
  for (size_t cut = 0; cut <= changes.size(); ++cut) {
    for (size_t kind = 0; kind < kLosses; ++kind) {
      std::mt19937_64 chance(cut * kLosses + kind);
      const DiskImage image = disk.after(static_cast<Loss>(kind), chance);
      kept.insert(text(image, "kept"));
      if (cut == changes.size()) loose.insert(text(image, "loose"));
    }
    if (cut < changes.size()) disk.apply(changes[cut]);
  }
  CHECK(kept == std::set<std::string>{"new", "old"});
  CHECK(loose.contains("none"));                // its name is lost
  CHECK(loose.contains(""));                    // its data
  CHECK(loose.contains("text"));                // nothing
  CHECK(loose.contains(std::string(4, '\0')));  // its size is not
}

}  // namespace
}  // namespace flow::exec
