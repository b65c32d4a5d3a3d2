// What the plan check refuses of a job's tensors, variables and inputs, one corruption at a time.
#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/unit/plan/corruptions.h"
#include "tests/unit/plan/sample.h"

using namespace flow;
using namespace flow::plan;
using namespace flow::plan::sample;

TEST_CASE("the sample plans pass the check", "[plan]") {
  CHECK(refusal(sample::small_plan()).empty());
  CHECK(refusal(sample::full_plan()).empty());
  CHECK(refusal(sample::sharded_plan()).empty());
  for (uint64_t seed = 0; seed < 100; ++seed) CHECK(refusal(sample::random_plan(seed)).empty());
}

TEST_CASE("the check says where and what", "[plan]") {
  Plan plan = sample::full_plan();
  plan.jobs[0].steps[0].op = "convolute";
  CHECK(refusal(plan) == "a.plan: job `train`, step `net/conv/relu`: unknown op `convolute`");
}

TEST_CASE("a plan has jobs, each of its own name", "[plan]") {
  Plan plan = sample::full_plan();
  plan.jobs[1].name = "train";
  CHECK(refusal(plan) == "a.plan: duplicate job name `train`");
  plan.jobs[1].name = "../up";
  CHECK(refusal(plan) == "a.plan: invalid job name `../up`");
  plan.jobs.clear();
  CHECK(refusal(plan) == "a.plan: the plan has no jobs");
  plan.version = 2;
  CHECK_THAT(refusal(plan), Catch::Matchers::Contains("plan version 2"));
}

TEST_CASE("ids lie within their vectors", "[plan]") {
  const TensorId far{size_t{1000}}, none;
  check_corruptions({
      {"alias: unknown tensor", [](Job& j) { j.tensors[0].alias = TensorId(j.tensors.size()); }},
      {"inputs: unknown tensor", [](Job& j) { j.inputs[0].tensor = TensorId(j.tensors.size()); }},
      {"unknown tensor 1000", [&](Job& j) { j.tensors[0].alias = far; }},
      {"unknown tensor 1000", [&](Job& j) { j.steps[0].inputs[0] = far; }},
      {"unknown tensor -1", [&](Job& j) { j.steps[0].inputs[0] = none; }},
      {"unknown tensor 1000", [&](Job& j) { j.steps[0].outputs[0] = far; }},
      {"unknown tensor 1000", [&](Job& j) { j.steps[0].epilogue[0].operands[0] = far; }},
      {"unknown tensor -1", [&](Job& j) { j.variables[0].tensor = none; }},
      {"unknown tensor 1000", [&](Job& j) { j.inputs[0].tensor = far; }},
      {"unknown tensor 1000", [&](Job& j) { j.hooks[0].tensor = far; }},
      {"unknown tensor 1000", [&](Job& j) { j.optimizer->loss = far; }},
      {"unknown tensor -1", [&](Job& j) { j.returns->value.items[1].items[0].tensor = none; }},
      {"a nested value names a tensor", [&](Job& j) { j.returns->value.tensor.value = 0; }},
  });
}

TEST_CASE("tensors have names that are safe as paths, shapes that can be counted, and little bytes",
          "[plan]") {
  std::vector<Corruption> corruptions;
  for (const char* name :
       {"", "/etc/passwd", "../up", "a/../b", "a//b", "a/", ".hidden", "a b", "a\n"})
    corruptions.push_back({"invalid name", [name](Job& j) { j.tensors[0].name = name; }});
  check_corruptions(corruptions);
  check_corruptions({
      {"duplicate name", [](Job& j) { j.tensors[1].name = j.tensors[0].name; }},
      {"extent 0", [](Job& j) { j.tensors[0].shape[0] = 0; }},
      {"extent -1", [](Job& j) { j.tensors[0].shape[0] = -1; }},
      {"too many elements to count",
       [](Job& j) {
         j.tensors[0].shape = {INT64_MAX, INT64_MAX};
       }},
      {"is too large", [](Job& j) { j.tensors[0].shape = {int64_t{1} << 50}; }},
      {"expected at most 256 TiB",
       [](Job& j) {
         j.tensors[0].shape = {int64_t{1} << 46};
         j.tensors[1].shape = {int64_t{1} << 46};
       }},
      {"9 dimensions; expected at most 8",
       [](Job& j) { j.tensors[0].shape = Shape(Integers(9, 1)); }},
      {"invalid row axis 4", [](Job& j) { j.tensors[0].batch_axis = 4; }},
      {"invalid row axis -3", [](Job& j) { j.tensors[0].batch_axis = -3; }},
      {"only a result can reuse memory", [](Job& j) { j.tensors[0].alias.value = 1; }},
      {"cannot reuse the memory of",
       [](Job& j) { tensor_named(j, "net/pool.argmax").alias = id_named(j, "net/pool"); }},
      {"cannot reuse the memory of",
       [](Job& j) { tensor_named(j, "net/flat").alias = id_named(j, "loss"); }},
      {"unknown precision `float31`", [](Job& j) { j.precision = "float31"; }},
  });
}

