// What `metrics:` of a job may be.
#include "compiler/job/tables/key_makers.h"
#include "compiler/job/tables/tables.h"
#include "runtime/plan/model/plan.h"

namespace flow::job {
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

/// Of metrics that compare labels with predicted classes.
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

const VariantKind& metrics() {
  static const VariantKind kKind{
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
  return kKind;
}

}  // namespace flow::job
