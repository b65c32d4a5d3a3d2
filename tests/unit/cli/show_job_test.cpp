// A job as its author wrote it: entries, networks, repeats.
#include "cli/show/show.h"

#include <catch2/catch.hpp>

#include "cli/show/job_tree.h"
#include "tests/unit/plan/sample.h"

namespace flow::cli {
namespace {

using plan::sample::JobBuilder;

/// `copies` dense layers of equal size in a network, and one that is wider.
plan::Job stacked(int copies) {
  JobBuilder made("stack");
  plan::TensorId x = made.input("x", DType::kFloat32, {2, 8});
  const auto dense = [&](const std::string& name, int64_t units) {
    const int64_t in = made.job[x].shape[1];
    const plan::TensorId weight = made.variable(name + "/weight", {units, in});
    made.job[weight].where = "job.yaml:7:9";
    x = made.one("matmul", name + "/matmul", {x, weight},
                 {{"transpose_a", false}, {"transpose_b", true}});
    made.job.steps.back().where = "job.yaml:7:9";
  };
  for (int i = 0; i < copies; ++i) dense("net/layers/" + std::to_string(i), 8);
  dense("net/wide", 16);
  made.job.steps.back().where = made.job[made.job.steps.back().inputs[1]].where = "job.yaml:8:9";
  return made.done();
}

Folded folded(const plan::Job& job, bool all = false) {
  return fold(tree_of(job, entries_of_plan(job)), job, all);
}

TEST_CASE("equal copies share a line, which counts all of them", "[cli]") {
  const Folded net = folded(stacked(3)).inside[1];
  CHECK(net.name == "net");
  REQUIRE(net.inside.size() == 2);
  CHECK(net.inside[0].name == "layers");
  CHECK(net.inside[0].copies == 3);
  CHECK(net.inside[0].parameters == 3 * 64);
  CHECK(net.inside[0].flops == 3 * 2. * 2 * 8 * 8);
  CHECK(net.inside[1].name == "wide");
  CHECK(net.parameters == 3 * 64 + 128);
}

TEST_CASE("all copies have lines where a reader asks for them", "[cli]") {
  const Folded net = folded(stacked(3), true).inside[1];
  REQUIRE(net.inside.size() == 4);
  CHECK(net.inside[1].name == "layers/1");
  CHECK(net.inside[1].parameters == 64);
}

TEST_CASE("lines of entries have at most 100 columns, whatever names are", "[cli]") {
  plan::Job job = stacked(2);
  for (plan::Tensor& tensor : job.tensors) tensor.name = std::string(300, 'n') + "/" + tensor.name;
  for (plan::Step& step : job.steps) step.name = std::string(300, 'n') + "/" + step.name;
  const std::string text = show_job(job, entries_of_plan(job), "job.yaml", false);
  for (size_t at = 0, end; (end = text.find('\n', at)) != text.npos; at = end + 1)
    CHECK(end - at <= 100);
}

TEST_CASE("where columns are few, whole columns of the table go, the entries last", "[cli]") {
  const plan::Job job = stacked(2);
  for (const int columns : {20, 40, 60, 80}) {
    const std::string text = show_job(job, entries_of_plan(job), "job.yaml", false, columns);
    CHECK(text.find("entry") != text.npos);
    CHECK((text.find(" op ") != text.npos) == (columns >= 40));
    const size_t first = text.find("entry"), end = text.find('\n', first);
    CHECK(end - first <= static_cast<size_t>(columns));
  }
}

TEST_CASE("names of a plan that are no names of a file do no harm", "[cli]") {
  for (const std::string name : {"", "/", "//", ":", ":diff", "a//b", "0", "0/1", "\x1b[2J"}) {
    plan::Job job = stacked(1);
    for (plan::Step& step : job.steps) step.name = name;
    for (plan::Tensor& tensor : job.tensors) tensor.name = name;
    CHECK(show_job(job, entries_of_plan(job), "job.yaml", false).find('\x1b') == std::string::npos);
  }
  plan::Job deep = stacked(1);
  for (int i = 0; i < 100'000; ++i) deep.steps[0].name += "/x";
  CHECK_FALSE(show_job(deep, entries_of_plan(deep), "job.yaml", true).empty());
}

TEST_CASE("moving statistics are counted apart from parameters", "[cli]") {
  JobBuilder made("norm");
  std::vector<plan::TensorId> operands = {made.input("x", DType::kFloat32, {2, 3})};
  for (const char* name : {"bn/gamma", "bn/beta", "bn/moving_mean", "bn/moving_variance"})
    operands.push_back(made.variable(name, {3}));
  made.one("batch_norm_predict", "bn/normalize", operands,
           {{"axis", int64_t{1}}, {"epsilon", 1e-3}});
  const plan::Job job = made.done();
  CHECK(totals_of(job).frozen == 6);
  CHECK(totals_of(job).statistics == 6);
  CHECK(folded(job).parameters == 6);
}

TEST_CASE("a job of many entries is shown in linear time", "[cli]") {
  const plan::Job job = stacked(10'000);
  CHECK_FALSE(show_job(job, entries_of_plan(job), "job.yaml", true).empty());
}

}  // namespace
}  // namespace flow::cli
