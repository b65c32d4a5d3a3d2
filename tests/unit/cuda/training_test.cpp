// The jobs of the repository on the CUDA backend without a GPU, beside the CPU backend.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdio>
#include <memory>

#include "compiler/compile.h"
#include "runtime/base/file.h"
#include "runtime/base/philox.h"
#include "runtime/base/text.h"
#include "runtime/compare/compare.h"
#include "runtime/cpu/backend/backend.h"
#include "runtime/exec/multi_device/multi_device.h"
#include "runtime/exec/run/run.h"
#include "runtime/io/npy.h"
#include "runtime/plan/json/json.h"
#include "tests/support/cuda/fake_gpu.h"
#include "tests/support/fresh_directory.h"
#include "tests/support/source_files.h"

using namespace flow;

namespace {

constexpr int64_t kRows = 8;

void write_idx(const fs::path& path, const std::vector<uint8_t>& extents, size_t elements,
               double limit) {
  std::string bytes = {0, 0, 8, static_cast<char>(extents.size())};
  for (const uint8_t extent : extents) bytes += {0, 0, 0, static_cast<char>(extent)};
  std::vector<double> values(elements);
  draw_uniform({1, path.filename().string(), 0}, 0, limit, values.data(),
               static_cast<int64_t>(elements));
  for (const double value : values) bytes += static_cast<char>(static_cast<uint8_t>(value));
  fs::create_directories(path.parent_path());
  File::create(path).write(std::string_view(bytes));
}

/// A few random rows where the jobs look for MNIST, and the story that is there.
void write_data(const fs::path& root) {
  const char* story = "data/prose/windows.npy";
  fs::create_directories((root / story).parent_path());
  fs::copy_file(test::source_path("jobs") / story, root / story);
  for (const char* part : {"train", "t10k"}) {
    const fs::path stem = root / "data/mnist" / part;
    write_idx(stem.string() + "-images-idx3-ubyte.gz", {kRows, 28, 28}, kRows * 784, 256);
    write_idx(stem.string() + "-labels-idx1-ubyte.gz", {kRows}, kRows, 10);
  }
}

struct Wanted {
  std::string job = "train";
  std::vector<std::string> size = {"vars.batch=4", "vars.epochs=2"};
  std::vector<std::string> sets = {}, watches = {}, watch_diffs = {};
  bool eager = false;
};

plan::Plan compiled(const std::string& file, const Wanted& wanted) {
  CompileRequest request;
  request.file = test::source_path("jobs") / file;
  request.job = wanted.job;
  request.sets = wanted.size;
  request.sets.insert(request.sets.end(), wanted.sets.begin(), wanted.sets.end());
  request.watches = wanted.watches;
  request.watch_diffs = wanted.watch_diffs;
  const CompileResult result = compile_text(request, read_text(request.file));
  INFO(result.messages);
  REQUIRE(result.plan);
  return *result.plan;
}

struct Runs {
  Runs() { write_data(home.path()); }

