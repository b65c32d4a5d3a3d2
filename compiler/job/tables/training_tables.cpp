// Contains the tables of optimizers, gradient clipping, loss scales, learning rates, warm-ups,
// initializers, regularizers and metrics.
#include "compiler/ir/initializers.h"
#include "compiler/job/tables/tables.h"
#include "runtime/plan/model/optimizers.h"
#include "runtime/plan/model/plan.h"
#include "runtime/plan/model/schedule.h"

namespace flow::job {
namespace {

/// Returns the optimizers. Those with weight decay can restrict it to some variables, and Muon can
/// leave matrices to AdamW.
std::vector<Variant> make_optimizers() {
  std::vector<Variant> all = variants_of(plan::OptimizerRule());
  for (Variant& optimizer : all) {
    if (optimizer.type == plan::optimizers::Muon::record().type)
      optimizer.keys.push_back(
          {"adamw", KeyType::kGlobs, "none",
           "matrices to update by adamw too, such as embeddings: a name or glob, or a list"});
    if (!find_key(optimizer.keys, "weight_decay")) continue;
    optimizer.keys.push_back({"includes", KeyType::kGlobs, "none",
                              "variables to decay: a name or glob, or a list; default: all"});
    optimizer.keys.push_back(
        excluding(KeyDef{"excludes", KeyType::kGlobs, "none",
                         "variables to exclude from weight decay: a name or glob, or a list"},
                  {"includes"}));
  }
  return all;
}

/// Returns the learning rates. A plateau has additional keys for the value that it watches.
std::vector<Variant> make_learning_rates() {
  std::vector<Variant> all = variants_of(plan::RateFunction());
  for (Variant& schedule : all)
    if (schedule.type == plan::schedules::Plateau::record().type)
      for (KeyDef& key : followed_keys("watch")) schedule.keys.push_back(std::move(key));
  return all;
}

}  // namespace

const VariantKind kOptimizers{
    "optimizer",
    "optimizer",
    make_optimizers(),
    {{.name = "learning_rate",
      .type = KeyType::kVariants,
      .fallback = "",
      .doc = "learning rate, as a number, a schedule over steps, or a list of them that follow "
             "one another",
      .variants = &kLearningRates},
     section("learning_rate_scales", "none", "learning rate factors by variable name or glob",
             kLearningRateScales),
     {"minimize", KeyType::kGlobs, "",
      "loss to minimize (the mean of its elements), or list of losses (the sum of their means)"},
     {"variables", KeyType::kGlobs, "none",
      "variables to train: a name or glob, or a list; default: all"},
     variant("grad_clipping", "none", "gradient clipping", kGradClippings),
     {"norm", KeyType::kBool, "false",
      "compute the norm of all gradients, before clipping, for `metrics.jsonl` and hooks; "
      "clipping by global norm always does"},
     variant("loss_scale", "none",
             "loss scaling, which keeps small float16 gradients from underflowing", kLossScales),
     section("ema", "none",
             "exponential moving averages of the trained variables, after each step: ema += (1 - "
             "decay) (w - ema); the first is w",
             kEmaSection),
     section("lookahead", "none",
             "Lookahead (Zhang et al., 2019) around the optimizer: after each cycle of steps w = "
             "slow + alpha (w - slow), where slow is w before the cycle",
             kLookaheadSection)}};

const Section kEmaSection{
    "`ema`",
    {{"decay", KeyType::kNumber, "", "fraction of the average to keep in each step",
      Bounds{.min = 0, .below = 1}}}};

const Section kLookaheadSection{
    "`lookahead`",
    {{"steps", KeyType::kInteger, "", "steps of a cycle", Bounds{.min = 1, .max = 1e9}},
     {"alpha", KeyType::kNumber, "0.5", "part of the way of a cycle to keep",
      Bounds{.max = 1, .above = 0}}}};

const Section kLearningRateScales{
    .what = "`learning_rate_scales`",
    .keys = {},
    .each = KeyDef{"", KeyType::kNumber, "none",
                   "factor on the learning rate of variables that match the key", plan::kPositive},
    .own_keys = OwnKeys::kGlobs};

const VariantKind kGradClippings{
    "grad_clipping", "gradient clipping", variants_of(GradClipping()), {}};

const VariantKind kLossScales{"loss_scale", "loss scale", variants_of(LossScale()), {}};

const VariantKind kLearningRates{
    .key = "learning_rate",
    .noun = "learning rate",
    .variants = make_learning_rates(),
    .common = {variant("warmup", "none", "warm-up schedule for the first steps", kWarmups),
               {"until", KeyType::kInteger, "none",
                "in a list of schedules: first step of the next one, which counts steps from "
                "there; all but the last require it",
                plan::kScheduleSteps}},
    .number = "constant"};

const VariantKind kWarmups{"warmup", "warm-up", variants_of(plan::WrittenWarmup()), {}};

const VariantKind kInitializers{.key = "initializer",
                                .noun = "initializer",
                                .variants = variants_of(WrittenInitializer()),
                                .common = {},
                                .by_word = true,
                                .number = "constant"};

// The coefficients are bounded, because they are multiplied by the number of elements of the loss.
const Bounds kRegularizerBounds{.min = 0, .max = 1e30};

const Section kRegularizerSection{
    .what = "a regularizer",
    .keys = {{"l1", KeyType::kNumber, "none",
              "L1 coefficient: adds l1 sign(w) to the gradient of w", kRegularizerBounds},
             {"l2", KeyType::kNumber, "none", "L2 coefficient: adds l2 w to the gradient of w",
              kRegularizerBounds}},
    .one_of = {"l1", "l2"}};

namespace {

KeyDef labels_key(std::string_view doc = "tensor of labels: classes 0, 1, 2, ...") {
  return text("labels", "", doc);
}

KeyDef axis_key() {
  return {"axis", KeyType::kInteger, "-1", "axis of the classes in `predictions`"};
}

KeyDef ignore_label_key() {
  return {"ignore_label", KeyType::kInteger, "none", "label of rows to leave out"};
}

KeyDef classes_key(int64_t most) {
  return {"classes", KeyType::kInteger, "none",
          "number of classes; default: as many as labels and predictions have",
          Bounds{.min = 1, .max = static_cast<double>(most)}};
}

/// Returns the keys of metrics that compare labels with predicted classes.
std::vector<KeyDef> class_keys(int64_t most = plan::kMostClasses) {
  return {labels_key(),
          text("predictions", "",
               "tensor of predictions: scores with an axis of classes (the largest score counts), "
               "one score for each label, or classes"),
          axis_key(),
          {"threshold", KeyType::kNumber, "0.5",
           "with a score for each label, scores above it predict class 1; 0 for logits"},
          ignore_label_key(),
          classes_key(most)};
}

std::vector<KeyDef> averaged_keys() {
  std::vector<KeyDef> keys = class_keys();
  keys.push_back(word("average", "macro",
                      "macro: mean over the classes that occur; weighted: mean weighted by labels; "
                      "micro: from the counts of all classes; binary: score of class 1",
                      words_of<plan::Average>()));
  return keys;
}

std::vector<KeyDef> top_k_keys() {
  return {labels_key(),
          text("predictions", "", "tensor of scores with an axis of classes"),
          axis_key(),
          {"k", KeyType::kInteger, "", "number of largest scores among which the label counts",
           Bounds{.min = 1}},
          ignore_label_key()};
}

std::vector<KeyDef> auc_keys() {
  return {labels_key("tensor of labels 0 and 1"),
          text("predictions", "",
               "tensor with a score for each label, or two along a last axis, for 0 and 1"),
          ignore_label_key()};
}

}  // namespace

const VariantKind kMetricTypes{
    .key = "metrics",
    .noun = "metric",
    .variants =
        {{"accuracy", "Share of labels that are predicted.", "", class_keys()},
         {"top_k_accuracy", "Share of labels among the classes of the k largest scores.", "",
          top_k_keys()},
         {"precision", "Share of a class's predictions that are right.",
          "tp / (tp + fp); 0 without predictions", averaged_keys()},
         {"recall", "Share of a class's labels that are predicted.",
          "tp / (tp + fn); 0 without labels", averaged_keys()},
         {"f1", "Harmonic mean of precision and recall.", "2 tp / (2 tp + fp + fn)",
          averaged_keys()},
         {"mean_iou", "Intersection over union, averaged over the classes that occur.",
          "mean of tp / (tp + fp + fn)", class_keys()},
         {"confusion_matrix", "Number of rows for each label (down) and prediction (across).", "",
          class_keys(plan::kMostMatrixClasses)},
         {"auc",
          "Area under the ROC curve, exactly: keeps all scores of the epoch or run, also in "
          "checkpoints.",
          "P(score of a 1 > score of a 0) + P(equal) / 2", auc_keys()},
         {"perplexity",
          "Exponential of the mean loss.",
          "exp(mean losses)",
          {text("losses", "", "tensor of losses in natural logarithms")}}},
    .common = {word("over", "none",
                    "rows of a value: those of a step, an epoch, or the run; default: epoch in "
                    "train jobs, "
                    "else run",
                    words_of<plan::Over>()),
               {"scale", KeyType::kNumber, "1", "factor on the printed value, such as 100"},
               text("format", "none",
                    "number format: numpy, or as in C; default: \"%.4f\", of a matrix numpy")}};

}  // namespace flow::job
