// Times of steps under the entries of a job file.
#include "cli/show/show.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/text.h"
#include "tests/unit/plan/sample.h"

namespace flow::cli {
namespace {

using plan::sample::JobBuilder;

constexpr const char* kLayer = "job.yaml:7:9";

/// Two copies of a layer, with the gradient of the first one's result and the updates of both.
plan::Job two_layers() {
  JobBuilder made("train");
  const auto product = [&](const std::string& name, plan::TensorId x, plan::TensorId weight) {
    const plan::TensorId y =
        made.one("matmul", name, {x, weight}, {{"transpose_a", false}, {"transpose_b", true}});
    made.job.steps.back().where = kLayer;
    return y;
  };
  const auto variable = [&](const std::string& name) {
    const plan::TensorId weight = made.variable(name, {8, 8});
    made.job[weight].where = kLayer;
    return weight;
  };
  const plan::TensorId x = made.input("x", DType::kFloat32, {2, 8});
  const plan::TensorId first = variable("net/layers/0/weight");
  const plan::TensorId second = variable("net/layers/1/weight");
  const plan::TensorId y = product("net/layers/0/matmul", x, first);
  product("net/layers/1/matmul", y, second);
  product("net/layers/0/matmul:diff", x, second);
  product("net/layers/0/weight:update", x, first);
  product("net/layers/1/weight:update", x, second);
  return made.done();
}

exec::ProfileReport report_of(const std::vector<std::pair<std::string, double>>& microseconds) {
  exec::ProfileReport report;
  report.job = "train";
  report.calls = 10;
  for (const auto& [name, time] : microseconds) {
    exec::ProfileRow row;
    row.name = name;
    row.calls = 10;
    row.median = time * 1e-6;
    report.steps.push_back(row);
  }
  return report;
}

/// The cells of the line that begins with `name`.
std::vector<std::string> cells(const std::string& table, const std::string& name) {
  for (const std::string& line : split(table, '\n')) {
    std::vector<std::string> words;
    for (const std::string& word : split(line, ' '))
      if (!word.empty()) words.push_back(word);
    if (!words.empty() && words[0] == name) return words;
  }
  return {};
}

using Cells = std::vector<std::string>;

TEST_CASE("a gradient counts for the copy that computes it, not for the tensor it is of", "[cli]") {
  const exec::ProfileReport report = report_of({{"net/layers/0/matmul", 10},
                                                {"net/layers/1/matmul", 20},
                                                {"net/layers/0/matmul:diff", 30},
                                                {"net/layers/0/weight:update", 1},
                                                {"net/layers/1/weight:update", 2}});
  const std::string table = entries_table(report, two_layers(), "job.yaml");
  CHECK(cells(table, "net/layers/0") ==
        Cells{"net/layers/0", "dense", "10.0", "1.0", "17.5", "%", "0.0465", "0.0698", "7"});
  CHECK(cells(table, "net/layers/1") == Cells{"net/layers/1", "dense", "20.0", "30.0", "2.0",
                                              "82.5", "%", "0.0148", "0.0222", "7"});
  CHECK(table.find("roof:") == std::string::npos);
}

TEST_CASE("entries are compared with the roof, which is what limits each of their steps", "[cli]") {
  exec::ProfileReport report = report_of({{"net/layers/0/matmul", 10}});
  report.roof = {1e9, 1e9};  // 256 FLOPs, and 384 bytes, which take longer
  const std::string table = entries_table(report, two_layers(), "job.yaml");
  CHECK(table.find("roof: 1 GFLOP/s in a large matrix product, 1 GB/s") != std::string::npos);
  const Cells found = cells(table, "net/layers/0");
  CHECK(std::ranges::count(found, "3.8") == 1);
}

TEST_CASE("updates that a device launches together are a line of their own", "[cli]") {
  const exec::ProfileReport report =
      report_of({{"net/layers/0/matmul", 10}, {"net/layers/0/weight:update", 4}});
  const std::string table = entries_table(report, two_layers(), "job.yaml");
  CHECK(cells(table, "updates,")[3] == "4.0");
}

TEST_CASE("steps without an entry are other work", "[cli]") {
  const std::string table = entries_table(report_of({{"inputs", 5}}), two_layers(), "job.yaml");
  CHECK(cells(table, "other") == Cells{"other", "5.0", "100.0", "%"});
}

}  // namespace
}  // namespace flow::cli
