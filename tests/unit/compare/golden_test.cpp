// golden.json, what differs from it, and faults that tolerances let through.
#include <catch2/catch.hpp>

#include "runtime/base/error.h"
#include "runtime/compare/golden.h"
#include "runtime/compare/tolerance.h"
#include "runtime/io/npy.h"
#include "tests/support/fresh_directory.h"

namespace flow::compare {
namespace {

struct GoldenFolders : FreshDirectory {
  void put(const std::string& path, const std::vector<float>& values) const {
    Array array(DType::kFloat32, {static_cast<int64_t>(values.size())});
    std::copy(values.begin(), values.end(), array.as<float>().begin());
    fs::create_directories((*this / path).parent_path());
    io::write_npy(*this / path, array.view());
  }
  UpdateReport update(bool prune = false) const {
    return update_golden({.golden = *this / "golden",
                          .out = *this / "out",
                          .reason = "because",
                          .version = "1",
                          .prune = prune});
  }
};

using Names = std::vector<std::string>;

TEST_CASE("the record of golden arrays reads back", "[compare]") {
  GoldenRecord record{.date = "2026-11-26T04:03:34Z",
                      .reason = "schedule fixed",
                      .flow = "0.2.0",
                      .arrays = {{"a/b", "00"}}};
  CHECK(golden_from_json(to_json(record), "golden.json").arrays == record.arrays);
  CHECK_FALSE(golden_from_json(to_json(record), "golden.json").run);
  record.run = GoldenRecord::Run{.command = "flowrun train x.yaml",
                                 .overrides = {"--set vars.lr=0.2"},
                                 .plan_hash = "12",
                                 .device = "cpu",
                                 .instruction_set = "avx2",
                                 .version = "0.2.0",
                                 .libraries = {{"onednn", "2.6"}}};
  const auto read = golden_from_json(to_json(record), "golden.json");
  REQUIRE(read.run);
  CHECK(read.run->overrides == record.run->overrides);
  CHECK(read.run->libraries == record.run->libraries);
  CHECK(read.reason == "schedule fixed");
}

TEST_CASE("a record that is damaged is a wrong request with its place", "[compare]") {
  GoldenRecord record;
  record.arrays = {{"a", "00"}};
  const std::string good = to_json(record);
  for (const std::string& text :
       {good.substr(0, good.size() / 2), std::string(), std::string("[]"), std::string("{}"),
        std::string("{\"arrays\": 3}"), good.substr(0, 2) + "\"more\": 1," + good.substr(2)}) {
    CAPTURE(text);
    CHECK_THROWS_AS(golden_from_json(text, "golden.json"), RequestError);
  }
  CHECK_THROWS_WITH(golden_from_json("{\"arrays\": {\"x\": 3}}", "golden.json"),
                    Catch::StartsWith("golden.json: ") && Catch::Contains("arrays"));
}

TEST_CASE("an update adds, changes, keeps and prunes", "[compare]") {
  const GoldenFolders folders;
  folders.put("out/same.npy", {1, 2});
  folders.put("out/changed.npy", {1, 2});
  folders.put("golden/same.npy", {1, 2});
  folders.put("golden/changed.npy", {1, 3});
  folders.put("golden/old.npy", {1});
  folders.put("out/deep/new.npy", {4});
  write_text_atomically(folders / "golden/notes.txt", "kept");
  fs::create_symlink("notes.txt", folders / "golden/link");
  const UpdateReport report = folders.update();
  CHECK(report.added == Names{"deep/new"});
  CHECK(report.changed == Names{"changed"});
  CHECK(report.kept == Names{"old"});
  CHECK(report.removed.empty());
  CHECK(report.unchanged == 1);
  CHECK(read_text(folders / "golden/notes.txt") == "kept");
  CHECK(fs::read_symlink(folders / "golden/link") == "notes.txt");
  CHECK(io::read_npy(folders / "golden/changed.npy").as<float>()[1] == 2);
  CHECK(fs::exists(folders / "golden/old.npy"));
  CHECK(folders.update(true).removed == Names{"old"});
  CHECK_FALSE(fs::exists(folders / "golden/old.npy"));
  CHECK(std::distance(fs::directory_iterator(folders.path()), fs::directory_iterator()) == 2);
}

TEST_CASE("arrays that were changed by hand are found", "[compare]") {
  const GoldenFolders folders;
  for (const char* name : {"a", "b", "c"}) folders.put(std::string("out/") + name + ".npy", {1, 2});
  folders.update();
  const auto changes = [&] {
    return find_hand_changes(list_side(folders / "golden"),
                             read_golden_record(folders / "golden").value());
  };
  CHECK(changes().changed.empty());
  CHECK(changes().added.empty());
  folders.put("golden/b.npy", {1, 3});
  folders.put("golden/d.npy", {1, 3});
  fs::remove(folders / "golden/c.npy");
  CHECK(changes().changed == Names{"b"});
  CHECK(changes().added == Names{"d"});
  CHECK(changes().removed == Names{"c"});
}

TEST_CASE("wide tolerances let faults through, exact ones none", "[compare]") {
  const GoldenFolders folders;
  std::vector<float> values(100);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i * i % 37);
  folders.put("golden/x.npy", values);
  folders.put("golden/constant.npy", {1, 1});
  folders.put("golden/single.npy", {1});
  ToleranceRules rules;
  rules.relative = rules.absolute = 0;
  const Side golden = list_side(folders / "golden");
  const SelfTest exact = test_tolerances(golden, rules, {});
  CHECK(exact.injected >= 15);
  CHECK(exact.found == exact.injected);
  CHECK(exact.skipped ==
        Names{"constant: it is constant", "single: it has fewer than two elements"});
  rules.absolute = 1;  // the standard deviation is about 11
  const SelfTest wide = test_tolerances(golden, rules, {"constant"});
  CHECK(wide.found < wide.injected);
  REQUIRE_FALSE(wide.missed.empty());
  CHECK(wide.missed[0].array == "x");
  CHECK(wide.missed[0].fault == "constant offset");
  CHECK(wide.missed[0].sizes ==
        Names{"1 % of the standard deviation", "0.1 % of the standard deviation"});
}

}  // namespace
}  // namespace flow::compare
