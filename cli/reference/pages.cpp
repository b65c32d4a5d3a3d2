// The list of pages.
#include "cli/reference/pages.h"

namespace flow::cli {

std::span<const ReferencePage> reference_pages() {
  static constexpr ReferencePage kPages[] = {
      {"job", "every key of a job file", job_page},
      {"ops", "every op with its operands, attributes and results", ops_page},
      {"optimizers", "optimizers, gradient clipping and loss scales", optimizers_page},
      {"schedules", "learning rate schedules and warm-ups", schedules_page},
      {"errors", "every error code with its explanation", errors_page},
      {"files", "the files that a run writes", files_page},
      {"tolerances", "every key of tolerances.yaml", tolerances_page},
      {"environment", "environment variables", environment_page},
  };
  return kPages;
}

}  // namespace flow::cli
