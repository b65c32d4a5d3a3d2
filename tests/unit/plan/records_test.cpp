// The JSON files of a run directory.
#include "runtime/plan/json/records.h"

#include <catch2/catch.hpp>
#include <limits>
#include <tuple>

#include "runtime/base/error.h"
#include "runtime/plan/json/json.h"

using namespace flow;
using namespace flow::plan;

namespace {

CheckpointRecord checkpoint() {
  CheckpointRecord record;
  record.job = "train";
  record.step = 600;
  record.epoch = 1;
  record.row = 40;
  record.seed = UINT64_MAX;
  record.plan_hash = "0123456789abcdef";
  record.resume_hash = "fedcba9876543210";
  record.sums = {{{"returns/loss", {1, 0, UINT64_MAX}}}};
  record.decisions = {{{"early_stopping", {"eval.loss", Mode::kMin, 0.1, 400, 3, 0, {}}},
                       {"learning_rate", {"loss", Mode::kMax, {}, 0, 7, 2, 0.05}}}};
  record.metrics_rows = 612;
  record.checksums = {{"lenet/conv1/weight.npy", "00000000000000ff"}};
  return record;
}

std::string checkpoint_refusal(const std::string& text) {
  try {
    checkpoint_from_json(text, "c/checkpoint.json");
    return {};
  } catch (const RequestError& error) {
    return error.what();
  }
}

std::string edited_checkpoint(const std::string& from, const std::string& to) {
  std::string text = to_json(checkpoint());
  const size_t at = text.find(from);
  REQUIRE(at != text.npos);
  return text.replace(at, from.size(), to);
}

}  // namespace

TEST_CASE("a line of metrics is one object without spaces, and a loss that is no number is null",
          "[plan]") {
  CHECK(to_json_line({0, 0, 7.31, 0.1, 0.02}) ==
        R"({"step":0,"epoch":0,"loss":7.31,"learning_rate":0.1,"seconds":0.02})");
  CHECK(to_json_line({3, 1, std::numeric_limits<double>::quiet_NaN(), 1, 2}) ==
        R"({"step":3,"epoch":1,"loss":null,"learning_rate":1.0,"seconds":2.0})");
}

TEST_CASE("a line of metrics about a called job has its name and its own step", "[plan]") {
  CHECK(to_json_line(CalledMetrics{{4, 1, "tune", 2}, 7.31, 0.1}) ==
        R"({"step":4,"epoch":1,"job":"tune","job_step":2,"loss":7.31,"learning_rate":0.1})");
  CHECK(to_json_line(ReducedMetrics{{4, 1, "eval", 2}, "right", "a \"label\"", "0.97"}) ==
        R"({"step":4,"epoch":1,"job":"eval","job_step":2,"name":"right",)"
        R"("label":"a \"label\"","value":0.97})");
  CHECK(to_json_line(ReducedMetrics{{3, 0, "train"}, "loss", "loss", "null"}) ==
        R"({"step":3,"epoch":0,"job":"train","name":"loss","label":"loss","value":null})");
  const MetricsPlace called = metrics_place("eval", 2, 0, CallPlace{4, 1});
  CHECK(std::tuple(called.step, called.epoch, called.job_step) == std::tuple(4, 1, 2));
  const MetricsPlace own = metrics_place("eval", 2, 7, {});
  CHECK(std::tuple(own.step, own.epoch, own.job_step.has_value()) == std::tuple(2, 7, false));
}

TEST_CASE("a checkpoint's record comes back as it was", "[plan]") {
  const CheckpointRecord back = checkpoint_from_json(to_json(checkpoint()), "c/checkpoint.json");
  CHECK(to_json(back) == to_json(checkpoint()));
  CHECK(back.seed == UINT64_MAX);
  CHECK(back.checksums == checkpoint().checksums);
  CHECK(back.sums == checkpoint().sums);
  CHECK(back.metrics_rows == 612);
}

