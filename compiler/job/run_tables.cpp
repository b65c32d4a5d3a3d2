// What a job returns, watches and keeps, where that goes, and how long and where it runs.
#include "compiler/job/key_makers.h"
#include "compiler/job/tables.h"
#include "runtime/plan/plan.h"

namespace flow::job {
namespace {

const Bounds kAtLeastOne{.min = 1};
const Bounds kCountable{.min = 1, .max = plan::kMostSteps};
// R of language's return types, but for what nests.
constexpr std::string_view kReturnType =
    R"(^ *(Callback|(Callback *\[)? *(Numpy|ListNumpy|(Tuple|List|Dict) *\[.*\]) *\]?) *$)";

/// Where deliveries go.
KeyDef to() {
  return {.name = "to",
          .type = KeyType::kVarieties,
          .fallback = "npy",
          .doc = "where it goes: a sink, or a list of them",
          .varieties = &sinks()};
}

const Section& environment_section() {
  static const Section kSection{.what = "`env`",
                                .keys = {},
                                .each = KeyDef{"", KeyType::kAnyText, "none", "its value"},
                                .own_keys = OwnKeys::kAnyNames};
  return kSection;
}

std::vector<KeyDef> command_keys() {
  return {
      {"run", KeyType::kCommand, "",
       "a program and its arguments, or one line for the shell; nothing is put into it"},
      section("env", "none", "variables of its environment", environment_section()),
      word("mode", "stream", "one process for the whole run, or one for each event",
           words_of<plan::CommandSink::Mode>()),
      word("format", "npy", "how arrays are written to it", words_of<plan::CommandSink::Format>()),
      word("on_error", "fail", "whether its failure is the run's",
           words_of<plan::CommandSink::OnError>()),
      text("timeout", "none", "how long one event may take: 30s", R"(^(none|[0-9.eE+/-]+s)$)"),
      {"ack", KeyType::kBool, "false", "wait until it says on descriptor 3 that it is done"},
      text("expects", "none", "the type of what it is given", kReturnType)};
}

/// A hook's own keys and those of all.
Section hook(KeyDef first, std::vector<KeyDef> own) {
  Section made{"a hook", {std::move(first)}};
  made.keys.insert(
      made.keys.end(),
      {{.name = "every",
        .type = KeyType::kInteger,
        .fallback = "1",
        .doc = "fire at steps 0, N, 2N, ...",
        .bounds = kAtLeastOne,
        .unless = {"steps"}},
       {"steps", KeyType::kStepList, "none",
        "the steps in which it fires: [0, 5..8, 100..1000/100]"},
       word("check", "none", "fail the run at a value that is not finite", {"finite"}),
       word("type", "Numpy", "one array, or one for each device", {"Numpy", "ListNumpy"}),
       to()});
  made.keys.insert(made.keys.end(), own.begin(), own.end());
  return made;
}

std::vector<KeyDef> placement_keys(std::string_view ids, std::string_view doc) {
  return {word("device", "auto", "auto: a GPU where there is one", {"auto", "gpu", "cpu"}),
          text("ids", ids, doc, R"(^0:\d+(-\d+)?$)")};
}

}  // namespace

const Section& returns_section() {
  static const Section kSection{
      "`returns`",
      {text("type", "none",
            "Numpy, ListNumpy, Tuple[R, ...], List[R], Dict[str, R], and Callback[R] for an "
            "asynchronous job; default: what the value is",
            kReturnType),
       {"value", KeyType::kNested, "", "a tensor's name, or a list or mapping of them"},
       to()}};
  return kSection;
}

const std::vector<Section>& hook_sections() {
  static const KeyDef kAs =
      text("as", "none", "what the output is called", R"(^[A-Za-z_]\w*(/[A-Za-z_]\w*)*$)");
  static const KeyDef kOf =
      word("of", "sum", "the gradient of the sum over the loss, or of its mean", {"sum", "mean"});
  static const std::vector<Section> kAll = {
      hook(text("watch", "", "deliver these tensors and variables: a name or a glob"), {kAs}),
      hook(text("watch_diff", "", "deliver the gradient with respect to these"), {kAs, kOf}),
      hook(text("watch_scope", "", "deliver all that is made under this name"),
           {{"diffs", KeyType::kBool, "none", "gradients too; default: in train jobs"}, kOf})};
  return kAll;
}

const Section& placement_section() {
  static const Section kSection{"`placement`", placement_keys("0:0", "machine:first-last")};
  return kSection;
}

const Section& entry_placement_section() {
  static const Section kSection{"`placement` of an entry",
                                placement_keys("none", "as many CPU devices as its job has")};
  return kSection;
}

const Section& run_section() {
  static const Section kSection{
      "`run`",
      {{"epochs", KeyType::kInteger, "none", "passes over the dataset", kCountable},
       {"steps", KeyType::kInteger, "none",
        "whichever of epochs and steps comes first ends the run", kCountable},
       {"shuffle", KeyType::kBool, "false", "other rows in each epoch's batches"},
       {"pipeline", KeyType::kInteger, "4", "steps under way in an asynchronous job",
        Bounds{.min = 1, .max = plan::kMaxPipeline}},
       {"log_every", KeyType::kInteger, "1", "steps between lines of metrics.jsonl", kAtLeastOne},
       word("on_nonfinite", "fail",
            "what a loss, or at a checkpoint a trained variable, that is not finite does",
            {"fail", "warn"}),
       section("checkpoint", "none", "what is loaded and saved", checkpoint_section()),
       {.name = "also",
        .type = KeyType::kSections,
        .fallback = "none",
        .doc = "other jobs to call while this one runs, on the same variables",
        .section = &also_section()}}};
  return kSection;
}

const Section& checkpoint_section() {
  static const Section kSection = [] {
    Section made{
        "`checkpoint`",
        {text("load", "none", "a checkpoint, a run directory or an .npz to read variables from"),
         text("save", "none", "where the last state goes"),
         section("every", "none", "how often states are kept", every_section()),
         {"keep", KeyType::kInteger, "3", "how many of them", kAtLeastOne}}};
    for (KeyDef& key : made.keys) key.train_only = key.name != "load";
    return made;
  }();
  return kSection;
}

const Section& also_section() {
  static const Section kSection = {
      "an item of `also`",
      {text("job", "", "the job to call"), section("every", "", "how often", every_section())}};
  return kSection;
}

const Section& every_section() {
  static const Section kSection{
      .what = "`every`",
      .keys = {{"steps", KeyType::kInteger, "none", "so many", kAtLeastOne},
               {"epochs", KeyType::kInteger, "none", "so many", kAtLeastOne}},
      .one_of = {"steps", "epochs"}};
  return kSection;
}

const VarietyKind& sinks() {
  static const VarietyKind kKind{
      .key = "to",
      .noun = "sink",
      .varieties = {{"npy",
                     "NumPy arrays in the run directory.",
                     "",
                     {word("layout", "stacked", "one array that grows, or a file a step",
                           {"stacked", "per_step"})}},
                    {"print",
                     "Lines on standard output.",
                     "",
                     {{"label", KeyType::kAnyText, "none", "what stands before the value"},
                      word("reduce", "none", "one number of all elements",
                           words_of<plan::Reduce>()),
                      word("over", "step", "what a line is about", words_of<plan::Over>()),
                      {"scale", KeyType::kNumber, "1", "what values are multiplied by"},
                      text("format", "numpy", "numpy, or a number's format as in C: \"%.6g\""),
                      {"every", KeyType::kInteger, "1", "every so many lines", kAtLeastOne}}},
                    {"command", "A program.", "", command_keys()},
                    {"none", "Nowhere.", "", {}}},
      .common = {},
      .by_word = true};
  return kKind;
}

}  // namespace flow::job