  exec::RunRequest request(const plan::Plan& plan, const Wanted& wanted, const std::string& out) {
    fs::create_directories(home / out);
    exec::RunRequest made(plan, plan.jobs.front(), home.path(), home / out);
    made.eager = wanted.eager;
    made.out = printed.get();
    made.threads = 1;
    if (wanted.job != "train") made.load = {"none"};
    return made;
  }
  void run(exec::Backend& backend, const std::string& file, const Wanted& wanted,
           const std::string& out) {
    const plan::Plan plan = compiled(file, wanted);
    CHECK(exec::run(backend, request(plan, wanted, out)).exit_status == 0);
  }
  /// On a fake GPU, which must find nothing to complain of.
  void run_gpu(const std::string& file, const Wanted& wanted, const std::string& out,
               const test::FakeDevice& device = {}) {
    test::FakeGpu gpu(device);
    run(*gpu.backend, file, wanted, out);
    CHECK(gpu.driver->problems().empty());
  }
  /// On it and the CPU.
  void run_multi_device(const std::string& file, const Wanted& wanted, const std::string& out,
                        const test::FakeDevice& device = {}) {
    test::FakeGpu gpu(device);
    test::FakeDriver* const driver = gpu.driver;
    {
      // The backend must go before the driver is asked what is left.
      const auto mixed =
          exec::make_multi_device_backend(cpu::make_backend(), std::move(gpu.backend));
      run(*mixed, file, wanted, out);
      CHECK(driver->problems().empty());
    }
  }
  void check(const std::string& golden, const std::string& out, double relative, double absolute,
             int64_t pairs = 1) {
    const compare::Comparison compared = compare::compare_paths(
        home / golden, home / out, {.relative = relative, .absolute = absolute, .rules = {}});
    for (const compare::ArrayDifference& array : compared.arrays) {
      CAPTURE(array.name, array.absolute.error, array.absolute.golden, array.relative.error);
      CHECK_FALSE(array.failed());
    }
    CHECK(compared.pairs() >= pairs);
  }
  /// What metrics.jsonl says of each step of the main job; "" where it says nothing.
  std::vector<std::string> logged(const std::string& out, const std::string& name) {
    std::vector<std::string> values;
    for (const std::string& line : split(read_text(home / out / "metrics.jsonl"), '\n')) {
      if (line.empty()) continue;
      const auto record = Json::parse(line);
      if (record.contains("job")) continue;  // no step of the main job
      values.push_back(record.contains(name) ? record[name].dump() : "");
    }
    return values;
  }
  /// Of the gradients that both watch: the norm of what differs, in parts of that of all.
  double distance(const std::string& golden, const std::string& out) {
    double differing = 0, all = 0;
    for (const auto& entry : fs::recursive_directory_iterator(home / golden / "watch")) {
      if (entry.path().extension() != ".npy") continue;
      const Array expected = io::read_npy(entry.path());
      if (expected.dtype() != DType::kFloat32) continue;  // the steps
      const Array found = io::read_npy(home / out / fs::relative(entry.path(), home / golden));
      for (size_t i = 0; i < expected.as<float>().size(); ++i) {
        const double value = expected.as<float>()[i];
        differing += std::pow(value - found.as<float>()[i], 2), all += value * value;
      }
    }
    REQUIRE(all > 0);
    return std::sqrt(differing / all);
  }
  void check_bits(const std::string& golden, const std::string& out) { check(golden, out, 0, 0); }

  FreshDirectory home;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> printed{std::tmpfile(), &std::fclose};
};

/// A perceptron in float64 with regularizers, whose gradients are clipped.
Wanted clipped_by(const std::string& optimizer) {
  return {.sets = {"+jobs.train.precision=float64", "networks.mlp.graph.hidden.units=64",
                   "+networks.mlp.graph.hidden.kernel_regularizer={l1: 0.001, l2: 0.01}",
                   "jobs.train.optimizer={type: " + optimizer +
                       ", learning_rate: 0.01, minimize: loss, grad_clipping: {type: "
                       "by_global_norm, clip_norm: 0.5}}"}};
}

const std::vector<std::string> kLeNetWatches = {"lenet/conv1/conv", "lenet/pool2:2",
                                                "lenet/drop:3"};
const std::vector<std::string> kLeNetDiffs = {"lenet/*/weight:3", "lenet/pool1"};

}  // namespace

TEST_CASE("LeNet trains on the CUDA backend as on the CPU, watched tensors and gradients too",
          "[cuda]") {
  Runs runs;
  const Wanted wanted{.sets = {}, .watches = kLeNetWatches, .watch_diffs = kLeNetDiffs};
  runs.run(*cpu::make_backend(), "lenet.yaml", wanted, "cpu");
  runs.run_gpu("lenet.yaml", wanted, "gpu");
  runs.check("cpu", "gpu", 1e-3, 1e-4, 8 + 3 + 5);
}

TEST_CASE("LeNet with layers on either device trains as on the CPU, hooks on both",
          "[cuda][slow]") {
  const std::string device = GENERATE("cpu", "gpu");  // the job's
  const std::string other = device == "cpu" ? "gpu" : "cpu";
  Runs runs;
  Wanted wanted{.watches = kLeNetWatches, .watch_diffs = kLeNetDiffs};
  runs.run(*cpu::make_backend(), "lenet.yaml", wanted, "cpu");
  wanted.sets = {"+jobs.train.placement.device=" + device};
  for (const char* entry : {"conv2", "drop", "dense2"})
    wanted.sets.push_back(
        fmt::format("+networks.lenet.graph.{}.placement={{device: {}}}", entry, other));
  runs.run_multi_device("lenet.yaml", wanted, "graphs");
  runs.check("cpu", "graphs", 1e-3, 1e-4, 8 + 3 + 5);
  wanted.eager = true;
  runs.run_multi_device("lenet.yaml", wanted, "eager");
  runs.check_bits("graphs", "eager");
  test::FakeDevice hasty;
  hasty.timing = test::Timing::kEager;
  wanted.eager = false;
  runs.run_multi_device("lenet.yaml", wanted, "hasty", hasty);
  runs.check_bits("graphs", "hasty");
}

