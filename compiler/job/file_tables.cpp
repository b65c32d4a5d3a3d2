// The file, its data, networks and jobs, and what a job reads.
#include "compiler/job/key_makers.h"
#include "compiler/job/optimizer_table.h"
#include "compiler/job/tables.h"
#include "runtime/plan/precision.h"

namespace flow::job {
namespace {

/// What a column may read.
KeyDef file(std::string_view name, std::string_view doc, std::vector<std::string_view> unless,
            std::string_view with) {
  KeyDef def = text(name, "none", doc);
  def.unless = std::move(unless);
  def.with = with;
  return def;
}

/// A mapping of names that the user chose.
Section names(std::string what, KeyDef each, bool notes = true) {
  return {.what = std::move(what), .keys = {}, .each = std::move(each), .notes = notes};
}

const Section& variables_section() {
  static const Section kSection =
      names("`vars`", {"", KeyType::kFree, "none", "a number, text, list or mapping"});
  return kSection;
}

const Section& data_section() {
  static const Section kDataset =
      names("a dataset",
            section("", "none", "a column: one row for each step's batch", column_section()));
  static const Section kSection =
      names("`data`", section("", "none", "a dataset: columns of equal length", kDataset));
  return kSection;
}

const Section& networks_section() {
  static const Section kSection =
      names("`networks`", section("", "none", "an op of your own", network_section()));
  return kSection;
}

const Section& jobs_section() {
  static const Section kSection =
      names("`jobs`", section("", "none", "what `flowrun NAME FILE` runs", job_section()));
  return kSection;
}

const Section& graph_section() {
  static const Section kSection = names("`graph`",
                                        {"", KeyType::kEntry, "none",
                                         "a call of an op or a network; its key names "
                                         "the result"},
                                        false);
  return kSection;
}

const Section& params_section() {
  static const Section kSection =
      names("`params` of a network", {"", KeyType::kFree, "none", "its default, or `required`"});
  return kSection;
}

const Section& inputs_section() {
  static const Section kSection =
      names("`inputs`", section("", "none", "an input", input_section()));
  return kSection;
}

}  // namespace

const Section& file_section() {
  static const Section kSection{
      "the file",
      {{"flow", KeyType::kVersion, "", "the version of the language that the file is written in"},
       {"seed", KeyType::kInteger, "0", "nothing in a run is random beyond it", Bounds{.min = 0}},
       {"include", KeyType::kTexts, "none", "files upon which this one is merged"},
       section("vars", "none", "values to use as $name, or $(name) inside text",
               variables_section()),
       section("data", "none", "datasets", data_section()),
       section("networks", "none", "ops of your own, made of others", networks_section()),
       section("jobs", "", "what there is to run", jobs_section())}};
  return kSection;
}

const Section& column_section() {
  static const Section kSection{
      .what = "a column",
      .keys = {text("idx", "none", "an IDX file, plain or .gz"),
               file("npy", "a NumPy array, mapped into memory", {"idx"}, {}),
               file("npz", "an archive of NumPy arrays", {"idx", "npy"}, "array"),
               file("array", "the name of the array in the archive", {}, "npz"),
               {"shape", KeyType::kShape, "none",
                "of a row; default: what the input that reads it needs"},
               {"scale", KeyType::kNumber, "1", "a value is (x * scale - mean) / std"},
               {"mean", KeyType::kNumbers, "none",
                "subtracted: a number, or one for each leading channel"},
               {"std", KeyType::kNumbers, "none",
                "divided by: a number, or one for each leading channel", Bounds{.above = 0}},
               {.name = "rows",
                .type = KeyType::kRanges,
                .fallback = "none",
                .doc =
                    "a part of them, or several in turn: 0..50000 leaves out row 50000, 50000.. is "
                    "the rest",
                .pattern = R"(^\d+\.\.\d*$)"}},
      .one_of = {"idx", "npy", "npz"}};
  return kSection;
}

const Section& network_section() {
  static const Section kSection{
      "a network",
      {{"inputs", KeyType::kTexts, "", "the names of what it reads, in order"},
       section("params", "none", "what a call may or must say, with defaults", params_section()),
       section("graph", "", "entries; each reads the one above unless it says `in:`",
               graph_section()),
       text("output", "none", "the entry that it stands for; default: the last")}};
  return kSection;
}

const Section& job_section() {
  static const Section kSection{
      "a job",
      {word("type", "", "what it does", {"train", "predict"}),
       text("extends", "none",
            "a job whose `inputs`, `graph`, `placement`, `precision` and `determinism` this one "
            "takes over; its own are merged over them, and entries that it adds say `in:`"),
       section("placement", "none", "where it runs", placement_section()),
       word("precision", "float32",
            "what floats are computed in; tf32: float32 with products of fewer bits on GPUs; "
            "mixed: float32 with products that read 16 bits",
            {plan::kPrecisions.begin(), plan::kPrecisions.end()}),
       word("determinism", "on",
            "on: the same bits in every run on the same device; off: a GPU's convolutions may "
            "add in any order",
            {"on", "off"}),
       section("inputs", "none", "what it reads, with shapes", inputs_section()),
       section("graph", "", "entries; each reads the one above unless it says `in:`",
               graph_section()),
       {.name = "optimizer",
        .type = KeyType::kVariety,
        .fallback = "",
        .doc = "how variables are trained",
        .varieties = &optimizers(),
        .train_only = true},
       section("returns", "none", "what each step delivers", returns_section()),
       {"hooks", KeyType::kHooks, "none", "what is watched, and where it goes"},
       section("run", "none", "how long it runs, and what it keeps", run_section())}};
  return kSection;
}

const std::vector<KeyDef>& call_keys() {
  // More copies than any network needs, and few enough to read one by one.
  static const std::vector<KeyDef> kAll = {
      {"repeat", KeyType::kInteger, "none", "copies, each of which reads the one before",
       Bounds{.min = 1, .max = 10'000}},
      section("placement", "none", "where it runs; default: where its network or job does",
              entry_placement_section())};
  return kAll;
}

std::vector<KeyDef> training_keys(const OpDef* op) {
  std::vector<KeyDef> keys;
  if (!op || op->takes_variables) {
    keys.push_back({.name = "trainable",
                    .type = KeyType::kBool,
                    .fallback = "true",
                    .doc = "whether the optimizer moves its variables",
                    .unless = {"variables"}});
    keys.push_back({"variables", KeyType::kText, "none", "the entry whose variables it uses"});
  }
  if (!op || op->trains_otherwise)
    keys.push_back({"training", KeyType::kBool, "true",
                    "false: a train job's dropout and batch normalization do as in a predict job"});
  return keys;
}

const Section& input_section() {
  static const Section kSection{
      "an input",
      {{"shape", KeyType::kShape, "", "the leading dimension is the batch"},
       {"dtype", KeyType::kDType, "", "of its elements"},
       {.name = "from",
        .type = KeyType::kSource,
        .fallback = "none",
        .doc = "dataset.column, {npy: PATH} or a generator; default: --input NAME=...",
        .section = &npy_section(),
        .varieties = &generators(),
        .pattern = R"(^\w+\.\w+$)"},
       {"rows", KeyType::kBool, "true", "the leading axis carries rows"}}};
  return kSection;
}

const Section& npy_section() {
  static const Section kSection{
      "a source",
      {text("npy", "",
            "an array: whole in each step, or a slice a step where it has one more axis")}};
  return kSection;
}

const VarietyKind& generators() {
  static const VarietyKind kKind{
      "from",
      "generator",
      {{"random_uniform",
        "Numbers between low and high.",
        "",
        {{"low", kNumber, "-1", "the least"}, {"high", kNumber, "1", "not reached"}}},
       {"random_normal",
        "Normally distributed numbers.",
        "",
        {{"mean", kNumber, "0", "the mean"},
         {"stddev", kNumber, "1", "the standard deviation", kNotNegative}}},
       {"random_int",
        "Integers from low up to, and without, high.",
        "",
        {{"low", kNumber, "0", "the least"}, {"high", kNumber, "", "one more than the largest"}}},
       {"constant", "One value everywhere.", "", {{"value", kNumber, "", "of every element"}}},
       {"iota", "0, 1, 2, ... in the order of elements.", "", {}}},
      {}};
  return kKind;
}

}  // namespace flow::job
