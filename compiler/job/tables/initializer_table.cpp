// How variables start, and what keeps their weights small.
#include "compiler/ir/initializers.h"
#include "compiler/job/tables/key_makers.h"
#include "compiler/job/tables/record_keys.h"
#include "compiler/job/tables/tables.h"

namespace flow::job {

const VariantKind& initializers() {
  static const VariantKind kKind{.key = "initializer",
                                 .noun = "initializer",
                                 .variants = variants_of(WrittenInitializer()),
                                 .common = {},
                                 .by_word = true,
                                 .number = "constant"};
  return kKind;
}

const Section& regularizer_section() {
  // The gradients of sums, whose elements can be counted, meet a multiple of it.
  static const Bounds kBounds{.min = 0, .max = 1e30};
  static const Section kSection{
      .what = "a regularizer",
      .keys = {{"l1", kNumber, "none", "L1 coefficient: adds l1 sign(w) to the gradient of w",
                kBounds},
               {"l2", kNumber, "none", "L2 coefficient: adds l2 w to the gradient of w", kBounds}},
      .one_of = {"l1", "l2"}};
  return kSection;
}

}  // namespace flow::job