TEST_CASE("a perceptron on two devices is clipped, scaled and moved as on the CPU", "[cuda]") {
  const std::string optimizer =
      GENERATE("sgd", "sgd, momentum: 0.9", "adamw, weight_decay: 0.01, excludes: \"**/bias\"");
  Runs runs;
  Wanted wanted = clipped_by(optimizer);
  runs.run(*cpu::make_backend(), "mlp.yaml", wanted, "cpu");
  wanted.sets.push_back("+networks.mlp.graph.hidden.placement={device: gpu}");
  runs.run_multi_device("mlp.yaml", wanted, "mixed");
  runs.check("cpu", "mixed", 1e-9, 1e-9, 4);
}

TEST_CASE("float64 training agrees with the CPU's reference", "[cuda]") {
  const std::string file = GENERATE("lenet.yaml", "mlp.yaml");
  Runs runs;
  const Wanted wanted{.sets = {"+jobs.train.precision=float64"}};
  runs.run(*cpu::make_backend(), file, wanted, "cpu");
  runs.run_gpu(file, wanted, "gpu");
  runs.check("cpu", "gpu", 1e-9, 1e-9, 4);
}

TEST_CASE("normalized nets train on the CUDA backend as on the CPU, statistics and taps too",
          "[cuda]") {
  const std::string file = "../tests/unit/cuda/normalized.yaml";
  Runs runs;
  const Wanted wanted{.sets = {},
                      .watches = {"net/bn1", "net/gn", "net/bn1/moving_mean"},
                      .watch_diffs = {"net/bn1", "net/up"}};
  runs.run(*cpu::make_backend(), file, wanted, "cpu");
  runs.run_gpu(file, wanted, "gpu");
  runs.check("cpu", "gpu", 1e-3, 1e-3, 8);
}

TEST_CASE("larger nets train on the CUDA backend as on the CPU", "[cuda][slow]") {
  struct Net {
    std::string file;
    Wanted wanted;
  };
  const std::vector<std::string> rows = {"data.pairs.left.rows=0..4", "data.pairs.right.rows=4..8",
                                         "data.pairs.left_labels.rows=0..4",
                                         "data.pairs.right_labels.rows=4..8"};
  const Net net = GENERATE_COPY(
      Net{"resnet18.yaml", {.sets = {"vars.width=2"}}}, Net{"autoencoder.yaml", {}},
      Net{"siamese.yaml", {.size = {"vars.batch=2", "vars.epochs=1"}, .sets = rows}},
      Net{"gan.yaml", {.job = "train_discriminator"}}, Net{"unet.yaml", {.sets = {"vars.width=2"}}},
      Net{"lstm_text.yaml",
          {.size = {"vars.batch=2", "vars.steps=2"},
           .sets = {"vars.units=5", "vars.width=4",
                    "networks.text.graph.state.direction=bidirectional"}}},
      Net{"gpt_tiny.yaml",
          {.size = {"vars.batch=2", "vars.steps=2"}, .sets = {"vars.width=8", "vars.heads=2"}}},
      Net{"resnet50.yaml",
          {.size = {"vars.batch=3", "vars.rows=6", "vars.epochs=1"},
           // Statistics of three values magnify roundings.
           .sets = {"vars.width=2", "vars.size=32", "vars.classes=5", "vars.precision=float64"}}},
      Net{"gpt2.yaml",
          {.size = {"vars.batch=2", "vars.steps=2"},
           .sets = {"vars.width=8", "vars.heads=2", "vars.layers=2", "vars.context=12",
                    "vars.vocabulary=50"}}},
      Net{"llama.yaml",
          {.size = {"vars.batch=2", "vars.steps=2"},
           .sets = {"vars.width=8", "vars.heads=4", "vars.layers=2", "vars.inner=12",
                    "vars.context=12", "vars.vocabulary=50"}}},
      Net{"lora.yaml",
          {.size = {"vars.batch=2", "vars.steps=2"},
           .sets = {"vars.width=8", "vars.heads=2", "vars.layers=2", "vars.context=12",
                    "vars.vocabulary=50"}}},
      Net{"lora_llama.yaml",
          {.size = {"vars.batch=2", "vars.steps=2"},
           .sets = {"vars.width=8", "vars.heads=4", "vars.layers=2", "vars.inner=12",
                    "vars.context=12", "vars.vocabulary=50"}}});
  CAPTURE(net.file);
  Runs runs;
  runs.run(*cpu::make_backend(), net.file, net.wanted, "cpu");
  runs.run_gpu(net.file, net.wanted, "gpu");
  runs.check("cpu", "gpu", 1e-2, 1e-3, 4);
}