TEST_CASE("a checkpoint's record that is damaged is refused, and the file named", "[plan]") {
  CHECK(checkpoint_refusal("{") == "c/checkpoint.json:1:2: invalid JSON: unexpected end of file");
  CHECK(checkpoint_refusal("{}") == "c/checkpoint.json: missing key `also`");
  CHECK(checkpoint_refusal(edited_checkpoint("600", "\"600\"")) ==
        "c/checkpoint.json: step: found `\"600\"`; expected an integer");
  for (const char* step : {"-1", "9223372036854775807"})
    CHECK_THAT(checkpoint_refusal(edited_checkpoint("600", step)),
               Catch::Matchers::Contains("expected 0 to 9007199254740992"));
  CHECK_THAT(checkpoint_refusal(edited_checkpoint("612", "-1")),
             Catch::Matchers::Contains("metrics_rows is -1; expected 0"));
  CHECK_THAT(checkpoint_refusal(edited_checkpoint("\"bad\":3", "\"bad\":-1")),
             Catch::Matchers::Contains("count of `early_stopping` is -1; expected 0"));
  CHECK_THAT(checkpoint_refusal(edited_checkpoint("0.05", "-0.05")),
             Catch::Matchers::Contains("a number of `learning_rate` is out of range"));
  CHECK_THAT(checkpoint_refusal(edited_checkpoint("lenet/conv1", "../../etc")),
             Catch::Matchers::Contains("invalid checkpoint file name"));
  CHECK_THAT(checkpoint_refusal(edited_checkpoint("lenet/conv1", "/etc")),
             Catch::Matchers::Contains("invalid checkpoint file name"));
  CHECK_THAT(checkpoint_refusal(edited_checkpoint("\"version\": 1", "\"version\": 2")),
             Catch::Matchers::Contains("unsupported checkpoint version 2; expected 1"));
}

TEST_CASE("one changed digit of a checkpoint's record is noticed; the older form has no checksum",
          "[plan]") {
  const std::string said = "c/checkpoint.json: the checksum does not match";
  CHECK(checkpoint_refusal(edited_checkpoint("600", "601")) == said);
  CHECK(checkpoint_refusal(edited_checkpoint("[1,0,", "[1,2,")) == said);  // a sum of a print sink
  const std::string text = to_json(checkpoint());
  const size_t line = text.find("  \"checksum\"");
  CHECK(
      checkpoint_refusal(std::string(text).erase(line, text.find('\n', line) + 1 - line)).empty());
}

TEST_CASE("the record of a checkpoint's files comes back as it was, or is refused", "[plan]") {
  FilesRecord record;
  record.data = {{"d.x", {1000, 77, 1'700'000'000'123'456'789, 1'700'000'000'123'456'790}}};
  const std::string text = to_json(record);
  CHECK(files_from_json(text, "c/files.json").data == record.data);
  CHECK_FALSE(files_from_json(text, "c/files.json").files);  // as in the older form
  record.files = {{"d.y", {{"a.csv", 3, "0123"}, {"b.csv", 4, ""}}}};
  CHECK(files_from_json(to_json(record), "c/files.json").files == record.files);
  std::string changed = text;
  changed.replace(changed.find("77"), 2, "78");
  CHECK_THROWS_AS(files_from_json(changed, "c/files.json"), RequestError);
}

TEST_CASE("the record of a run describes datasets and the files of inputs", "[plan]") {
  RunRecord record;
  record.data["houses"] = {900, 2, 1, 35'149, "ab", {{"area", "ab"}}};
  record.data["x"].files = 1;
  const Json data = Json::parse(to_json(record)).at("data");
  CHECK(data.at("houses") == Json{{"rows", 900},
                                  {"bad_rows", 2},
                                  {"files", 1},
                                  {"bytes", 35'149},
                                  {"digest", "ab"},
                                  {"columns", {{"area", "ab"}}}});
  CHECK(data.at("x") == Json{{"files", 1}, {"bytes", 0}, {"digest", ""}});
}

TEST_CASE("the record of a run is JSON whatever bytes the command line held", "[plan]") {
  RunRecord record;
  record.job = "train";
  record.overrides = {"--set vars.path=caf\xe9"};
  record.exit_status = 3;
  record.error = "line\nbreak";
  record.libraries = {{"onednn", "2.6.3"}};
  const Json json = Json::parse(to_json(record));
  CHECK(json.at("exit_status") == 3);
  CHECK(json.at("error") == "line\nbreak");
  CHECK(json.at("libraries").at("onednn") == "2.6.3");
  CHECK(json.at("overrides").size() == 1);
}
