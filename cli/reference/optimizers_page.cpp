// The pages of optimizers and of learning rates.
#include <fmt/format.h>

#include "cli/reference/key_text.h"
#include "cli/reference/pages.h"
#include "compiler/job/tables/optimizer_table.h"

namespace flow::cli {
namespace {

std::string kind_text(const job::VariantKind& kind, std::string_view page) {
  return fmt::format("\n## {}\n{}", kind_title(kind), variant_text(kind, page, 3));
}

}  // namespace

std::string optimizers_page() {
  constexpr std::string_view kPage = "optimizers";
  const job::VariantKind& kind = job::optimizers();
  std::string text =
      "# Optimizers\n\n`optimizer:` of a train job is a mapping. `type:` selects the optimizer. In "
      "formulas `w` is a variable, `g` its gradient and `lr` the learning rate.\n\n## Keys of "
      "every optimizer\n\n" +
      key_table(kind.common, kPage) + variant_text(kind, kPage, 2);
  const job::Section& scales = job::learning_rate_scales();
  text += fmt::format("\n## {}\n\n{}", section_title(scales.what), each_table(scales, kPage));
  text += kind_text(job::grad_clippings(), kPage) + kind_text(job::loss_scales(), kPage);
  for (const job::Section* section : {&job::ema_section(), &job::lookahead_section()})
    text +=
        fmt::format("\n## {}\n\n{}", section_title(section->what), key_table(section->keys, kPage));
  return text;
}

std::string schedules_page() {
  constexpr std::string_view kPage = "schedules";
  const job::VariantKind& kind = job::learning_rates();
  return fmt::format(
             "# Schedules\n\n`learning_rate:` of an optimizer is a number or one of these "
             "schedules, a mapping with `type:`. In formulas `step` counts from 0.\n\n## Keys of "
             "every schedule\n\n{}",
             key_table(kind.common, kPage)) +
         kind_text(kind, kPage) + kind_text(job::warmups(), kPage);
}

}  // namespace flow::cli