TEST_CASE("every optimizer, clipped and regularized, moves variables as the CPU's reference does",
          "[cuda]") {
  const std::string optimizer = GENERATE(
      "sgd", "sgd, momentum: 0.9", "adamw, weight_decay: 0.01, excludes: \"**/bias\"", "rmsprop",
      "rmsprop, centered: true, momentum: 0.9, epsilon_inside: false, weight_decay: 0.01",
      "sgd, weight_decay: 0.01, excludes: \"**/bias\"", "adam, amsgrad: true, weight_decay: 0.01",
      "adagrad, initial_accumulator_value: 0.1", "adadelta", "nadam",
      "radam, beta2: 0.9, weight_decay: 0.01", "lion", "ftrl, l1: 0.01", "lars, weight_decay: 0.01",
      "lamb", "adafactor, weight_decay: 0.01", "muon, newton_schulz_steps: 1",
      "adam, lookahead: {steps: 2}", "sgd, lookahead: {steps: 2}");
  Runs runs;
  const Wanted wanted = clipped_by(optimizer);
  runs.run(*cpu::make_backend(), "mlp.yaml", wanted, "cpu");
  runs.run_gpu("mlp.yaml", wanted, "gpu");
  runs.check("cpu", "gpu", 1e-9, 1e-9, 4);
}

TEST_CASE("nets train in shards on the CUDA backend as on the CPU", "[cuda]") {
  struct Net {
    std::string file;
    Wanted wanted;
  };
  const std::string in_shards = "+jobs.train.shards=4";
  const Net net = GENERATE_COPY(
      Net{"lenet.yaml",
          {.sets = {in_shards}, .watches = kLeNetWatches, .watch_diffs = kLeNetDiffs}},
      Net{"mlp.yaml", {.sets = {in_shards, "+jobs.train.run.shuffle=true"}, .watches = {"images"}}},
      Net{"../tests/unit/cuda/normalized.yaml",
          {.sets = {"+jobs.train.shards=2"}, .watches = {"net/bn1", "net/bn1/moving_mean"}}});
  CAPTURE(net.file);
  Runs runs;
  Wanted wanted = net.wanted;
  runs.run(*cpu::make_backend(), net.file, wanted, "cpu");
  runs.run_gpu(net.file, wanted, "graphs");
  runs.check("cpu", "graphs", 1e-3, 1e-3, 4);
  if (net.file == "lenet.yaml") return;  // it takes long; the others have what shards do
  test::FakeDevice hasty, latest;
  hasty.timing = test::Timing::kEager;
  latest.graphs = test::GraphOrder::kLatestFirst;
  runs.run_gpu(net.file, wanted, "hasty", hasty);
  runs.run_gpu(net.file, wanted, "latest", latest);
  wanted.eager = true;
  runs.run_gpu(net.file, wanted, "eager");
  for (const std::string out : {"hasty", "latest", "eager"}) runs.check_bits("graphs", out);
}

TEST_CASE("mixed jobs train as on the CPU", "[cuda]") {
  const std::string precision = GENERATE("mixed_bfloat16", "mixed_float16");
  CAPTURE(precision);
  Runs runs;
  // One step: LeNet's gradients leap on so few rows.
  const Wanted wanted{.size = {"vars.batch=8", "vars.epochs=1"},
                      .sets = {"+jobs.train.precision=" + precision,
                               "+jobs.train.optimizer.loss_scale={type: static, value: 256}"},
                      .watches = {"lenet/conv1/conv", "lenet/pool2"},
                      .watch_diffs = {"lenet/*/weight", "lenet/pool1"}};
  runs.run(*cpu::make_backend(), "lenet.yaml", wanted, "cpu");
  runs.run_gpu("lenet.yaml", wanted, "gpu");
  // A sum that differs in its last bit may be rounded the other way.
  runs.check("cpu", "gpu", 2e-2, 4e-3, 8);
}

