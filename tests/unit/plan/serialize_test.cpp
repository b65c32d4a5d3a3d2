// Plans as text: round trips, the layout, and what is refused.
#include "runtime/plan/serialize.h"

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <limits>

#include "runtime/base/error.h"
#include "runtime/base/text.h"
#include "runtime/plan/json/json.h"
#include "tests/unit/plan/sample.h"

using namespace flow;
using namespace flow::plan;

namespace {

/// What from_json says of a text, or nothing when it takes it.
std::string refusal(const std::string& text) {
  try {
    from_json(text, "a.plan");
    return {};
  } catch (const RequestError& error) {
    return error.what();
  }
}

/// The full plan's text with the first `from` replaced, sealed again.
std::string edited(const std::string& from, const std::string& to) {
  std::string text = to_json(sample::full_plan());
  const size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return with_checksum(text.replace(at, from.size(), to));
}

size_t count(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++found;
  return found;
}

}  // namespace

TEST_CASE("a plan comes back from its text as it was", "[plan]") {
  for (const Plan& plan : {sample::small_plan(), sample::full_plan(), sample::sharded_plan()}) {
    const std::string text = to_json(plan);
    const Plan back = from_json(text, "a.plan");
    CHECK(to_json(back) == text);
    CHECK(hash(back) == hash(plan));
  }
  const Plan back = from_json(to_json(sample::full_plan()), "a.plan");
  const Job& train = back.jobs[0];
  CHECK(train.seed == UINT64_MAX);
  CHECK(train.hooks[0].steps[0].end == INT64_MAX);
  CHECK(std::get<PrintSink>(train.hooks[0].sinks[0]).label == "label:\n");
  CHECK(std::get<CommandSink>(train.hooks[0].sinks[2]) ==
        std::get<CommandSink>(sample::full_plan().jobs[0].hooks[0].sinks[2]));
  CHECK(train.datasets[0].columns[0].scale == 1.0 / 255);
  CHECK(train.datasets[0].columns[0].rows ==
        sample::full_plan().jobs[0].datasets[0].columns[0].rows);
  CHECK(train.returns->value.items[1].keys[1] == "\xc3\xa4");
  CHECK(std::get<generators::Uniform>(std::get<FromGenerator>(back.jobs[1].inputs[0].source)).low ==
        -1);
  CHECK(back.root == "/somewhere/\xc3\xa4");
  CHECK(back.notes == std::vector<std::string>{"first", "se\"cond\n"});
}

TEST_CASE("random plans come back from their text as they were", "[plan]") {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const std::string text = to_json(sample::random_plan(seed));
    CHECK(to_json(from_json(text, "a.plan")) == text);
  }
}

TEST_CASE("an integer beyond 64 bits with a sign is refused as such", "[plan]") {
  CHECK_THAT(refusal(edited("\"log_every\":", "\"log_every\":1844674407370955161")),
             Catch::Matchers::Contains("a 64-bit integer"));
}

TEST_CASE("numbers come back bit for bit", "[plan]") {
  using Limits = std::numeric_limits<double>;
  for (const double value : {0.1, -0.0, 1.0, 1e22, 5e-324, Limits::max(), Limits::min(), 2.0 / 3,
                             Limits::infinity(), -Limits::infinity()}) {
    sample::JobBuilder b("job");
    b.one("fill", "x", {},
          {{"dtype", DType::kFloat32}, {"shape", std::vector<int64_t>{}}, {"value", value}});
    const std::string text = to_json({kVersion, "", "", {b.done()}, {}});
    const Plan back = from_json(text, "a.plan");
    const double read = back.jobs[0].steps[0].attributes.get<double>("value");
    CHECK(std::memcmp(&read, &value, sizeof value) == 0);
  }
}

