// Contains the tables of the values that a job returns, watches and keeps, of their sinks, and of
// the length and placement of a run.
#include "compiler/job/tables/tables.h"
#include "runtime/plan/model/plan.h"

namespace flow::job {
namespace {

const Bounds kAtLeastOne{.min = 1};
const Bounds kBinBounds{.min = 1, .max = plan::kMostBins};
const Bounds kCountable{.min = 1, .max = plan::kMostSteps};
// The return types R of the language, without a check of the nested types.
constexpr std::string_view kReturnType =
    R"(^ *(Callback|(Callback *\[)? *(Numpy|ListNumpy|(Tuple|List|Dict) *\[.*\]) *\]?) *$)";

/// Returns the key for the sinks of delivered values.
KeyDef to() {
  return {.name = "to",
          .type = KeyType::kVariants,
          .fallback = "npy",
          .doc = "sink that receives the values, or list of sinks",
          .variants = &kSinks};
}

const Section kEnvironmentSection{
    .what = "`env`",
    .keys = {},
    .each = KeyDef{"", KeyType::kAnyText, "none", "value of the environment variable"},
    .own_keys = OwnKeys::kAnyNames};

std::vector<KeyDef> command_keys() {
  return {
      {"run", KeyType::kCommand, "",
       "program and its arguments as a list, or one shell command line; flow substitutes nothing "
       "in it"},
      section("env", "none", "environment variables for the program, by name", kEnvironmentSection),
      word("mode", "stream", "stream: one process for the whole run; spawn: one process per event",
           words_of<plan::CommandSink::Mode>()),
      word("format", "npy", "format of the arrays on its standard input: npy or text",
           words_of<plan::CommandSink::Format>()),
      word("on_error", "fail",
           "fail: the run fails if the program fails; warn: the run continues with a warning",
           words_of<plan::CommandSink::OnError>()),
      text("timeout", "none", "time limit for one event in seconds, such as 30s",
           R"(^(none|[0-9.eE+/-]+s)$)"),
      {"ack", KeyType::kBool, "false",
       "wait after each event until the program acknowledges it on file descriptor 3"},
      text("expects", "none",
           "type that the program expects, such as Tuple[Numpy, Numpy]; `flowc check` compares it",
           kReturnType)};
}

/// Returns the section of a hook, with its first key, the keys of all hooks, and its other keys.
Section hook(KeyDef first, std::vector<KeyDef> own) {
  Section made{"a hook", {std::move(first)}};
  made.keys.insert(
      made.keys.end(),
      {excluding(KeyDef{"every", KeyType::kInteger, "1",
                        "interval in steps: the hook fires at steps 0, N, 2N, ...", kAtLeastOne},
                 {"steps"}),
       {"steps", KeyType::kStepList, "none",
        "steps at which the hook fires, such as [0, 5..8, 100..1000/100]"},
       text("when", "none",
            "condition on statistics of the tensor, such as \"max > 1e3 or not_finite > 0\": the "
            "hook fires only if it holds"),
       word("then", "none", "stop: the run stops after the step if `when` holds", {"stop"}),
       word("check", "none", "finite: the run fails at a NaN or infinite value", {"finite"}),
       word("type", "Numpy", "Numpy: one array; ListNumpy: one array per device",
            {"Numpy", "ListNumpy"}),
       to()});
  made.keys.insert(made.keys.end(), own.begin(), own.end());
  return made;
}

std::vector<KeyDef> placement_keys(std::string_view ids, std::string_view doc) {
  return {word("device", "auto", "kind of device; auto: a GPU if there is one, else the CPU",
               {"auto", "gpu", "cpu"}),
          matching(KeyDef{"ids", KeyType::kDevices, ids, doc}, R"(^\d+:\d+(-\d+)?$)")};
}

}  // namespace

std::vector<KeyDef> followed_keys(std::string_view name, std::vector<KeyDef> own) {
  own.insert(
      own.begin(),
      text(
          name, "",
          "value that decides: JOB.NAME of a job that `also` calls, or NAME of this job; a metric, "
          "or a tensor: the mean of its elements"));
  own.push_back(word(
      "mode", "none",
      "min: smaller values are better; max: larger values are; default: max for metrics except "
      "perplexity, else min",
      words_of<plan::Mode>()));
  own.push_back(section("every", "none",
                        "interval between values of a tensor of this job; default: an epoch",
                        kEverySection));
  return own;
}

const Section kReturnsSection{
    "`returns`",
    {text("type", "none",
          "return type: Numpy, ListNumpy, Tuple[R, ...], List[R], Dict[str, R], or Callback[R] "
          "for an asynchronous job; default: the type of `value`",
          kReturnType),
     {"value", KeyType::kNested, "", "tensor name, or a list or mapping of tensor names"},
     to()}};

namespace {

const KeyDef kAs = text("as", "none", "name of the output", R"(^[A-Za-z_]\w*(/[A-Za-z_]\w*)*$)");
const KeyDef kOf =
    word("of", "sum", "loss to differentiate: the sum over its elements, or their mean",
         {"sum", "mean"});

}  // namespace

const std::vector<Section> kHookSections = {
    hook({"watch", KeyType::kGlobs, "",
          "tensors and variables to watch: a name or a glob, or a list"},
         {kAs}),
    hook({"watch_diff", KeyType::kGlobs, "",
          "tensors and variables to watch the gradients of: a name or a glob, or a list"},
         {kAs, kOf}),
    hook(
        {"watch_scope", KeyType::kGlobs, "",
         "scope to watch: all tensors under this name, or a list of scopes"},
        {{"diffs", KeyType::kBool, "none", "watch the gradients, too; default: true in train jobs"},
         kOf})};

const Section kPlacementSection{
    "`placement`",
    placement_keys("0:0",
                   "devices as machine:first-last, such as 0:0-3; for several machines, "
                   "a list")};

const Section kEntryPlacementSection{
    "`placement` of an entry",
    placement_keys("none", "devices as machine:first-last; those of the job")};

const Section kRunSection{
    "`run`",
    {{"epochs", KeyType::kInteger, "none", "number of passes over the dataset", kCountable},
     {"steps", KeyType::kInteger, "none",
      "number of steps; with both keys, the run ends at the first of `epochs` and `steps`",
      kCountable},
     {.name = "shuffle",
      .type = KeyType::kBool,
      .fallback = "false",
      .doc = "shuffle the rows of the dataset in each epoch; {buffer: N}: only among N rows at a "
             "time, in the order of the files",
      .section = &kShuffleSection,
      .unless = {"sample"}},
     train_only({.name = "sample",
                 .type = KeyType::kWord,
                 .fallback = "none",
                 .doc = "draw the rows of an epoch with replacement: uniform, or with the weights "
                        "or the balanced categories of a column",
                 .words = {"uniform"},
                 .section = &kSampleSection}),
     requiring(train_only({"epoch_rows", KeyType::kInteger, "none",
                           "number of rows to draw in an epoch; default: the rows of the dataset",
                           plan::kPositiveCount}),
               "sample"),
     {"data_threads", KeyType::kInteger, "none",
      "number of threads that decode rows; default: half of the cores",
      Bounds{.min = 1, .max = plan::kMaxDataThreads}},
     {"pipeline", KeyType::kInteger, "4",
      "largest number of steps in flight in an asynchronous job",
      Bounds{.min = 1, .max = plan::kMaxPipeline}},
     {"log_every", KeyType::kInteger, "1", "steps between lines in metrics.jsonl", kAtLeastOne},
     word("on_nonfinite", "fail",
          "effect of a NaN or infinite loss, or trained variable at a checkpoint: fail the run, "
          "or warn",
          {"fail", "warn"}),
     section("checkpoint", "none", "checkpoint to load, and when and where to save",
             kCheckpointSection),
     list_of("also", "none", "list of other jobs to call during this one, on the same variables",
             kSubJobsSection),
     section("loop", "none", "feed results back: several passes for each batch of a predict job",
             kLoopSection),
     train_only(section("early_stopping", "none", "end the run when a value stops improving",
                        kEarlyStoppingSection))}};

namespace {

/// Returns a section whose keys name inputs or entries, and whose values name the results that they
/// read.
Section fed_section(std::string what, std::string_view doc) {
  return {.what = std::move(what),
          .keys = {},
          .each = text("", "none", doc),
          .own_keys = OwnKeys::kGlobs};
}

const Section kFeedSection =
    fed_section("`feed`",
                "result that the next pass reads; `{1}` is what the first wildcard of "
                "the key matched");

const Section kFirstSection =
    fed_section("`first`",
                "result that the first pass reads; `{1}` is what the first wildcard "
                "of the key matched");

}  // namespace

const Section kLoopSection{
    "`loop`",
    {section("feed", "",
             "result that the next pass reads, by input or entry; `*` in a key "
             "matches one component of a name",
             kFeedSection),
     section("first", "none",
             "result that the first pass reads, by input or entry of `feed`; default: the input "
             "or entry itself",
             kFirstSection),
     {"steps", KeyType::kInteger, "", "largest number of passes for a batch",
      Bounds{.min = 1, .max = plan::kMaxPasses}},
     text("until", "none", "bool result: no pass follows one in which all of it is true"),
     {"last", KeyType::kTexts, "none",
      "returned results that only have the value of the last pass; others are stacked along a "
      "new axis"}}};

const Section kEarlyStoppingSection{
    "`early_stopping`",
    followed_keys("watch",
                  {{"patience", KeyType::kInteger, "",
                    "values in a row without improvement after which the run ends", kCountable},
                   {"min_delta", KeyType::kNumber, "0", "smallest change that is an improvement",
                    plan::kNotNegative}})};

const Section kKeepBestSection{"`keep_best`", followed_keys("by")};

const Section kCheckpointSection{
    "`checkpoint`",
    {{"load", KeyType::kGlobs, "none",
      "path or paths to load variables from: checkpoints, runs, .safetensors files or folders "
      "with one, .npz files; of a name in several, the last counts"},
     list_of("names", "none",
             "list of rules that map names of arrays in `load` to variables; the first match "
             "counts",
             kNameRuleSection),
     train_only(text("save", "none", "path to save the final state to")),
     {.name = "every",
      .type = KeyType::kSection,
      .fallback = "none",
      .doc = "interval between checkpoints, by default 10 minutes; none: save only the last state",
      .section = &kCheckpointEverySection,
      .or_none = true,
      .train_only = true},
     train_only(
         {"keep", KeyType::kInteger, "none",
          "number of recent checkpoints to keep; default: 3, or only the newest with `minutes`",
          kAtLeastOne}),
     train_only(section("keep_best", "none", "also keep the best state, in the folder best",
                        kKeepBestSection))}};

namespace {

/// Returns a key for an axis of the arrays of a name rule.
KeyDef axis(std::string_view name, std::string_view doc) {
  return {name, KeyType::kInteger, "none", doc, Bounds{.min = 0, .max = plan::kMaxRank - 1}};
}

}  // namespace

const Section kNameRuleSection = {
    "an item of `names`",
    {{"from", KeyType::kGlobs, "",
      "array, or list of arrays: `*` matches within one component (between `.` or `/`), `**` "
      "matches several"},
     {"to", KeyType::kGlobs, "none",
      "variable, or list of variables: `{1}` is what the first wildcard matched, `{1+2}` a "
      "number plus 2"},
     {"perm", KeyType::kIntegers, "none",
      "order of the axes of each array, such as [1, 0] for a transposed matrix"},
     axis("concat", "axis along which the arrays of `from` are joined"),
     requiring(KeyDef{"sizes", KeyType::kIntegers, "none",
                      "sizes of the arrays along the axis of `concat`; default when weights are "
                      "exported: equal sizes"},
               "concat"),
     axis("split", "axis along which the array is split into the variables of `to`"),
     {"copy", KeyType::kBool, "false", "each variable of `to` gets the whole array"},
     {"reshape", KeyType::kBool, "false", "accept another shape with the same number of elements"},
     {"ignore", KeyType::kBool, "false", "do not read the arrays"}}};

const Section kSubJobsSection = {
    "an item of `also`",
    {text("job", "", "job to call"), section("every", "", "interval between calls", kEverySection),
     word("weights", "trained",
          "variables that it reads: trained, or ema: their averages, for a predict job",
          {"trained", "ema"})}};

const Section kEverySection{
    .what = "`every`",
    .keys = {{"steps", KeyType::kInteger, "none", "interval", kAtLeastOne},
             {"epochs", KeyType::kInteger, "none", "interval", kAtLeastOne}},
    .one_of = {"steps", "epochs"}};

const Section kCheckpointEverySection{
    "`every` of `checkpoint`",
    {kEverySection.keys[0], kEverySection.keys[1],
     excluding(KeyDef{"minutes", KeyType::kNumber, "10",
                      "interval in minutes of the run's time; results do not depend on it",
                      plan::kPositive},
               {"steps", "epochs"})}};

const VariantKind kSinks{
    .key = "to",
    .noun = "sink",
    .variants =
        {{"npy",
          "Writes NumPy arrays to the run directory.",
          "",
          {word("layout", "stacked", "stacked: one array that grows; per_step: one file per step",
                {"stacked", "per_step"})}},
         {"print",
          "Prints lines on standard output.",
          "",
          {{"label", KeyType::kAnyText, "none", "text before the value"},
           word("reduce", "none", "reduction of all elements to one number",
                words_of<plan::Reduce>()),
           word("over", "step", "span of one line: a step, an epoch or the run",
                words_of<plan::Over>()),
           {"scale", KeyType::kNumber, "1", "factor on the values"},
           text("format", "numpy", "number format: numpy, or as in C, such as \"%.6g\""),
           {"every", KeyType::kInteger, "1", "interval in lines: print every Nth line only",
            kAtLeastOne},
           {"step", KeyType::kBool, "none",
            "begin lines with the step, or with the epoch if `over` is epoch; default: on a "
            "terminal, unless `over` is run"}}},
         {"command", "Streams values to a program.", "", command_keys()},
         {"stats",
          "Writes a line of CSV for each value: mean, standard deviation, extremes and a "
          "histogram.",
          "",
          {{"bins", KeyType::kInteger, "10",
            "bins of the histogram, of equal width from minimum to maximum", kBinBounds}}},
         {"none", "Discards the values.", "", {}}},
    .common = {},
    .by_word = true};

}  // namespace flow::job