TEST_CASE("TF32 nets, with channels last, train as float32 ones on the CPU", "[cuda]") {
  struct Net {
    std::string file;
    Wanted wanted;
  };
  const Net net =
      GENERATE(Net{"lenet.yaml", {.watches = kLeNetWatches, .watch_diffs = kLeNetDiffs}},
               Net{"../tests/unit/cuda/normalized.yaml",
                   {.watches = {"net/bn1", "net/gn", "net/bn1/moving_mean"},
                    .watch_diffs = {"net/bn1", "net/up", "net/*/weight"}}},
               Net{"../tests/unit/cuda/normalized.yaml",
                   {.sets = {"+jobs.train.shards=2"}, .watches = {"net/bn1", "net/pool1"}}},
               Net{"resnet18.yaml",
                   {.sets = {"vars.width=2"},
                    .watches = {"resnet/stage1/0/second/bn", "resnet/stage1/0/sum"},
                    .watch_diffs = {"resnet/stage1/0/sum", "resnet/stage1/0/relu2"}}});
  CAPTURE(net.file);
  Runs runs;
  Wanted wanted = net.wanted;
  runs.run(*cpu::make_backend(), net.file, wanted, "cpu");
  wanted.sets.push_back("+jobs.train.precision=tf32");
  runs.run_gpu(net.file, wanted, "graphs");
  runs.check("cpu", "graphs", 1e-2, 1e-3, 4);
  wanted.eager = true;
  test::FakeDevice hasty;
  hasty.timing = test::Timing::kEager;
  runs.run_gpu(net.file, wanted, "eager", hasty);
  runs.check_bits("graphs", "eager");
  wanted.watches.clear(), wanted.watch_diffs.clear();
  runs.run_gpu(net.file, wanted, "quiet");
  runs.check_bits("quiet/checkpoints", "graphs/checkpoints");
}

TEST_CASE("residual nets with 16 bits between convolutions are as close to float32 as the CPU's",
          "[cuda]") {
  Runs runs;
  // Normalization by statistics of few values, and ReLUs, make much of what is rounded.
  Wanted wanted{.size = {"vars.batch=8", "vars.epochs=1"},
                .sets = {"vars.width=4"},
                .watch_diffs = {"**/weight"}};
  runs.run(*cpu::make_backend(), "resnet18.yaml", wanted, "exact");
  for (const std::string precision : {"mixed_bfloat16", "mixed_float16"}) {
    wanted.sets = {"vars.width=4", "+jobs.train.precision=" + precision,
                   "+jobs.train.optimizer.loss_scale={type: static, value: 256}"};
    runs.run(*cpu::make_backend(), "resnet18.yaml", wanted, precision);
    runs.run_gpu("resnet18.yaml", wanted, "gpu_" + precision);
    const double cpu = runs.distance("exact", precision);
    const double gpu = runs.distance("exact", "gpu_" + precision);
    CAPTURE(precision, cpu, gpu);
    CHECK(gpu < 1.5 * cpu);
    CHECK(gpu < 0.5);
  }
}

TEST_CASE("attention in 16 bits trains nearly as the CPU's in float32", "[cuda]") {
  Runs runs;
  Wanted wanted{.size = {"vars.batch=4", "vars.steps=2"},
                .sets = {"vars.width=16", "vars.heads=2", "vars.layers=2", "vars.context=12",
                         "vars.vocabulary=50", "vars.precision=mixed_bfloat16"},
                .watches = {"gpt/blocks/*/attention/attended"},
                .watch_diffs = {"gpt/blocks/*/attention/qkv/weight"}};
  runs.run(*cpu::make_backend(), "gpt2.yaml", wanted, "cpu");
  runs.run_gpu("gpt2.yaml", wanted, "gpu");
  runs.check("cpu", "gpu", 3e-2, 1e-3, 8);
  wanted.eager = true;
  runs.run_gpu("gpt2.yaml", wanted, "eager");
  runs.check_bits("gpu", "eager");
  // Each shard rounds its own rows.
  wanted.sets.push_back("+jobs.train.shards=2");
  runs.run_gpu("gpt2.yaml", wanted, "shards");
  runs.check("gpu", "shards", 3e-2, 1e-3, 8);
  wanted.watches.clear(), wanted.watch_diffs.clear();
  runs.run_gpu("gpt2.yaml", wanted, "unwatched");
  runs.check_bits("unwatched/checkpoints", "shards/checkpoints");
}