TEST_CASE("each step and each tensor of a plan stands on a line of its own", "[plan]") {
  const Plan plan = sample::full_plan();
  const std::string text = to_json(plan);
  size_t steps = 0, tensors = 0, made = 0, written = 0;
  for (const Job& job : plan.jobs) steps += job.steps.size(), tensors += job.tensors.size();
  for (const std::string& line : split(text, '\n')) {
    if (count(line, "\"posts\":") > 0) ++made;
    if (count(line, "\"alias\":") > 0) ++written;
    CHECK(count(line, "\"posts\":") + count(line, "\"alias\":") <= 1);
  }
  CHECK(made == steps);
  CHECK(written == tensors);
}

TEST_CASE("one path to load is a text, several are a list with a place each", "[plan]") {
  using Texts = std::vector<std::string>;
  Plan plan = sample::small_plan();
  Checkpointing& checkpoint = plan.jobs[0].run.checkpoint;
  const auto check = [&](const Texts& load, const Texts& where, const std::string& written) {
    checkpoint.load = load;
    checkpoint.load_where = where;
    const std::string text = to_json(plan);
    CHECK(text.find(written) != std::string::npos);
    const Checkpointing read = from_json(text, "plan.json").jobs[0].run.checkpoint;
    CHECK(read.load == load);
    CHECK(read.load_where == where);
  };
  check({}, {}, R"("load":null,"load_where":"")");
  check({"a"}, {"x:1:2"}, R"("load":"a","load_where":"x:1:2")");
  check({"a", "b"}, {"x:1:2", "x:1:5"}, R"("load":["a","b"],"load_where":["x:1:2","x:1:5"])");
}

TEST_CASE("a plan's hash leaves out root, source, notes and places, and nothing else", "[plan]") {
  const Plan plan = sample::full_plan();
  const std::string named = hash(plan);
  CHECK(named.size() == 16);
  Plan other = plan;
  other.root = "/elsewhere";
  other.source = "full.yaml";
  other.notes = {};
  other.jobs[0].where = other.jobs[0].steps[0].where = other.jobs[0].tensors[0].where =
      "x.yaml:1:1";
  other.jobs[0].run.checkpoint.load_where = {"x.yaml:2:1"};
  CHECK(hash(other) == named);
  other.jobs[0].seed = 3;
  CHECK(hash(other) != named);
  other = plan;
  other.jobs[0].hooks[0].sinks.clear();
  CHECK(hash(other) != named);
}

TEST_CASE("a plan that was changed is refused", "[plan]") {
  const std::string text = to_json(sample::small_plan());
  std::string changed = text;
  changed[changed.find("0.125") + 2] = '2';
  CHECK(refusal(changed) == "a.plan: the plan was modified: its checksum does not match");
  // Sealed again, its hash gives it away.
  CHECK_THAT(refusal(with_checksum(changed)), Catch::Matchers::Contains("the hash of the plan is"));
  CHECK_THAT(refusal(text + "\n"), Catch::Matchers::Contains("checksum does not match"));
  CHECK_THAT(refusal(text + "x"), Catch::Matchers::Contains("invalid JSON"));
}

TEST_CASE("a plan of another version is refused, and both versions are named", "[plan]") {
  std::string text = to_json(sample::small_plan());
  const size_t at = text.find("\"version\": 1");
  REQUIRE(at != text.npos);
  text.replace(at, 12, "\"version\": 2");
  CHECK(refusal(text) == "a.plan: unsupported plan version 2; expected 1");
  try {
    from_json(text, "a.plan");
  } catch (const RequestError& error) {
    CHECK_THAT(error.hint(), Catch::Matchers::Contains("flowc build"));
  }
}

TEST_CASE("what is not a plan is told as such", "[plan]") {
  CHECK(refusal("") == "a.plan:1:1: invalid JSON: unexpected end of file");
  CHECK(refusal("{\n  \"a\": 1,\n  b\n}") == "a.plan:3:3: invalid JSON");
  CHECK(refusal("[]") == "a.plan: not a plan: no `version`");
  CHECK(refusal("{\"version\": 1e999}") == "a.plan: a number is out of range");
  CHECK_THAT(refusal(std::string(100000, '[')), Catch::Matchers::Contains("nested more than"));
}

