// The file, its data, networks and jobs, and what a job reads. The keys of an entry as text.
#include <fmt/format.h>

#include <utility>
#include <vector>

#include "compiler/ir/describe_ops.h"
#include "compiler/job/tables/key_makers.h"
#include "compiler/job/tables/optimizer_table.h"
#include "compiler/job/tables/tables.h"
#include "runtime/plan/model/generators.h"
#include "runtime/plan/model/precision.h"

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
      names("`vars`",
            {"", KeyType::kFree, "none", "value of the variable: a number, text, list or mapping"});
  return kSection;
}

const Section& checks_section() {
  static const Section kSection =
      names("`checks`", section("", "none", "condition that flowc checks", check_section()));
  return kSection;
}

const Section& data_section() {
  static const Section kDataset =
      names("a dataset",
            section("", "none", "column: one array with a row per example", column_section()));
  static const Section kSection =
      names("`data`", section("", "none", "dataset: columns of equal length", kDataset));
  return kSection;
}

const Section& networks_section() {
  static const Section kSection =
      names("`networks`",
            section("", "none", "network: a subgraph to call like an op", network_section()));
  return kSection;
}

const Section& jobs_section() {
  static const Section kSection =
      names("`jobs`", section("", "none", "job: what `flowrun NAME FILE` runs", job_section()));
  return kSection;
}

const Section& graph_section() {
  static const Section kSection = names(
      "`graph`",
      {"", KeyType::kEntry, "none", "call of an op or a network; the key names the result"}, false);
  return kSection;
}

const Section& params_section() {
  static const Section kSection =
      names("`params` of a network",
            {"", KeyType::kFree, "none", "default of the parameter, or `required`"});
  return kSection;
}

const Section& inputs_section() {
  static const Section kSection =
      names("`inputs`", section("", "none", "input tensor of the job", input_section()));
  return kSection;
}

}  // namespace

const Section& metrics_section() {
  static const Section kSection =
      names("`metrics` of a job", variant("", "none", "metric of the job", metrics()));
  return kSection;
}

const Section& file_section() {
  static const Section kSection{
      "the file",
      {{"flow", KeyType::kVersion, "", "version of the job language; always 1"},
       {"seed", KeyType::kInteger, "0", "random seed for all random numbers of a run",
        Bounds{.min = 0}},
       {"include", KeyType::kTexts, "none",
        "list of files to merge this file over; paths are relative to this file"},
       section("vars", "none", "variables to use as $name, or as $(name) inside text",
               variables_section()),
       section("checks", "none", "conditions that variables must meet, by name", checks_section()),
       section("data", "none", "datasets by name", data_section()),
       section("networks", "none", "networks by name: subgraphs to call like ops",
               networks_section()),
       section("jobs", "", "jobs by name; `flowrun NAME FILE` runs one", jobs_section())}};
  return kSection;
}

const Section& check_section() {
  static const Section kSection{
      "a check",
      {{"that", KeyType::kBool, "", "condition on variables, such as $(width % heads == 0)"},
       text("message", "", "error message if the condition is false")}};
  return kSection;
}

const Section& column_section() {
  static const Section kSection{
      .what = "a column",
      .keys =
          {text("idx", "none", "path of an IDX file, plain or .gz"),
           file("npy", "path of a NumPy .npy file; flow maps it into memory", {"idx"}, {}),
           file("npz", "path of a NumPy .npz archive", {"idx", "npy"}, "array"),
           file("array", "name of the array in the .npz archive", {}, "npz"),
           {"shape", KeyType::kShape, "none",
            "shape of one row, without the batch axis; default: the shape that the input needs"},
           {"scale", KeyType::kNumber, "1", "factor on each element: (x * scale - mean) / std"},
           {"mean", KeyType::kNumbers, "none",
            "number to subtract after scaling, or one per leading channel"},
           {"std", KeyType::kNumbers, "none",
            "number to divide by after subtracting the mean, or one per leading channel",
            Bounds{.above = 0}},
           {.name = "rows",
            .type = KeyType::kRanges,
            .fallback = "none",
            .doc = "range of rows to use, or list of ranges: 0..50000 excludes row 50000, 50000.. "
                   "runs to the end",
            .pattern = R"(^\d+\.\.\d*$)"}},
      .one_of = {"idx", "npy", "npz"}};
  return kSection;
}

const Section& network_section() {
  static const Section kSection{
      "a network",
      {{"inputs", KeyType::kTexts, "", "names of the inputs, in order"},
       section("params", "none", "parameters of a call by name, each with a default or `required`",
               params_section()),
       section("graph", "",
               "entries by name; each reads the entry above unless `in:` names its operands",
               graph_section()),
       text("output", "none", "entry to return; default: the last entry")}};
  return kSection;
}