TEST_CASE("variables and inputs are listed once, with what they start from", "[plan]") {
  check_corruptions({
      {"missing in the list of inputs", [](Job& j) { j.inputs.pop_back(); }},
      {"listed twice", [](Job& j) { j.variables.push_back(j.variables[0]); }},
      {"has another role",
       [](Job& j) {
         j.inputs[0].tensor = j.inputs[1].tensor;
         j.inputs[1].tensor = j.variables[0].tensor;
       }},
      {"`stddev` is -1; expected at least 0",
       [](Job& j) {
         j.variables[0].initializer = initializers::Normal{0, -1};
       }},
      {"`mean` is nan",
       [](Job& j) {
         j.variables[0].initializer = initializers::TruncatedNormal{kNaN, 1};
       }},
      {"dtype int32 in a job of precision float32",
       [](Job& j) {
         Tensor count = tensor_named(j, "net/conv/bias");
         count.name = "count";
         count.dtype = DType::kInt32;
         j.variables.push_back({TensorId(j.tensors.size()), {}, false, false});
         j.tensors.push_back(count);
       }},
      {"initializer npy: only npy takes a path, and requires one",
       [](Job& j) { j.variables[3].initializer = initializers::Npy(); }},
  });
}

TEST_CASE("inputs from datasets have columns that fit", "[plan]") {
  check_corruptions({
      {"unknown column `digits.image`",
       [](Job& j) {
         j.inputs[0].source = FromDataset{"digits", "", "image"};
       }},
      {"rows of `images` are [1, 6, 7]", [](Job& j) { j.datasets[0].columns[0].row_shape[2] = 7; }},
      {"format csv: missing `csv`",
       [](Job& j) { j.datasets[0].columns[0].source = SourceKind::kCsv; }},
      {"missing path", [](Job& j) { j.datasets[0].columns[0].files = {}; }},
      {"`scale` is inf", [](Job& j) { j.datasets[0].columns[0].scale = INFINITY; }},
      {"`mean` is nan", [](Job& j) { j.datasets[0].columns[0].mean.values = {kNaN}; }},
      {"invalid row shape [1, 0, 6]", [](Job& j) { j.datasets[0].columns[0].row_shape[1] = 0; }},
      {"invalid row shape [1, 1, 1, 1, 1, 1, 1, 1]",
       [](Job& j) { j.datasets[0].columns[0].row_shape = Shape(Integers(kMaxRank, 1)); }},
      {"3 values of `std`",
       [](Job& j) {
         j.datasets[0].columns[0].std.values = {1, 2, 3};
       }},
      {"rows -1..5",
       [](Job& j) {
         j.datasets[0].columns[0].rows = {{0, 2}, {-1, 5}};
       }},
      {"invalid name", [](Job& j) { j.datasets[0].columns[0].name = "a/b"; }},
      {"`train`: 0 devices", [](Job& j) { j.devices = 0; }},
      {"`train`: 65 devices", [](Job& j) { j.devices = kMaxDevices + 1; }},
      {"batch of 5; another input has 4",
       [](Job& j) {
         const TensorId more(j.tensors.size());
         j.tensors.push_back(tensor_named(j, "labels"));
         j.tensors.back().name = "more";
         j.tensors.back().shape = {5};
         j.inputs.push_back({more, FromDataset{"digits", "", "labels"}, "", ""});
       }},
      {"shape is []; expected a batch axis",
       [](Job& j) {
         const TensorId one(j.tensors.size());
         j.tensors.push_back(j[j.optimizer->loss]);
         j.tensors.back().name = "one";
         j.tensors.back().role = Role::kInput;
         j.inputs.push_back({one, FromDataset{"digits", "", "labels"}, "", ""});
       }},
      {"3 values of `mean`",
       [](Job& j) {
         j.datasets[0].columns[0].mean.values = {1, 2, 3};
       }},
      {"`std` is 0", [](Job& j) { j.datasets[0].columns[0].std.values = {0}; }},
      {"rows 5..5",
       [](Job& j) {
         j.datasets[0].columns[0].rows = {{5, 5}};
       }},
      {"duplicate column", [](Job& j) { j.datasets[0].columns[1].name = "images"; }},
      {"invalid name", [](Job& j) { j.datasets[0].name = "a/b"; }},
      {"duplicate name", [](Job& j) { j.datasets.push_back(j.datasets[0]); }},
      {"missing path", [](Job& j) { j.inputs[0].source = FromNpy{}; }},
      {"range [1, 0] of int32",
       [](Job& j) {
         j.inputs[1].range = {1, 0};
       }},
      {"range [0, 1] of float32",
       [](Job& j) {
         j.inputs[0].range = {0, 1};
       }},
      {"`random_uniform` produces fractions, not int32",
       [](Job& j) {
         j.inputs[1].source = generators::Uniform{0, 1};
       }},
      {"`low` is 3 and `high` 3; expected `low` < `high`",
       [](Job& j) {
         j.inputs[1].source = generators::Integers{3, 3};
       }},
  });
}

