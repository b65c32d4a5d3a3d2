// Names, sizes and faults of lists of augmentation ops.
#include <catch2/catch.hpp>

#include "runtime/plan/model/augment.h"

namespace flow::plan {
namespace {

using namespace augments;

std::vector<std::string> messages(const std::vector<Augment>& ops, const AugmentedRows& rows = {}) {
  std::vector<std::string> texts;
  for (const AugmentFault& fault : faults_of(ops, rows))
    texts.push_back(std::to_string(fault.op) + ": " + fault.message);
  return texts;
}

using Messages = std::vector<std::string>;

TEST_CASE("repeated ops are numbered", "[data]") {
  CHECK(names_of({Flip{}, Crop{}, Flip{}, Cutout{}, Flip{}, Crop{}}) ==
        Messages{"flip", "crop", "flip/2", "cutout", "flip/3", "crop/2"});
}

TEST_CASE("the last crop determines the size", "[data]") {
  CHECK(size_after({Flip{}, Cutout{}}) == std::nullopt);
  CHECK(size_after({Crop{{9, 8}, 0}, RandomResizedCrop{{5, 6}}, Flip{}}) == Extents{5, 6});
}

TEST_CASE("ops in the right order on images of the right type have no faults", "[data]") {
  CHECK(messages({Crop{{32, 32}, 4}, Flip{}, Saturation{1}, Cutout{4}, Erase{}},
                 {3, Extents{32, 32}, true})
            .empty());
  CHECK(messages({Crop{{40, 40}, 4}}, {3, Extents{32, 32}, true}).empty());
  CHECK(messages({RandomResizedCrop{{224, 224}}, Crop{{200, 224}}}, {1, Extents{8, 8}, false})
            .empty());
}

TEST_CASE("faults name the op", "[data]") {
  CHECK(messages({Cutout{4}, Flip{}}) ==
        Messages{"1: `flip` follows an op that acts after normalization"});
  CHECK(messages({Contrast{1}}, {{}, {}, false}) ==
        Messages{"0: `contrast` on rows that are not uint8"});
  CHECK(messages({RandomResizedCrop{{4, 4}}}, {3, {}, false, false}) ==
        Messages{"0: `random_resized_crop` on rows that are not uint8 or uint16"});
  CHECK(messages({Brightness{1}}, {4, {}, true}) ==
        Messages{"0: `brightness` on images of 4 channels; expected 1 or 3"});
  CHECK(messages({Saturation{1}}, {1, {}, true}) ==
        Messages{"0: `saturation` on images of 1 channel; expected 3"});
  CHECK(messages({Crop{{41, 9}, 4}}, {1, Extents{32, 32}, true}) ==
        Messages{"0: `crop` of [41, 9] does not fit into images of [32, 32] with 4 pixels of "
                 "padding"});
  CHECK(messages({Erase{0.5, {0.5, 0.25}, {3, 2}}}) ==
        Messages{"0: `area` is [0.5, 0.25]; expected the smaller number first",
                 "0: `aspect` is [3, 2]; expected the smaller number first"});
}

}  // namespace
}  // namespace flow::plan
