// --set on the tree.
#include "compiler/job/text/merge.h"

#include <catch2/catch.hpp>

#include "tests/unit/job/reading.h"

namespace flow::job {
namespace {

constexpr const char* kFile =
    "vars: {lr: 0.1}\n"
    "jobs:\n"
    "  train:\n"
    "    graph: {y: {op: relu, in: x}}\n"
    "    hooks: [{watch: y, every: 2}]\n";

TEST_CASE("an override replaces a value and knows where it came from", "[job]") {
  Reading reading(kFile);
  apply_overrides(reading.reader, reading.tree, {"vars.lr=0.02", "jobs.train.hooks.0.every=5"});
  CHECK(reading.at("vars.lr") == "0.02");
  CHECK(reading.at("jobs.train.hooks.0.every") == "5");
  CHECK(reading.sources.where(reading.tree.find("vars")->find("lr")->span) ==
        "--set vars.lr=0.02:1:9");
  CHECK(reading.diags.empty());
}

TEST_CASE("an override may bring a mapping, and make the mappings above it", "[job]") {
  Reading reading(kFile);
  apply_overrides(reading.reader, reading.tree,
                  {"jobs.train.run.checkpoint={every: {steps: 2}, keep: 2}"});
  CHECK(reading.at("jobs.train.run.checkpoint.every.steps") == "2");
}

TEST_CASE("plus adds an entry or appends to a list", "[job]") {
  Reading reading(kFile);
  apply_overrides(reading.reader, reading.tree,
                  {"+jobs.train.graph.z={op: relu, in: y}", "+jobs.train.hooks={watch: z}"});
  CHECK(reading.at("jobs.train.graph.z.in") == "y");
  CHECK(reading.at("jobs.train.hooks.1.watch") == "z");
}

TEST_CASE("plus begins a list of hooks", "[job]") {
  Reading reading("jobs: {train: {type: train}}\n");
  apply_overrides(reading.reader, reading.tree, {"+jobs.train.hooks={watch: z}"});
  CHECK(reading.at("jobs.train.hooks.0.watch") == "z");
}

TEST_CASE("plus refuses what is there already", "[job]") {
  Reading reading(kFile);
  apply_overrides(reading.reader, reading.tree, {"+vars.lr=1"});
  CHECK(reading.says("`vars.lr` already exists"));
}

TEST_CASE("tilde deletes", "[job]") {
  Reading reading(kFile);
  apply_overrides(reading.reader, reading.tree, {"~jobs.train.hooks", "~vars.lr"});
  CHECK(reading.at("jobs.train.hooks") == "(absent)");
  CHECK(reading.at("vars.lr") == "(absent)");
}

TEST_CASE("tilde deletes the item of a list that it counts to, and no other", "[job]") {
  const auto left = [](const std::string& item) {
    Reading reading("jobs: {t: {hooks: [{watch: a}, {watch: b}, {watch: c}]}}\n");
    apply_overrides(reading.reader, reading.tree, {"~jobs.t.hooks." + item});
    CHECK(reading.diags.empty());
    std::string names;
    for (const yaml::Node& hook : reading.tree.find("jobs")->find("t")->find("hooks")->items)
      names += hook.find("watch")->scalar;
    return names;
  };
  CHECK(left("0") == "bc");
  CHECK(left("1") == "ac");
  CHECK(left("2") == "ab");
}

TEST_CASE("a plain override does not make names of the user's", "[job]") {
  for (const char* set : {"vars.rl=1", "jobs.tarin.type=train", "jobs.train.graph.w={op: relu}"}) {
    Reading reading(kFile);
    apply_overrides(reading.reader, reading.tree, {set});
    CHECK(reading.says("E0210"));
  }
  Reading reading(kFile);
  apply_overrides(reading.reader, reading.tree, {"jobs.trian.type=train"});
  CHECK(reading.says("did you mean `train`?"));
}

TEST_CASE("an override that cannot be read is an error in it", "[job]") {
  for (const char* set : {"vars.lr", "=1", "+=1", "~", "a=1", "x", "", "vars..lr=1", "vars.lr=",
                          "vars.lr.x=1", "jobs.train.hooks.7=1", "seed={", "seed=\t1"}) {
    Reading reading(kFile);
    apply_overrides(reading.reader, reading.tree, {set});
    INFO(set);
    CHECK(reading.diags.error_count() >= 1);
    CHECK(reading.says("--set"));
  }
}

TEST_CASE("an override says what is missing from it", "[job]") {
  const auto message = [](const char* set) {
    Reading reading(kFile);
    apply_overrides(reading.reader, reading.tree, {set});
    return reading.diags.sorted().front()->message;
  };
  CHECK(message("=1") == "missing path");
  CHECK(message("+=1") == "missing path");
  CHECK(message("vars.lr") == "missing `=`");
}

}  // namespace
}  // namespace flow::job