TEST_CASE("a plan is read strictly, and errors name the place", "[plan]") {
  CHECK(refusal(edited("\"seed\":", "\"Seed\":")) ==
        "a.plan: jobs[0]: missing key `seed`; found `Seed`");
  CHECK(refusal(edited("\"tap\":false", "\"tap\":false,\"tip\":1")) ==
        "a.plan: jobs[0].steps[0]: unknown key `tip`; did you mean `tap`?");
  CHECK(refusal(edited("\"tap\":false", "\"tap\":0")) ==
        "a.plan: jobs[0].steps[0].tap: found `0`; expected true or false");
  CHECK(refusal(edited("\"tap\":false", "\"tap\":false,\"tap\":false")) ==
        "a.plan: jobs: steps: duplicate key `tap`");
  CHECK(refusal(edited("\"groups\":1", "\"groups\":99999999999999999999")) ==
        "a.plan: job `train`, step `net/conv/relu`: attribute `groups` of convolution is "
        "not a valid count");
  CHECK(refusal(edited("\"rows\":0", "\"rows\":9999999999")) ==
        "a.plan: jobs[0].tensors[0].rows: found `9999999999`; expected a small integer");
  CHECK(refusal(edited("\"role\":\"input\"", "\"role\":\"output\"")) ==
        "a.plan: jobs[0].tensors[0].role: unknown word `output`; expected `input`, `variable` or "
        "`result`");
  CHECK(refusal(edited("\"dtype\":\"int32\"", "\"dtype\":\"int31\"")) ==
        "a.plan: jobs[0].tensors[1].dtype: found `\"int31\"`; expected a dtype");
  CHECK(refusal(edited("\"inputs\":[\"images\"", "\"inputs\":[\"image\"")) ==
        "a.plan: jobs[0].steps[0].inputs[0]: unknown tensor `image`");
  CHECK(refusal(edited("\"name\":\"labels\",\"role\"", "\"name\":\"images\",\"role\"")) ==
        "a.plan: jobs[0]: tensors[1]: duplicate name `images`; tensors[0] has it too");
  CHECK(refusal(edited("{\"npy\":", "{\"npx\":")) ==
        "a.plan: jobs[0].hooks[0].sinks[1]: unknown word `npx`; expected `npy`, `print`, "
        "`command`, `stats`, `none` or `mean`");
}

TEST_CASE("the values of a learning rate are those of its type", "[plan]") {
  const std::string rates =
      R"({"boundaries":[30,80],"rates":[0.4,0.2,0.05],"type":"piecewise_constant","values":{},)";
  const auto read = [&](const std::string& type, const std::string& values,
                        const std::string& boundaries = "", const std::string& more = "") {
    return refusal(edited(rates, fmt::format(R"({{"boundaries":[{}],"rates":[{}],"type":"{}",)"
                                             R"("values":{{{}}},)",
                                             boundaries, more, type, values)));
  };
  const std::string place = "a.plan: jobs[0].optimizer.learning_rate: ";
  CHECK(read("fast", "") == place + "unknown learning rate `fast`");
  CHECK(read("constant", "") == place + "learning rate constant: missing `base`");
  CHECK(read("constant", R"("base":1.0,"steps":2.0)") ==
        place + "learning rate constant: expected 1 numbers, found 2");
  CHECK(read("constant", R"("base":1.0)", "3") ==
        place + "learning rate constant takes no boundaries");
  CHECK(read("constant", R"("base":1.0)", "", "0.5") ==
        place + "learning rate constant takes no rates");
  CHECK(read("cosine", R"("alpha":0.0,"base":1.0,"steps":1.5)") ==
        place + "learning rate cosine: `steps` is 1.5, out of range");
  CHECK(read("cosine", R"("alpha":0.0,"base":1.0,"steps":1e300)") ==
        place + "learning rate cosine: `steps` is 1e+300, out of range");
  CHECK(read("exponential", R"("base":1.0,"decay_rate":1.0,"staircase":2.0,"steps":1.0)") ==
        place + "learning rate exponential: `staircase` is 2, out of range");
  CHECK(refusal(edited(R"("warmup":null)",
                       R"("warmup":{"multiplier":0.5,"steps":10,"type":"slow"})")) ==
        place.substr(0, place.size() - 2) +
            ".warmup.type: unknown word `slow`; expected `constant` or `linear`");
}