TEST_CASE("columns are those of their dataset, their rows of any size, and devices up to the most",
          "[plan]") {
  Plan plan = sample::full_plan();
  Job& job = plan.jobs[0];
  Dataset other = job.datasets[0];
  other.name = "other";
  other.columns[0].row_shape = Shape(Integers(kMaxRank - 1, 1));
  job.datasets.insert(job.datasets.begin(), other);
  job.variables[0].initializer = initializers::TruncatedNormal{0, 0};
  CHECK(refusal(plan).empty());
  sample::JobBuilder b("job");
  b.input("x", DType::kFloat32, {kMaxDevices});
  b.job.devices = kMaxDevices;
  CHECK(refusal({kVersion, "", "", {b.done()}, {}}).empty());
}

TEST_CASE("tensors may have as many dimensions and bytes as are possible", "[plan]") {
  sample::JobBuilder wide("job");
  wide.input("x", DType::kFloat32, Shape(Integers(kMaxRank, 1)));
  CHECK(refusal({kVersion, "", "", {wide.done()}, {}}).empty());
  sample::JobBuilder large("job");
  large.input("x", DType::kInt8, {static_cast<int64_t>(kMostBytes)});
  CHECK(refusal({kVersion, "", "", {large.done()}, {}}).empty());
}

TEST_CASE("generators make what their inputs hold", "[plan]") {
  const auto made = [](const char* message, size_t input, const FromGenerator& from) {
    return Corruption{message, [=](Job& j) { j.inputs[input].source = from; }};
  };
  const size_t images = 0, labels = 1;  // float32, int32
  check_corruptions({
      made("`low` is 0.5; expected a whole number", labels, generators::Integers{0.5, 3}),
      made("expected `high - low` of at most 4294967296", images, generators::Integers{0, 5e9}),
      made("`high` is 1e+300; expected -", labels, generators::Integers{0, 1e300}),
      made("so 2999999999 can occur, which is not a valid int32", labels,
           generators::Integers{0, 3e9}),
      made("`value` is 2.5, which is not a valid int32", labels, generators::Constant{2.5}),
      made("`value` is inf", images, generators::Constant{INFINITY}),
      made("`high` is 1e+300, which is not a valid float32", images, generators::Uniform{0, 1e300}),
      made("5.77 deviations from the mean do not fit float32", images, generators::Normal{0, 1e38}),
      made("`stddev` is -1", images, generators::Normal{0, -1}),
  });
}

TEST_CASE("lifetimes that are too short are refused", "[plan]") {
  check_corruptions({{"wrong lifetime", [](Job& j) { --tensor_named(j, "net/pool").last.value; }},
                     {"wrong lifetime", [](Job& j) { ++tensor_named(j, "loss").first.value; }}});
}
