// Contains the tables of the file, its data, networks and jobs, and the inputs of jobs. Also
// formats the keys of an entry as text.
#include <fmt/format.h>

#include <utility>
#include <vector>

#include "compiler/ir/describe_ops.h"
#include "compiler/job/tables/tables.h"
#include "runtime/plan/model/generators.h"
#include "runtime/plan/model/precision.h"

namespace flow::job {
namespace {

/// Returns a mapping whose keys are names that the user chooses.
Section names(std::string what, KeyDef each, bool notes = true) {
  return {.what = std::move(what), .keys = {}, .each = std::move(each), .notes = notes};
}

const Section kVariablesSection =
    names("`vars`",
          {"", KeyType::kFree, "none", "value of the variable: a number, text, list or mapping"});

const Section kChecksSection =
    names("`checks`", section("", "none", "condition that flowc checks", kCheckSection));

const Section kDataSection =
    names("`data`", section("", "none", "dataset: columns of equal length", kDatasetSection));

const Section kNetworksSection = names(
    "`networks`", section("", "none", "network: a subgraph to call like an op", kNetworkSection));

const Section kJobsSection =
    names("`jobs`", section("", "none", "job: what `flowrun NAME FILE` runs", kJobSection));

const Section kGraphSection = names(
    "`graph`",
    {"", KeyType::kEntry, "none", "call of an op or a network; the key names the result"}, false);

const Section kParamsSection =
    names("`params` of a network",
          {"", KeyType::kFree, "none", "default of the parameter, or `required`"});

const Section kInputsSection =
    names("`inputs`", section("", "none", "input tensor of the job", kInputSection));

}  // namespace

const Section kMetricsSection =
    names("`metrics` of a job", variant("", "none", "metric of the job", kMetricTypes));

const Section kFileSection{
    "the file",
    {{"flow", KeyType::kVersion, "", "version of the job language; always 1"},
     {"seed", KeyType::kInteger, "0", "random seed for all random numbers of a run",
      Bounds{.min = 0}},
     {"include", KeyType::kTexts, "none",
      "list of files to merge this file over; paths are relative to this file"},
     section("vars", "none", "variables to use as $name, or as $(name) inside text",
             kVariablesSection),
     section("checks", "none", "conditions that variables must meet, by name", kChecksSection),
     section("data", "none", "datasets by name", kDataSection),
     section("networks", "none", "networks by name: subgraphs to call like ops", kNetworksSection),
     section("jobs", "", "jobs by name; `flowrun NAME FILE` runs one", kJobsSection)}};

const Section kCheckSection{
    "a check",
    {{"that", KeyType::kBool, "", "condition on variables, such as $(width % heads == 0)"},
     text("message", "", "error message if the condition is false")}};

const Section kNetworkSection{
    "a network",
    {{"inputs", KeyType::kTexts, "", "names of the inputs, in order"},
     section("params", "none", "parameters of a call by name, each with a default or `required`",
             kParamsSection),
     section("graph", "",
             "entries by name; each reads the entry above unless `in:` names its operands",
             kGraphSection),
     text("output", "none", "entry to return; default: the last entry")}};

const Section kJobSection{
    "a job",
    {word("type", "", "kind of job; train updates variables, predict runs in inference mode",
          {"train", "predict"}),
     text("extends", "none",
          "job to inherit `inputs`, `graph`, `placement`, `shards`, `precision` and "
          "`determinism` from; own keys merge over them, and added entries need `in:`"),
     section("placement", "none", "devices to run on", kPlacementSection),
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
     section("inputs", "none", "input tensors by name", kInputsSection),
     section("graph", "",
             "entries by name; each reads the entry above unless `in:` names its operands",
             kGraphSection),
     train_only(variant("optimizer", "", "optimizer that trains the variables", kOptimizers)),
     section("returns", "none", "values to return in each step", kReturnsSection),
     {"hooks", KeyType::kHooks, "none",
      "list of hooks: tensors to watch, and the sinks that receive them"},
     section("metrics", "none",
             "metrics by name, of all rows of an epoch or run, to print and to follow",
             kMetricsSection),
     section("run", "none", "length of the run, logging and checkpoints", kRunSection)}};

// The limit on `repeat` is higher than any network needs, and low enough to read the copies one by
// one.
const std::vector<KeyDef> kCallKeys = {
    {"repeat", KeyType::kInteger, "none", "number of chained copies; each reads the one before",
     Bounds{.min = 1, .max = 10'000}},
    section("placement", "none", "device to run on; default: the device of its network or job",
            kEntryPlacementSection),
    {"per_shard", KeyType::kBool, "false",
     "in a job with shards, compute what needs rows of the whole batch from those of each "
     "shard"}};

const std::vector<std::string_view> kVariableDTypes = {"job", name_of(DType::kBFloat16),
                                                       name_of(DType::kFloat16)};

std::vector<KeyDef> training_keys(const ops::OpSpec* op) {
  std::vector<KeyDef> keys;
  if (!op || op->takes_variables) {
    keys.push_back(excluding(KeyDef{"trainable", KeyType::kBool, "true",
                                    "let the optimizer train its variables; false freezes them"},
                             {"variables"}));
    keys.push_back(excluding(
        word("variable_dtype", "none",
             "dtype that frozen variables are kept in, in 16 bits; job: the float dtype of the "
             "job; default: that of the surrounding call",
             kVariableDTypes),
        {"variables"}));
    keys.push_back({"variables", KeyType::kText, "none", "entry to share variables with"});
  }
  if (!op || op->trains_otherwise)
    keys.push_back({"training", KeyType::kBool, "true",
                    "use training mode in a train job; false runs dropout and batch normalization "
                    "in inference mode"});
  return keys;
}

const Section kInputSection{
    "an input",
    {{"shape", KeyType::kShape, "", "shape of the tensor; the leading dimension is the batch"},
     {"dtype", KeyType::kDType, "", "dtype of the elements"},
     {.name = "from",
      .type = KeyType::kSource,
      .fallback = "none",
      .doc = "source of the values: dataset.column or dataset/part.column, {npy: PATH} or a "
             "generator; default: --input "
             "NAME=...",
      .section = &kNpySection,
      .variants = &kGenerators,
      .pattern = R"(^\w+(/\w+)?\.\w+$)"},
     {"rows", KeyType::kBool, "true",
      "treat the leading axis as the batch; false for a tensor without a batch axis"},
     {"range", KeyType::kIntegers, "none",
      "smallest and largest value, as [smallest, largest]; integers only"}}};

const Section kNpySection{"a source",
                          {text("npy", "",
                                "path of a .npy file; each step reads the whole array, or "
                                "one slice if it has one more axis")}};

const VariantKind kGenerators{"from", "generator", variants_of(plan::FromGenerator()), {}};

std::string describe_call(const ops::OpSpec& op) {
  std::vector<std::pair<std::string, std::string>> of_entries;
  const auto add = [&](const std::vector<KeyDef>& keys) {
    for (const KeyDef& key : keys)
      of_entries.emplace_back(key.name, key.has_default()
                                            ? fmt::format("default {}: {}", key.fallback, key.doc)
                                            : std::string(key.doc));
  };
  add(training_keys(&op));
  add(kCallKeys);
  return flow::describe(op, of_entries);
}

}  // namespace flow::job
