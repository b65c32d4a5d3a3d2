// tolerances.yaml: what is read, and what is said of mistakes.
#include "compiler/tolerances/tolerances.h"

#include <catch2/catch.hpp>

#include "runtime/base/error.h"
#include "runtime/base/file.h"
#include "tests/support/fresh_directory.h"

namespace flow::tolerances {
namespace {

struct Written : FreshDirectory {
  explicit Written(const std::string& text) {
    write_text_atomically(*this / "tolerances.yaml", text);
    file = std::make_unique<TolerancesFile>(*this / "tolerances.yaml");
  }
  /// The messages, without the directory.
  std::string messages() const {
    std::string text = file->diags().render(), folder = path().string() + "/";
    for (size_t at = 0; (at = text.find(folder, at)) != text.npos;) text.erase(at, folder.size());
    return text;
  }
  std::unique_ptr<TolerancesFile> file;
};

TEST_CASE("tolerances have globs, numbers, steps and a reason", "[tolerances]") {
  const Written written(R"(arrays:
  'returns/**':
    rtol: 1e-5
    atol: 1/1000
    last_step: 12
    spread: 1e-4
    reason: threads sum in another order
  checkpoint/w:
    steps: {0..10: {atol: 0}, 10..: {rtol: 0.5}, 7: {atol: 1}}
    reason: chaotic
)");
  CHECK(written.messages().empty());
  const auto& entries = written.file->entries();
  REQUIRE(entries.size() == 2);
  CHECK(entries[0].glob.text == "returns/**");
  CHECK(entries[0].relative == 1e-5);
  CHECK(entries[0].absolute == 1e-3);
  CHECK(entries[0].last_step == 12);
  CHECK(entries[0].spread == 1e-4);
  REQUIRE(entries[1].steps.size() == 3);
  CHECK(entries[1].steps[1].range.first == 10);
  CHECK(entries[1].steps[1].range.end == INT64_MAX);
  CHECK(entries[1].steps[1].relative == 0.5);
  CHECK(entries[1].steps[2].range.end == 8);
  CHECK_FALSE(entries[1].last_step);
}

TEST_CASE("mistakes are reported with file, line and remedy", "[tolerances]") {
  const Written written(R"(arrays:
  a: {rtoll: 1e-5, reason: x}
  b: {atol: 1e-5}
  c: {atol: -1, reason: x}
  d: {atol: much, reason: x}
  e: {reason: x}
  f: 1e-5
  g: {atol: 0, reason: [x]}
  h: {steps: {3..1: {atol: 0}, 2..: {}}, reason: x}
tolerance: 3
)");
  const std::string text = written.messages();
  for (const char* expected :
       {"tolerances.yaml:2:7: error: unknown key `rtoll` in a tolerance [E0120]",
        "hint: did you mean `rtol`?", "tolerances.yaml:3:3: error: a tolerance requires `reason`",
        "tolerances.yaml:4:13: error: `atol` is -1; expected at least 0 [E0124]",
        "tolerances.yaml:5:13: error: ",
        "tolerances.yaml:6:3: error: a tolerance requires `rtol`, `atol` or `steps` [E0121]",
        "tolerances.yaml:7:6: error: a tolerance is a number; expected a mapping [E0122]",
        "tolerances.yaml:8:24: error: `reason` is a list",
        "tolerances.yaml:9:15: error: invalid steps `3..1` [E0505]",
        "tolerances.yaml:9:32: error: a tolerance of steps requires `rtol` or `atol` [E0121]",
        "tolerances.yaml:10:1: error: unknown key `tolerance`"}) {
    CAPTURE(expected, text);
    CHECK(text.find(expected) != text.npos);
  }
  CHECK(text.find("tolerances.yaml:2:3") == text.npos);
}

TEST_CASE("globs that match nothing are reported at their line", "[tolerances]") {
  const Written written(
      "arrays:\n  loss/valu: {atol: 0, reason: x}\n  'x/**': {atol: 0, reason: x}\n");
  const std::vector<std::string> names = {"loss/value", "y"};
  written.file->check_globs(names);
  const std::string text = written.messages();
  CHECK(text.find("tolerances.yaml:2:3: error: no array matches `loss/valu` [E0503]") != text.npos);
  CHECK(text.find("hint: did you mean `loss/value`?") != text.npos);
  CHECK(text.find("tolerances.yaml:3:3: error: no array matches `x/**`") != text.npos);
  CHECK(written.file->diags().distinct_errors() == 2);
}

TEST_CASE("steps that no array has are reported at their line", "[tolerances]") {
  const Written written(
      "arrays:\n  'x/*':\n    steps: {3..5: {atol: 1}, 6..: {atol: 0}, 2: {atol: 1}}\n"
      "    reason: x\n  y: {steps: {7: {atol: 0}}, reason: x}\n");
  const std::vector<std::string> names = {"x/a", "x/b", "y"};
  const auto steps_of = [](const std::string& name) -> std::vector<int64_t> {
    return name == "x/a"   ? std::vector<int64_t>{0, 2}
           : name == "x/b" ? std::vector<int64_t>{0, 5}
                           : std::vector<int64_t>();
  };
  written.file->check_steps(names, steps_of);
  const std::string text = written.messages();
  CHECK(text.find("tolerances.yaml:3:13: error: no step in `3..5`: arrays that match `x/*` have 3 "
                  "steps, from 0 to 5 [E0503]") != text.npos);
  CHECK(text.find("tolerances.yaml:3:30: error: no step in `6..`") != text.npos);
  CHECK(written.file->diags().distinct_errors() == 2);
}

TEST_CASE("a hostile file of tolerances is an error", "[tolerances]") {
  for (const std::string& text :
       {std::string(), std::string("- a"), std::string("arrays: {"), std::string("arrays: [1]"),
        std::string("arrays: {a: *x}"), std::string("\xff\xfe"), std::string("arrays: \0", 9),
        std::string(2000, '[')}) {
    const Written written(text);
    CAPTURE(text.substr(0, 20));
    CHECK(written.file->diags().has_errors());
    CHECK(written.file->entries().empty());
  }
  const Written empty("");
  CHECK(empty.messages().find("hint: begin with `arrays:`") != std::string::npos);
  CHECK_THROWS_AS(Written(std::string(5 << 20, 'a')), RequestError);
  const FreshDirectory directory;
  CHECK_THROWS_AS(TolerancesFile(directory.path()), RequestError);
  CHECK_THROWS_AS(TolerancesFile(directory / "missing"), RunError);
}

}  // namespace
}  // namespace flow::tolerances