TEST_CASE("a loss scale moves as on the CPU, and steps that overflow are skipped", "[cuda]") {
  Runs runs;
  // float16 overflows in the first two steps at the least.
  Wanted wanted{.sets = {"+jobs.train.precision=mixed_float16",
                         "+jobs.train.optimizer.loss_scale={type: dynamic, initial: 262144, "
                         "growth_interval: 2}"}};
  runs.run(*cpu::make_backend(), "mlp.yaml", wanted, "cpu");
  test::FakeDevice hasty;
  hasty.timing = test::Timing::kEager;
  runs.run_gpu("mlp.yaml", wanted, "gpu");
  runs.run_gpu("mlp.yaml", wanted, "hasty", hasty);
  wanted.sets.push_back("+networks.mlp.graph.hidden.placement={device: gpu}");
  runs.run_multi_device("mlp.yaml", wanted, "mixed");
  const std::vector<std::string> scales = {"262144.0", "131072.0", "65536.0", "65536.0"};
  CHECK(runs.logged("cpu", "loss_scale") == scales);
  const std::vector<std::string> skipped = runs.logged("cpu", "skipped");
  CHECK(std::ranges::count(skipped, "") > 0);
  for (const std::string out : {"gpu", "hasty", "mixed"}) {
    CAPTURE(out);
    CHECK(runs.logged(out, "loss_scale") == scales);
    CHECK(runs.logged(out, "skipped") == skipped);
    runs.check("cpu", out, 2e-2, 4e-3, 4);
  }
}

TEST_CASE("predict jobs give the CPU's values", "[cuda]") {
  const std::string file = GENERATE("lenet.yaml", "mlp.yaml");
  const std::string job = GENERATE("eval", "accuracy");
  Runs runs;
  const Wanted wanted{.job = job, .sets = {"vars.batch=3"}};  // the last batch is padded
  runs.run(*cpu::make_backend(), file, wanted, "cpu");
  runs.run_gpu(file, wanted, "gpu");
  runs.check("cpu", "gpu", 1e-4, 1e-4, job == "eval" ? 2 : 0);
}

TEST_CASE("a graph says of all its work what comes before it", "[cuda]") {
  test::FakeDevice other;
  other.graphs = test::GraphOrder::kLatestFirst;
  Runs runs;
  const Wanted wanted{.sets = {"jobs.train.optimizer.momentum=0.9"},
                      .watches = {"lenet/**"},
                      .watch_diffs = {"lenet/**:2"}};
  runs.run_gpu("lenet.yaml", wanted, "captured");
  runs.run_gpu("lenet.yaml", wanted, "latest", other);
  runs.check_bits("captured", "latest");
}

TEST_CASE("without graphs a run has the same bits, and so it has in either order of lanes",
          "[cuda]") {
  Runs runs;
  Wanted wanted{.sets = {"+jobs.train.optimizer.momentum=0.9"},
                .watches = {"mlp/hidden:2"},
                .watch_diffs = {"mlp/*/weight:3"}};
  runs.run_gpu("mlp.yaml", wanted, "graphs");
  wanted.eager = true;
  runs.run_gpu("mlp.yaml", wanted, "eager");
  runs.check_bits("graphs", "eager");
  test::FakeDevice reversed;
  reversed.lanes = test::LaneOrder::kReversed;
  reversed.timing = test::Timing::kEager;
  runs.run_gpu("mlp.yaml", wanted, "reversed", reversed);
  runs.check_bits("graphs", "reversed");
}

TEST_CASE("hooks change no bit of the variables on the CUDA backend", "[cuda][slow]") {
  Runs runs;
  Wanted wanted;
  runs.run_gpu("lenet.yaml", wanted, "quiet");
  wanted.watches = kLeNetWatches;
  wanted.watch_diffs = kLeNetDiffs;
  runs.run_gpu("lenet.yaml", wanted, "watched");
  runs.check_bits("quiet/checkpoints/000004", "watched/checkpoints/000004");
}

TEST_CASE("a dataset that stays on the device gives the bits of one that is fed", "[cuda]") {
  Runs runs;
  const Wanted wanted{.sets = {"+jobs.train.run.shuffle=true"}, .watches = {"images", "labels"}};
  runs.run_gpu("mlp.yaml", wanted, "kept");
  test::FakeGpu gpu;
  const plan::Plan plan = compiled("mlp.yaml", wanted);
  const exec::MemoryReport memory =
      exec::dry_run(*gpu.backend, runs.request(plan, wanted, "dry"))[0].memory;
  // Bytes as they lie in the file, and a table of what they mean for each of the two columns.
  CHECK(memory.columns == kRows * 784 + 128 + 256 + 2 * 1024);
  test::FakeDevice small;
  small.memory = (memory.total() + memory.columns / 2) / 3 * 4;  // of which a quarter is left free
  runs.run_gpu("mlp.yaml", wanted, "fed", small);
  runs.check_bits("kept", "fed");
}