const Section& job_section() {
  static const Section kSection{
      "a job",
      {word("type", "", "kind of job; train updates variables, predict runs in inference mode",
            {"train", "predict"}),
       text("extends", "none",
            "job to inherit `inputs`, `graph`, `placement`, `shards`, `precision` and "
            "`determinism` from; own keys merge over them, and added entries need `in:`"),
       section("placement", "none", "devices to run on", placement_section()),
       {"shards", KeyType::kInteger, "none",
        "number of equal parts of each batch, computed one after another; a power of two that "
        "divides the batch; default: devices in `ids`",
        Bounds{.min = 1, .max = plan::kMaxShards}},
       word("precision", "float32",
            "float precision. tf32: float32 with TF32 matrix products on GPUs; mixed_bfloat16, "
            "mixed_float16: float32 with 16-bit operands in matrix products",
            {plan::kPrecisions.begin(), plan::kPrecisions.end()}),
       word("determinism", "on",
            "on: bit-identical results in every run on the same device; off: GPU convolutions can "
            "add in any order",
            {"on", "off"}),
       section("inputs", "none", "input tensors by name", inputs_section()),
       section("graph", "",
               "entries by name; each reads the entry above unless `in:` names its operands",
               graph_section()),
       {.name = "optimizer",
        .type = KeyType::kVariant,
        .fallback = "",
        .doc = "optimizer that trains the variables",
        .variants = &optimizers(),
        .train_only = true},
       section("returns", "none", "values to return in each step", returns_section()),
       {"hooks", KeyType::kHooks, "none",
        "list of hooks: tensors to watch, and the sinks that receive them"},
       section("metrics", "none",
               "metrics by name, of all rows of an epoch or run, to print and to follow",
               metrics_section()),
       section("run", "none", "length of the run, logging and checkpoints", run_section())}};
  return kSection;
}

const std::vector<KeyDef>& call_keys() {
  // More copies than any network needs, and few enough to read one by one.
  static const std::vector<KeyDef> kAll = {
      {"repeat", KeyType::kInteger, "none", "number of chained copies; each reads the one before",
       Bounds{.min = 1, .max = 10'000}},
      section("placement", "none", "device to run on; default: the device of its network or job",
              entry_placement_section()),
      {"per_shard", KeyType::kBool, "false",
       "in a job with shards, compute what needs rows of the whole batch from those of each "
       "shard"}};
  return kAll;
}

const std::vector<std::string_view>& variable_dtypes() {
  static const std::vector<std::string_view> kAll = {"job", name_of(DType::kBFloat16),
                                                     name_of(DType::kFloat16)};
  return kAll;
}

std::vector<KeyDef> training_keys(const ops::OpSpec* op) {
  std::vector<KeyDef> keys;
  if (!op || op->takes_variables) {
    keys.push_back({.name = "trainable",
                    .type = KeyType::kBool,
                    .fallback = "true",
                    .doc = "let the optimizer train its variables; false freezes them",
                    .unless = {"variables"}});
    KeyDef dtype =
        word("variable_dtype", "none",
             "dtype that frozen variables are kept in, in 16 bits; job: the float dtype of the "
             "job; default: that of the surrounding call",
             variable_dtypes());
    dtype.unless = {"variables"};
    keys.push_back(std::move(dtype));
    keys.push_back({"variables", KeyType::kText, "none", "entry to share variables with"});
  }
  if (!op || op->trains_otherwise)
    keys.push_back({"training", KeyType::kBool, "true",
                    "use training mode in a train job; false runs dropout and batch normalization "
                    "in inference mode"});
  return keys;
}

const Section& input_section() {
  static const Section kSection{
      "an input",
      {{"shape", KeyType::kShape, "", "shape of the tensor; the leading dimension is the batch"},
       {"dtype", KeyType::kDType, "", "dtype of the elements"},
       {.name = "from",
        .type = KeyType::kSource,
        .fallback = "none",
        .doc = "source of the values: dataset.column, {npy: PATH} or a generator; default: --input "
               "NAME=...",
        .section = &npy_section(),
        .variants = &generators(),
        .pattern = R"(^\w+\.\w+$)"},
       {"rows", KeyType::kBool, "true",
        "treat the leading axis as the batch; false for a tensor without a batch axis"},
       {"range", KeyType::kIntegers, "none",
        "smallest and largest value, as [smallest, largest]; integers only"}}};
  return kSection;
}

const Section& npy_section() {
  static const Section kSection{"a source",
                                {text("npy", "",
                                      "path of a .npy file; each step reads the whole array, or "
                                      "one slice if it has one more axis")}};
  return kSection;
}

const VariantKind& generators() {
  static const VariantKind kKind{"from", "generator", variants_of(plan::FromGenerator()), {}};
  return kKind;
}

std::string describe_call(const ops::OpSpec& op) {
  std::vector<std::pair<std::string, std::string>> of_entries;
  const auto add = [&](const std::vector<KeyDef>& keys) {
    for (const KeyDef& key : keys)
      of_entries.emplace_back(key.name, key.has_default()
                                            ? fmt::format("default {}: {}", key.fallback, key.doc)
                                            : std::string(key.doc));
  };
  add(training_keys(&op));
  add(call_keys());
  return flow::describe(op, of_entries);
}

}  // namespace flow::job
