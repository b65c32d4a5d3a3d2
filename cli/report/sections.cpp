// What all sections share.
#include "cli/report/sections.h"

#include <fmt/format.h>

namespace flow::cli::report {

std::string class_of_run(size_t run) {
  constexpr size_t kColors = 8, kDashes = 4;
  return fmt::format("c{} d{}", run % kColors, run / kColors % kDashes);
}

Html section(std::string_view id, std::string_view title, std::string_view remark, Html body) {
  return fragment("section", {{"id", Html::text(id)},
                              {"title", Html::text(title)},
                              {"remark", Html::text(remark)},
                              {"body", std::move(body)}});
}

}  // namespace flow::cli::report
