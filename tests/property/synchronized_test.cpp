// Synchronized batch normalization: ranks with a shard each compute what one shard does of the
// whole batch.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "runtime/base/error.h"
#include "runtime/exec/run/run.h"
#include "runtime/plan/model/shards.h"
#include "runtime/plan/serialize.h"
#include "tests/support/fresh_directory.h"
#include "tests/support/run_job.h"
#include "tests/support/shard_jobs.h"
#include "tests/support/thread_ranks.h"
#include "tests/unit/job/compiled.h"

namespace flow {
namespace {

struct Net {
  std::string x, w;   // shapes
  std::string graph;  // `a`, `y`, which is normalized, and `p`, of w's shape
  bool affine = true;
};

/// Rows of images in memory order, channels innermost, behind a dense layer and along a last axis.
const std::vector<Net> kNets = {
    {"[16, 3, 5, 4]", "[16, 3, 5, 4]",
     "{a: {op: tanh, in: x}, y: {op: batch_normalization, synchronized: $sync}, p: {op: relu}"},
    {"[16, 3, 6, 7]", "[16, 4, 6, 7]",
     "{a: {op: conv2d, in: x, filters: 5, kernel_size: 3, padding: same}, "
     "y: {op: batch_normalization, synchronized: $sync}, r: {op: relu}, "
     "p: {op: conv2d, filters: 4, kernel_size: 3, padding: same}"},
    {"[16, 7]", "[16, 70]",
     "{a: {op: dense, in: x, units: 70}, "
     "y: {op: batch_normalization, synchronized: $sync, epsilon: 0.01}, p: {op: sigmoid}"},
    {"[8, 9, 3]", "[8, 9, 3]",
     "{a: {op: tanh, in: x}, "
     "y: {op: batch_normalization, synchronized: $sync, axis: -1, center: false, scale: false}, "
     "p: {op: layer_norm}",
     false},
};

std::string text_of(const Net& net, int shards, const std::string& precision,
                    const std::string& synchronized = "true") {
  const std::string gradients = net.affine
                                    ? "[{watch_diff: a, to: npy}, {watch_diff: y/gamma, to: npy}, "
                                      "{watch_diff: y/beta, to: npy}]"
                                    : "[{watch_diff: a, to: npy}]";
  return fmt::format(
      "flow: 1\nvars: {{sync: {}}}\njobs:\n  train:\n    type: train\n    shards: {}\n"
      "    precision: {}\n"
      "    inputs:\n"
      "      x: {{shape: {}, dtype: float32, from: {{type: random_normal}}}}\n"
      "      w: {{shape: {}, dtype: float32, from: {{type: random_normal}}}}\n"
      "    graph: {}, loss: {{op: multiply, in: [p, w]}}}}\n"
      "    optimizer: {{type: sgd, learning_rate: 0.1, minimize: loss}}\n"
      "    returns: {{value: y}}\n    hooks: {}\n    run: {{steps: 1}}\n",
      synchronized, shards, precision, net.x, net.w, net.graph, gradients);
}

std::vector<double> doubles(const Array& array) {
  if (array.dtype() == DType::kFloat64)
    return {array.as<double>().begin(), array.as<double>().end()};
  return {array.as<float>().begin(), array.as<float>().end()};
}

/// The greatest difference, relative to the greatest magnitude.
double difference(const Array& a, const Array& b) {
  FLOW_CHECK(a.shape() == b.shape());
  double most = 0, magnitude = 0;
  const std::vector<double> x = doubles(a), y = doubles(b);
  for (size_t i = 0; i < x.size(); ++i) {
    most = std::max(most, std::abs(x[i] - y[i]));
    magnitude = std::max(magnitude, std::abs(y[i]));
  }
  FLOW_CHECK(magnitude > 0);
  return most / magnitude;
}

constexpr int kCalls = 2;

/// What the ranks of `world` compute, as rank 0 has it.
test::Arrays run_on(ThreadRanks& world, const plan::Job& job, const test::Arrays& values,
                    int threads) {
  test::Arrays found;
  world.run([&](exec::Collectives& ranks) {
    test::Arrays own = test::run(job, values, test::tensors_to_compare(job),
                                 {.threads = threads, .calls = kCalls, .ranks = &ranks});
    if (ranks.rank() == 0) found = std::move(own);
  });
  return found;
}

TEST_CASE("synchronized ranks normalize the whole batch, forward and backward", "[property]") {
  const std::string precision = GENERATE("float64", "float32");
  const double tolerance = precision == "float64" ? 1e-12 : 1e-5;
  for (const Net& net : kNets) {
    const plan::Plan alone = plan_of(text_of(net, 1, precision));
    const plan::Job& job = alone.jobs[0];
    const test::Arrays values = test::random_values(job);
    const std::vector<std::string> wanted = test::tensors_to_compare(job);
    const test::Arrays expected = test::run(job, values, wanted, {.calls = kCalls});
    for (const int size : {2, 8}) {
      const plan::Plan cut = plan_of(text_of(net, size, precision));
      REQUIRE(test::tensors_to_compare(cut.jobs[0]).size() == wanted.size());
      ThreadRanks world(size, 1), other(size, 2);
      const test::Arrays found = run_on(world, cut.jobs[0], values, 1);
      CHECK(test::same_bits(found, run_on(other, cut.jobs[0], values, 3)));
      for (size_t i = 0; i < wanted.size(); ++i) {
        INFO(net.graph << "\n" << precision << ", " << size << " ranks: " << wanted[i]);
        CHECK(difference(found.at(test::tensors_to_compare(cut.jobs[0])[i]),
                         expected.at(wanted[i])) <= tolerance);
      }
    }
  }
}

TEST_CASE("only plans with shards say that they are synchronized", "[property]") {
  const auto synchronized = [](const plan::Plan& plan) {
    return std::ranges::count_if(plan.jobs[0].steps, [](const plan::Step& step) {
      return step.attributes.has("synchronized");
    });
  };
  for (const Net& net : kNets) {
    const plan::Plan cut = plan_of(text_of(net, 4, "float32"));
    CHECK(synchronized(cut) == 2);
    CHECK(plan::hash(cut) != plan::hash(plan_of(text_of(net, 4, "float32", "false"))));
    const plan::Plan alone = plan_of(text_of(net, 1, "float32"));
    CHECK(synchronized(alone) == 0);
    CHECK(plan::hash(alone) == plan::hash(plan_of(text_of(net, 1, "float32", "false"))));
  }
}

std::string job_of_layer(const std::string& layer) {
  return "flow: 1\njobs:\n  train:\n    type: train\n    shards: 4\n"
         "    inputs: {x: {shape: [8, 3], dtype: float32}, "
         "v: {shape: [8, 3], dtype: float32, rows: false}}\n"
         "    graph: {y: {op: batch_normalization, synchronized: true, " +
         layer +
         "}, d: {op: dense, in: x, units: 3}, p: {op: multiply, in: [y, d]}}\n"
         "    optimizer: {type: sgd, learning_rate: 0.1, minimize: p}\n";
}

TEST_CASE("what all shards share, and rows along the channels, need no other ranks", "[property]") {
  for (const std::string layer : {"in: v", "in: x, axis: 0, trainable: false"}) {
    const plan::Plan plan = plan_of(job_of_layer(layer));
    for (const plan::Step& step : plan.jobs[0].steps)
      CHECK_FALSE(step.attributes.has("synchronized"));
  }
  CHECK_THAT(messages_of(job_of_layer("in: x, axis: 0")),
             Catch::Matchers::Contains("`move_statistics` works along the batch axis"));
}

TEST_CASE("synchronized batch normalization requires a rank for each shard", "[property]") {
  const FreshDirectory home;
  const plan::Plan plan = plan_of(text_of(kNets[2], 4, "float32"));
  const auto backend = cpu::make_backend();
  const exec::RunRequest request(plan, plan.jobs[0], home.path(), home / "out");
  fs::create_directories(request.directory);
  try {
    exec::run(*backend, request);
    FAIL("it runs");
  } catch (const RequestError& error) {
    CHECK(std::string(error.what()) ==
          "job.yaml:11:55: `y` is synchronized: job `train` has 4 shards on 1 rank, expected one "
          "shard a rank");
    CHECK(error.hint() ==
          "use mpirun -np 4 with --distributed on CPUs, or write `synchronized: false`");
  }
  // A backend is not only used by runs.
  CHECK_THROWS_WITH(backend->prepare(plan.jobs[0], {}),
                    "job.yaml:11:55: step `y/normalize`: synchronized over 4 shards on 1 rank, "
                    "expected one shard a rank");
}

}  // namespace
}  // namespace flow
