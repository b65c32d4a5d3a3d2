// Algorithms chosen by time: on the fake device each piece of work takes a millisecond.
#include <catch2/catch.hpp>

#include <algorithm>
#include <map>

#include "runtime/base/error.h"
#include "runtime/cuda/program/backend.h"
#include "runtime/cuda/program/tuning.h"
#include "tests/support/cuda/fake_driver.h"
#include "tests/support/cuda/naive_libraries.h"
#include "tests/support/fresh_directory.h"
#include "tests/support/job_builder.h"
#include "tests/support/run_job.h"

namespace flow::test {
namespace {

using cuda::Choices;
using cuda::ConvolutionSpec;
using cuda::LibraryKernel;
using cuda::MatmulSpec;
using cuda::PlanCache;

/// What a candidate does: as many pieces of work; 0: it refuses; -1: the device fails.
using Script = std::vector<int>;

/// Has a candidate for each entry of a script. Plans are their numbers.
class ScriptedLibraries : public cuda::NaiveLibraries {
 public:
  ScriptedLibraries(FakeDriver& driver, Script script)
      : NaiveLibraries(driver), driver_(driver), script_(std::move(script)) {}

  using NaiveLibraries::find;
  Expected<LibraryKernel> find(const MatmulSpec& spec) override { return kernel(spec, 0); }
  std::vector<LibraryKernel> candidates(const MatmulSpec& spec, size_t most) override {
    ++asked;
    std::vector<LibraryKernel> kernels;
    for (size_t i = 0; i < std::min(most, script_.size()); ++i) kernels.push_back(kernel(spec, i));
    return kernels;
  }
  std::optional<LibraryKernel> restore(const MatmulSpec& spec,
                                       std::span<const uint8_t> plan) override {
    if (plan.size() != 1 || plan[0] >= script_.size()) return {};
    return kernel(spec, plan[0]);
  }
  std::string describe(const MatmulSpec& spec) const override {
    return "product of " + spec.a.str() + (spec.epilogue.bias ? " bias" : "") +
           (spec.epilogue.relu ? " relu" : "");
  }

  int asked = 0;

 private:
  LibraryKernel kernel(const MatmulSpec& spec, size_t i) {
    LibraryKernel made = NaiveLibraries::find(spec).value();
    made.name = "candidate " + std::to_string(i);
    made.plan = {static_cast<uint8_t>(i)};
    made.workspace = 100 * i;
    made.try_run = [run = made.try_run, this, pieces = script_[i]](
                       const cuda::LibraryBuffers& buffers,
                       cuda::Stream stream) -> std::optional<RunError> {
      if (pieces == 0) return RunError("refused");
      if (pieces < 0) throw RunError("the device failed");
      for (int extra = 1; extra < pieces; ++extra)
        driver_.put_work(stream, "slow", {[](const OperationPtr&) {}, {}});
      return run(buffers, stream);
    };
    return made;
  }

  FakeDriver& driver_;
  Script script_;
};

const MatmulSpec kProduct{DType::kFloat32, {4, 3}, {3, 5}, {4, 5}};

/// A run on a device with caches, of its own and of the user.
struct TunedRun {
  FreshDirectory own, user;
  std::vector<std::string> remarks;

