// Declares the sections of a job file and the variants that `type:` selects in them. Also declares
// the records of gradient clipping and loss scales, which change gradients before the optimizer
// uses them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <variant>
#include <vector>

#include "compiler/job/tables/keys.h"
#include "ops/core/spec.h"
#include "runtime/plan/model/dataset.h"
#include "runtime/plan/model/record.h"

namespace flow::job {

struct ClipByGlobalNorm {
  double clip_norm = 0, epsilon = 0;

  static constexpr auto record() {
    return plan::Record{"by_global_norm",
                        "Scales all gradients down so that their global norm is at most clip_norm.",
                        "g = g min(1, clip_norm / (|all g| + epsilon))",
                        std::tuple{plan::Field{"clip_norm", &ClipByGlobalNorm::clip_norm, "",
                                               "largest global norm", plan::kPositive},
                                   plan::Field{"epsilon", &ClipByGlobalNorm::epsilon, "0",
                                               "added to the norm; 1e-6 in PyTorch's "
                                               "clip_grad_norm_",
                                               plan::kNotNegative}}};
  }
};

struct ClipByValue {
  double clip_value = 0;

  static constexpr auto record() {
    return plan::Record{"by_value", "Clips each gradient element to [-clip_value, clip_value].",
                        "g = max(-clip_value, min(clip_value, g))",
                        std::tuple{plan::Field{"clip_value", &ClipByValue::clip_value, "",
                                               "largest absolute value", plan::kPositive}}};
  }
};

using GradClipping = std::variant<ClipByGlobalNorm, ClipByValue>;

/// The range in which the op move_loss_scale keeps the scale.
inline constexpr plan::Bounds kLossScaleBounds{.min = 1e-37, .max = 1.7e38};

struct DynamicLossScale {
  double initial = 0, growth_factor = 0, backoff_factor = 0;
  int64_t growth_interval = 0;

  static constexpr auto record() {
    return plan::Record{
        "dynamic", "Grows while gradients are finite and shrinks when they are not.",
        "scale = scale growth_factor after growth_interval finite steps, scale backoff_factor "
        "after a non-finite step, which skips the update but still increments t",
        std::tuple{
            plan::Field{"initial", &DynamicLossScale::initial, "65536", "initial scale",
                        kLossScaleBounds},
            plan::Field{"growth_factor", &DynamicLossScale::growth_factor, "2", "factor to grow by",
                        plan::Bounds{.above = 1}},
            plan::Field{"backoff_factor", &DynamicLossScale::backoff_factor, "0.5",
                        "factor to shrink by", plan::Bounds{.below = 1, .above = 0}},
            plan::Field{"growth_interval", &DynamicLossScale::growth_interval, "2000",
                        "finite steps in a row before the scale grows", plan::Bounds{.min = 1}}}};
  }
};

struct StaticLossScale {
  double value = 0;

  static constexpr auto record() {
    return plan::Record{"static", "A constant scale.",
                        "loss times value, gradients divided by value",
                        std::tuple{plan::Field{"value", &StaticLossScale::value, "", "loss scale",
                                               kLossScaleBounds}}};
  }
};

using LossScale = std::variant<DynamicLossScale, StaticLossScale>;

extern const Section kFileSection;
extern const Section kCheckSection;
/// A key of a column, with the sources and the types of cells that have it. The type only matters
/// for sources of cells: csv, text, tar and images.
struct ColumnKey {
  KeyDef def;
  std::vector<plan::SourceKind> sources;
  std::vector<plan::CellType> types;  // empty: all

  bool applies(plan::SourceKind source, std::optional<plan::CellType> type) const {
    return std::ranges::count(sources, source) > 0 &&
           (!type || types.empty() || std::ranges::count(types, *type) > 0);
  }
};
/// All keys of columns except the paths. A name can occur several times, for different sources.
extern const std::vector<ColumnKey> kColumnKeys;
/// Returns the keys of a column with this source and type of cells.
std::vector<KeyDef> column_keys(plan::SourceKind source, std::optional<plan::CellType> type);

extern const Section kColumnSection;          // the keys of columns of all sources
extern const Section kColumnDefaultsSection;  // the same keys, of `defaults`
extern const Section kDatasetSection;
extern const Section kOptionsSection;
extern const Section kSplitSection;
extern const Section kMixSection;
extern const Section kWindowSection;
extern const Section kReplacementSection;
extern const Section kCategoriesSection;
extern const Section kTokenizerSection;
extern const Section kShorterSection;
extern const Section kShuffleSection;
extern const Section kSampleSection;
/// The ops of `augment`, distinguished by their first keys.
extern const std::vector<Section> kAugmentSections;
extern const Section kNetworkSection;
extern const Section kJobSection;
extern const Section kInputSection;
extern const Section kNpySection;  // a source {npy: PATH}
extern const Section kReturnsSection;
/// The kinds of hooks, distinguished by their first keys.
extern const std::vector<Section> kHookSections;
/// Returns the sections that an item of the key's list can have, or nothing for other keys.
std::span<const Section> kinds_of(const KeyDef& key);
extern const Section kPlacementSection;
extern const Section kEntryPlacementSection;
extern const Section kRunSection;
extern const Section kLoopSection;
extern const Section kCheckpointSection;
extern const Section kKeepBestSection;
extern const Section kEarlyStoppingSection;
extern const Section kMetricsSection;
extern const Section kNameRuleSection;
extern const Section kSubJobsSection;
extern const Section kEverySection;
/// `every` of `checkpoint`.
extern const Section kCheckpointEverySection;
extern const Section kRegularizerSection;
/// The keys of every call in a graph, in addition to `in`, operands and attributes.
extern const std::vector<KeyDef> kCallKeys;
/// Returns the keys for the variables and the training of a call. `op` is the called op, or null
/// for a network.
std::vector<KeyDef> training_keys(const ops::OpSpec* op);

/// The values of `variable_dtype:`.
extern const std::vector<std::string_view> kVariableDTypes;

extern const VariantKind kGenerators;
extern const VariantKind kMetricTypes;
extern const VariantKind kSinks;
extern const VariantKind kInitializers;
extern const VariantKind kOptimizers;
extern const VariantKind kLearningRates;
extern const VariantKind kWarmups;
extern const VariantKind kGradClippings;
extern const VariantKind kLossScales;
extern const Section kLearningRateScales;
extern const Section kEmaSection;
extern const Section kLookaheadSection;

/// Returns the keys of a value that a run follows: `name`, which is `watch` or `by`, the keys in
/// `own`, `mode` and `every`.
std::vector<KeyDef> followed_keys(std::string_view name, std::vector<KeyDef> own = {});

/// Returns a description of the op's operands, results and attributes, and of the keys of every
/// entry that calls it.
std::string describe_call(const ops::OpSpec& op);

}  // namespace flow::job
