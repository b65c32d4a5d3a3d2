// Names, resulting sizes and checks of lists of augmentation ops.
#include "runtime/plan/model/augment.h"

#include <fmt/format.h>

#include <map>
#include <utility>

namespace flow::plan {

using augments::Extents;

std::vector<std::string> names_of(const std::vector<Augment>& ops) {
  std::map<std::string_view, int> uses;
  std::vector<std::string> names;
  for (const Augment& op : ops) {
    const std::string_view type = type_name(op);
    const int use = ++uses[type];
    names.push_back(use == 1 ? std::string(type) : fmt::format("{}/{}", type, use));
  }
  return names;
}

bool is_erasure(const Augment& op) {
  return std::holds_alternative<augments::Erase>(op) ||
         std::holds_alternative<augments::Cutout>(op);
}

std::optional<Extents> size_after(const std::vector<Augment>& ops) {
  std::optional<Extents> size;
  for (const Augment& op : ops) {
    if (const auto* crop = std::get_if<augments::Crop>(&op)) size = crop->size;
    if (const auto* crop = std::get_if<augments::RandomResizedCrop>(&op)) size = crop->size;
  }
  return size;
}

namespace {

/// Collects the faults of ops in order while it tracks the size of the rows.
class AugmentExamination {
 public:
  explicit AugmentExamination(const AugmentedRows& rows) : rows_(rows) {}

  void check(size_t index, const Augment& op) {
    index_ = index;
    if (erased_ && !is_erasure(op))
      add(fmt::format("`{}` follows an op that acts after normalization", type_name(op)),
          "move `erase` and `cutout` to the end of the list");
    erased_ = erased_ || is_erasure(op);
    std::visit([&](const auto& record) { check(record); }, op);
  }
  std::vector<AugmentFault> faults() && { return std::move(faults_); }

 private:
  void check(const augments::Flip&) {}
  void check(const augments::Cutout&) {}
  void check(const augments::Brightness&) { check_photometric("brightness"); }
  void check(const augments::Contrast&) { check_photometric("contrast"); }
  void check(const augments::Saturation&) {
    check_photometric("saturation");
    if (rows_.channels == 1)
      add("`saturation` on images of 1 channel; expected 3", "remove it, or use channels: rgb");
  }
  void check(const augments::Crop& crop) {
    if (rows_.size) check_fit(crop);
    rows_.size = crop.size;
  }
  void check(const augments::RandomResizedCrop& crop) {
    check_order("area", crop.area);
    check_order("aspect", crop.aspect);
    rows_.size = crop.size;
  }
  void check(const augments::Erase& erase) {
    check_order("area", erase.area);
    check_order("aspect", erase.aspect);
  }

  void check_photometric(std::string_view type) {
    if (!rows_.uint8)
      add(fmt::format("`{}` on rows that are not uint8", type),
          "use only crops and flips for rows of this type");
    if (rows_.channels && *rows_.channels != 1 && *rows_.channels != 3)
      add(fmt::format("`{}` on images of {} channels; expected 1 or 3", type, *rows_.channels),
          "use channels: rgb or channels: grey");
  }
  void check_fit(const augments::Crop& crop) {
    const auto [height, width] = *rows_.size;
    if (crop.size[0] > height + 2 * crop.pad || crop.size[1] > width + 2 * crop.pad)
      add(fmt::format("`crop` of [{}, {}] does not fit into images of [{}, {}] with {} pixels of "
                      "padding",
                      crop.size[0], crop.size[1], height, width, crop.pad),
          "use a smaller crop or a larger size");
  }
  void check_order(std::string_view key, const augments::Interval& interval) {
    if (!(interval[0] <= interval[1]))
      add(fmt::format("`{}` is [{}, {}]; expected the smaller number first", key, interval[0],
                      interval[1]),
          "swap the numbers");
  }
  void add(std::string message, std::string hint) {
    faults_.push_back({index_, std::move(message), std::move(hint)});
  }

  AugmentedRows rows_;
  size_t index_ = 0;
  bool erased_ = false;
  std::vector<AugmentFault> faults_;
};

}  // namespace

std::vector<AugmentFault> faults_of(const std::vector<Augment>& ops, const AugmentedRows& rows) {
  AugmentExamination examination(rows);
  for (size_t i = 0; i < ops.size(); ++i) examination.check(i, ops[i]);
  return std::move(examination).faults();
}

}  // namespace flow::plan