  struct Found {
    std::string name;
    int asked;  // how often the library was asked for candidates
  };
  Found find(const Script& script, const std::string& device = "device",
             const MatmulSpec& spec = kProduct) {
    FakeDriver driver;
    Found found;
    {
      ScriptedLibraries libraries(driver, script);
      const Choices choices(PlanCache(own.path()), PlanCache(user.path()), device,
                            [&](const std::string& remark) { remarks.push_back(remark); });
      cuda::TimedLibraries timed(libraries, driver, choices);
      const LibraryKernel kernel = timed.find(spec).value();
      found = {kernel.name, libraries.asked};
    }
    CHECK(driver.problems().empty());
    return found;
  }
  std::string name(const Script& script) { return find(script).name; }
};

fs::path only_file_in(const fs::path& folder) {
  REQUIRE(std::distance(fs::directory_iterator(folder), fs::directory_iterator()) == 1);
  return fs::directory_iterator(folder)->path();
}

}  // namespace

TEST_CASE("the fastest candidate is chosen, the first of equal ones", "[cuda]") {
  CHECK(TunedRun().name({3, 2, 4}) == "candidate 1");
  CHECK(TunedRun().name({2, 2, 2}) == "candidate 0");
  CHECK(TunedRun().name({3, 2, 2}) == "candidate 1");
  CHECK(TunedRun().name({5}) == "candidate 0");
  // Of many, those that the library likes best.
  CHECK(TunedRun().name({9, 9, 9, 9, 9, 9, 9, 8, 1}) == "candidate 7");
}

TEST_CASE("candidates that refuse or fail are skipped", "[cuda]") {
  CHECK(TunedRun().name({0, 3, 2}) == "candidate 2");
  CHECK(TunedRun().name({-1, 3}) == "candidate 1");
  CHECK(TunedRun().name({3, -1, 0}) == "candidate 0");
  TunedRun run;
  CHECK(run.name({0, -1}) == "candidate 0");  // the library's own choice, which is not kept
  CHECK(fs::is_empty(run.user.path()));
  CHECK_FALSE(fs::is_empty(run.own.path()));
}

TEST_CASE("a choice is read back, by this run and by others on the device", "[cuda]") {
  TunedRun run;
  CHECK(run.find({3, 2}).asked == 1);
  const auto again = run.find({1, 2});  // another would be the fastest by now
  CHECK(again.name == "candidate 1");
  CHECK(again.asked == 0);
  fs::remove_all(run.own.path());
  CHECK(run.find({1, 2}).asked == 0);
  CHECK_FALSE(fs::is_empty(run.own.path()));  // the run has a copy, which stays
  fs::remove_all(run.user.path());
  CHECK(run.name({1, 2}) == "candidate 1");
  CHECK(run.find({1, 2}, "another driver").name == "candidate 0");
  MatmulSpec other = kProduct;
  other.a = {8, 3}, other.out = {8, 5};
  CHECK(run.find({1, 2}, "device", other).asked == 1);
  CHECK(run.remarks.empty());
}

TEST_CASE("a damaged choice is reported, and timed again", "[cuda]") {
  TunedRun run;
  run.find({3, 2});
  for (const fs::path& folder : {run.own.path(), run.user.path()}) {
    const fs::path path = only_file_in(folder);
    std::string text = read_text(path);
    text.back() ^= 1;
    write_text_atomically(path, text);
  }
  const std::string damaged = only_file_in(run.own.path()).string();
  CHECK(run.find({1, 2}).name == "candidate 0");
  REQUIRE(run.remarks.size() == 2);
  CHECK(run.remarks[0] == damaged + " is damaged; timing its algorithms again");
  CHECK(run.find({1, 2}).asked == 0);
  // A plan that the library takes no more.
  TunedRun stale;
  stale.find({3, 3, 2});
  CHECK(stale.find({3, 2}).name == "candidate 1");
}

TEST_CASE("products with a mask or sums aside are the library's own choice", "[cuda]") {
  TunedRun run;
  MatmulSpec spec = kProduct;
  spec.epilogue.relu = true;
  spec.aside = cuda::Aside::kStoreMask;
  CHECK(run.find({3, 2}, "device", spec).name == "candidate 0");
  CHECK(fs::is_empty(run.own.path()));
}

TEST_CASE("attention is tried with a bias, and with lengths that are in range", "[cuda]") {
  cuda::AttentionSpec spec{.pass = cuda::AttentionSpec::Pass::kForward,
                           .dtype = DType::kBFloat16,
                           .query = {2, 4, 5, 8},
                           .key = {2, 2, 6, 8},
                           .value = {2, 2, 6, 8},
                           .bias = Shape{1, 4, 5, 6},
                           .lengths = true,
                           .log_sums = true};
  FreshDirectory own, user;
  FakeDriver driver;
  {
    cuda::NaiveLibraries libraries(driver);  // which checks lengths
    const Choices choices(PlanCache(own.path()), PlanCache(user.path()), "device",
                          [](const auto&) {});
    cuda::TimedLibraries timed(libraries, driver, choices);
    CHECK(timed.find(spec));
    CHECK(driver.count("launch naive_attention") > 1);
    spec.pass = cuda::AttentionSpec::Pass::kGrad;
    CHECK(timed.find(spec));
    CHECK(driver.count("launch naive_attention_grad") > 1);
  }
  CHECK(driver.problems().empty());
}

TEST_CASE("the library chooses if a trial does not fit in memory", "[cuda]") {
  FreshDirectory own, user;
  FakeDriver driver(FakeDevice{.memory = 100});
  {
    ScriptedLibraries libraries(driver, {3, 2});
    const Choices choices(PlanCache(own.path()), PlanCache(user.path()), "device", {});
    cuda::TimedLibraries timed(libraries, driver, choices);
    CHECK(timed.find(kProduct).value().name == "candidate 0");
  }
  CHECK(fs::is_empty(user.path()));
  CHECK(driver.problems().empty());
}

namespace {

/// y = relu(x w + b), whose fused kernel takes `fused` pieces of work, the bare one `bare`.
class EpilogueLibraries : public cuda::NaiveLibraries {
 public:
  EpilogueLibraries(FakeDriver& driver, int fused, int bare)
      : NaiveLibraries(driver), driver_(driver), fused_(fused), bare_(bare) {}
  using NaiveLibraries::find;
  Expected<LibraryKernel> find(const MatmulSpec& spec) override {
    LibraryKernel made = NaiveLibraries::find(spec).value();
    const bool any = spec.epilogue.bias || spec.epilogue.relu;
    made.name = any ? "fused" : "bare";
    made.try_run = [run = made.try_run, this, pieces = any ? fused_ : bare_](
                       const cuda::LibraryBuffers& buffers, cuda::Stream stream) {
      for (int extra = 1; extra < pieces; ++extra)
        driver_.put_work(stream, "slow", {[](const OperationPtr&) {}, {}});
      return run(buffers, stream);
    };
    return made;
  }