TEST_CASE("the values of an initializer are those of its type", "[plan]") {
  const std::string zeros = R"({"path":"","type":"zeros","values":{}})";
  const auto read = [&](const std::string& path, const std::string& type,
                        const std::string& values) {
    return refusal(edited(
        zeros, fmt::format(R"({{"path":"{}","type":"{}","values":{{{}}}}})", path, type, values)));
  };
  const std::string place = "a.plan: jobs[0].variables[1].initializer: ";
  CHECK(read("", "zeroes", "") == place + "unknown type `zeroes`");
  CHECK(read("", "truncated_normal", R"("mean":0.0)") ==
        place + "truncated_normal: missing `stddev`");
  CHECK(read("", "zeros", R"("value":1.0)") == place + "zeros: expected 0 numbers, found 1");
  CHECK(read("x", "zeros", "") == place + "zeros takes no path");
}

TEST_CASE("the values of a generator are those of its type", "[plan]") {
  const std::string place = "a.plan: jobs[1].inputs[0].source.generator: ";
  CHECK(refusal(edited("random_uniform", "dice")) == place + "unknown type `dice`");
  CHECK(refusal(edited(R"("high":1.0,"low":-1.0)", R"("low":-1.0)")) ==
        place + "random_uniform: missing `high`");
  CHECK(refusal(edited(R"("high":1.0,"low":-1.0)", R"("high":1.0,"low":-1.0,"mean":1.0)")) ==
        place + "random_uniform: expected 2 numbers, found 3");
}

TEST_CASE("text that is not UTF-8 cannot be written into a plan", "[plan]") {
  Plan plan = sample::small_plan();
  plan.root = "/caf\xe9";
  CHECK_THROWS_AS(to_json(plan), RequestError);
}

TEST_CASE("a plan of ten thousand steps is written and read in a moment", "[plan]") {
  sample::JobBuilder b("deep");
  TensorId x = b.input("x", DType::kFloat32, {2});
  for (int i = 0; i < 10000; ++i) x = b.one("relu", "relu" + std::to_string(i), {x});
  const Plan plan{kVersion, "", "", {b.done()}, {}};
  const std::string text = to_json(plan);
  CHECK(text.size() < 4'000'000);
  CHECK(hash(from_json(text, "a.plan")) == hash(plan));
}

TEST_CASE("a run goes on though hooks, sinks and its length have changed", "[plan]") {
  const Job job = sample::full_plan().jobs[0];
  const std::string named = resume_hash(job);
  Job other = job;
  other.run.epochs = 40;
  other.run.checkpoint.every_steps = 1;
  other.returns->sinks = {NpySink{}};
  other.hooks[0].steps = {{0, 5, 1}};
  CHECK(resume_hash(other) == named);

  // Without the hook there is no probe and no tensor that it makes; ids and lifetimes move.
  other.hooks.clear();
  const auto probe = std::ranges::find(other.steps, true, &Step::probe);
  const TensorId gone = probe->outputs[0];
  other.steps.erase(probe);
  other.tensors.erase(other.tensors.begin() + gone.value);
  const auto renumber = [gone](TensorId& id) {
    if (id > gone) --id.value;
  };
  for (Tensor& tensor : other.tensors) renumber(tensor.alias);
  for (Step& step : other.steps) {
    std::ranges::for_each(step.inputs, renumber);
    std::ranges::for_each(step.outputs, renumber);
  }
  CHECK(resume_hash(other) == named);
}

