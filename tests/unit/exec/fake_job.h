// A job and a backend small enough to check by hand: y = x + w, loss = mean(y), and in a train job
// w -= lr * mean over rows of x. No kernels: the program computes it in plain loops.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "runtime/base/array.h"
#include "runtime/base/file.h"
#include "runtime/exec/core/backend.h"
#include "runtime/exec/run/run.h"
#include "runtime/plan/json/json.h"
#include "runtime/plan/model/plan.h"

namespace flow::exec {

/// Tensors of the job, by number.
inline const plan::TensorId kX{size_t{0}}, kW{size_t{1}}, kSlot{size_t{2}}, kY{size_t{3}},
    kLoss{size_t{4}}, kDiff{size_t{5}};

/// x [batch, 2] float32 from dataset `d`, column `x`, in `x.npy`; y [batch, 2]; loss [];
/// y:diff [batch, 2], all ones.
plan::Job make_job(bool train, int64_t batch);
plan::Hook watch(plan::TensorId tensor, const std::string& name,
                 std::vector<plan::StepRange> steps);
plan::Returns returns(plan::TensorId tensor, std::vector<plan::Sink> sinks = {plan::NpySink{}});

/// Writes rows 0, 1, 2, ... of (2i, 2i + 1) to `path`.
void write_rows(const fs::path& path, int64_t rows);
/// The npy at `path`, as numbers.
std::vector<double> numbers(const fs::path& path);

struct FakeBackend : Backend {
  std::string device() const override { return "fake"; }
  std::string instruction_set() const override { return "none"; }
  std::map<std::string, std::string> libraries() const override { return {{"fake", "1"}}; }
  bool asynchronous() const override { return beside; }
  HostMemory host_memory(size_t bytes) override {
    return {new std::byte[bytes], [](std::byte* memory) { delete[] memory; }};
  }
  std::unique_ptr<Program> prepare(const plan::Job& job, const PrepareOptions& options) override;

  /// Called in each launch, before anything is computed.
  std::function<void(const Call&)> on_launch;
  std::optional<int64_t> faulty_step, nan_step;  // the label is wrong, the loss is not a number
  int prepared = 0;
  std::vector<std::set<plan::TensorId>> always;  // by program: what all of its calls want
  bool beside = false;                           // as a device that runs beside the host
  bool timed = false;              // says that two steps took 3000 and, in even calls, 1000 ns
  std::vector<std::string> calls;  // "launch 0", "wait 0", by step
};

/// A run of one job: its files are in `home`, it writes to `home`/`out`. `called`: another job of
/// its plan.
struct TestRun {
  TestRun(plan::Job made, const fs::path& home, const std::string& out = "out",
          std::optional<plan::Job> called = {});
  RunOutcome run();
  /// The message of the RunError that run() throws; its exit status.
  std::string refusal(int* exit_status = nullptr);

  fs::path operator/(const fs::path& name) const { return request.directory / name; }
  /// The lines of metrics.jsonl, and run.json.
  std::vector<Json> metrics() const;
  Json record() const;

  plan::Plan plan;
  FakeBackend backend;
  RunRequest request;
  std::vector<std::string> said;
};

}  // namespace flow::exec