 private:
  FakeDriver& driver_;
  int fused_, bare_;
};

plan::Job dense() {
  JobBuilder b;
  const auto x = b.input("x", {4, 3}), w = b.variable("w", {3, 5}), bias = b.variable("b", {5});
  b.step("matmul", "y", {x, w}, {{"transpose_a", false}, {"transpose_b", false}}, {4, 5});
  b.fuse("bias_add", {bias}, {{"axis", int64_t{1}}});
  b.fuse("relu", {}, {});
  return b.build();
}

struct DenseRun {
  std::string kernel;
  std::vector<float> y;
};

/// `kept`: null: not tuned.
DenseRun run_dense(int fused, int bare, const fs::path* kept, bool fuse = true) {
  auto driver = std::make_unique<FakeDriver>();
  FakeDriver& fake = *driver;
  auto libraries = std::make_unique<EpilogueLibraries>(fake, fused, bare);
  const auto backend = cuda::make_backend(std::move(driver), std::move(libraries));
  const plan::Job job = dense();
  const exec::Tuning tuning{kept ? *kept : fs::path(), {}};
  exec::PrepareOptions options;
  options.deliverables = {tensor(job, "y")};
  options.always = {1};
  options.fuse = fuse;
  if (kept) options.tuning = &tuning;
  DenseRun made;
  {
    const auto program = backend->prepare(job, options);
    made.kernel = program->memory().library_steps.at(0).kernel;
    const Arrays values = random_values(job);
    for (const char* name : {"w", "b"}) {
      const Array& array = values.at(name);
      program->write_variable(tensor(job, name),
                              {array.dtype(), array.shape(), array.bytes().data()});
    }
    const std::span<std::byte> x = program->input(tensor(job, "x"), 0);
    std::ranges::copy(values.at("x").bytes(), x.begin());
    const uint8_t wanted[] = {1};
    program->launch({0, 0.5, wanted}, 0, 0);
    program->wait(0);
    made.y = floats(program->delivered(tensor(job, "y"), 0));
  }
  CHECK(fake.problems().empty());
  return made;
}

}  // namespace

TEST_CASE("epilogue ops are fused or stand apart, whichever is faster", "[cuda]") {
  setenv("XDG_CACHE_HOME", "", 1);
  const std::string home = std::getenv("HOME") ? std::getenv("HOME") : "";
  setenv("HOME", "", 1);  // nothing is kept but by the run
  FreshDirectory own;
  const fs::path kept = own.path();
  const DenseRun usual = run_dense(9, 1, nullptr);
  CHECK(usual.kernel == "fused");
  const DenseRun apart = run_dense(9, 1, &kept);  // a bias and a relu take two
  CHECK(apart.kernel == "bare");
  CHECK(apart.y == usual.y);
  CHECK(run_dense(1, 9, &kept).kernel == "bare");  // read back
  FreshDirectory other;
  const fs::path fresh = other.path();
  CHECK(run_dense(3, 1, &fresh).kernel == "fused");  // the first of equal ones
  setenv("HOME", home.c_str(), 1);
  unsetenv("XDG_CACHE_HOME");
}

TEST_CASE("without fusion each op is a kernel of its own", "[cuda]") {
  const DenseRun usual = run_dense(1, 1, nullptr), apart = run_dense(1, 1, nullptr, false);
  CHECK(apart.kernel == "bare");
  CHECK(apart.y == usual.y);
}

}  // namespace flow::test