TEST_CASE("a list of schedules comes back from its text as it was", "[plan]") {
  Plan plan = sample::full_plan();
  plan.jobs[0].optimizer->learning_rate.stages = {
      {100,
       schedules::OneCycle{
           .base = 1, .steps = 9, .div_factor = 2, .final_div_factor = 3, .linear = true}},
      {200, schedules::PiecewiseConstant{{1}, {2, 3}},
       Warmup{.type = Warmup::Type::kLinear, .steps = 4, .multiplier = 0.5}}};
  const std::string text = to_json(plan);
  const Plan back = from_json(text, "a.plan");
  CHECK(to_json(back) == text);
  const std::vector<ScheduleStage>& stages = back.jobs[0].optimizer->learning_rate.stages;
  REQUIRE(stages.size() == 2);
  CHECK(stages[0].from == 100);
  CHECK(std::get<schedules::OneCycle>(stages[0].function).linear);
  CHECK(std::get<schedules::PiecewiseConstant>(stages[1].function).values[1] == 3);
  CHECK(stages[1].warmup->steps == 4);
}

TEST_CASE("a run does not go on with another computation", "[plan]") {
  const Job job = sample::full_plan().jobs[0];
  const std::string named = resume_hash(job);
  const auto differs = [&](auto change) {
    Job other = job;
    change(other);
    return resume_hash(other) != named;
  };
  CHECK(differs([](Job& j) { j.seed = 2; }));
  CHECK(differs([](Job& j) { j.run.shuffle = false; }));
  CHECK(differs([](Job& j) {
    std::get<schedules::PiecewiseConstant>(j.optimizer->learning_rate.function).values[0] = 0.3;
  }));
  CHECK(differs([](Job& j) {
    j.optimizer->learning_rate.stages = {{7, schedules::Constant{0.1}}};
  }));
  CHECK(differs([](Job& j) { j.steps[3].attributes.set("rate", 0.25); }));
  CHECK(differs([](Job& j) { j.datasets[0].columns[0].files = {"other"}; }));
  CHECK(differs([](Job& j) { j.tensors[0].shape = Shape{5, 1, 6, 6}; }));
}

TEST_CASE("what a resumed run calls must be called as before", "[plan]") {
  Plan plan = sample::full_plan();
  plan.jobs[0].run.also = {{plan.jobs[1].name, 3, 0, ""}};
  const std::string before = resume_hash(plan, plan.jobs[0]);
  CHECK(before != resume_hash(plan.jobs[0]));
  SECTION("as often") { plan.jobs[0].run.also[0].every_steps = 4; }
  SECTION("for as many steps") { plan.jobs[1].run.steps = 7; }
  SECTION("in the same order of rows") { plan.jobs[1].run.shuffle = !plan.jobs[1].run.shuffle; }
  CHECK(resume_hash(plan, plan.jobs[0]) != before);
}

TEST_CASE("shards and what combines them are written only where there are shards", "[plan]") {
  for (const Plan& plan : {sample::small_plan(), sample::full_plan()}) {
    const std::string text = to_json(plan);
    CHECK(count(text, "\"shards\"") == 0);
    CHECK(count(text, "\"combine\"") == 0);
  }
  const std::string text = to_json(sample::sharded_plan());
  CHECK(count(text, R"("shards": {"count":4,"steps":6})") == 1);
  CHECK(count(text, R"("combine":"mean")") == 1);
  CHECK(count(text, R"("combine":"sum")") == 1);
  const Job job = from_json(text, "a.plan").jobs[0];
  CHECK(job.sharding->count == 4);
  CHECK(job.sharding->steps == StepId(size_t{6}));
}

TEST_CASE("a run goes on with the same shards only, whatever is watched on them", "[plan]") {
  const Job job = sample::sharded_plan().jobs[0];
  const std::string named = resume_hash(job);
  Job other = job;
  other.sharding->count = 2;
  CHECK(resume_hash(other) != named);
  other = job;
  other.sharding->steps = StepId(size_t{5});
  CHECK(resume_hash(other) != named);

  // A probe among the steps of shards moves the first step behind them.
  other = job;
  Step probe = job.steps[5];
  probe.name = "dense/weight:probed";
  probe.probe = true;
  Tensor probed = job[probe.outputs[0]];
  probed.name = probe.name;
  probe.outputs = {TensorId(other.tensors.size())};
  other.tensors.push_back(probed);
  other.steps.insert(other.steps.begin() + 5, probe);
  other.sharding->steps = StepId(size_t{7});
  CHECK(resume_hash(other) == named);
}
