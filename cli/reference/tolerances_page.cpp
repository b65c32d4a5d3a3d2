// The page of tolerances.yaml.
#include "cli/reference/key_text.h"
#include "cli/reference/pages.h"
#include "compiler/tolerances/tolerances.h"

namespace flow::cli {

std::string tolerances_page() {
  constexpr std::string_view kPage = "tolerances";
  const job::Section& entry = tolerances::entry_section();
  const job::KeyDef& steps = *job::find_key(entry.keys, "steps");
  return "# Tolerances\n\n`tolerances.yaml` in a golden directory sets the tolerances of "
         "`flowdiff GOLDEN OUT`. An element passes if |out - golden| <= atol + rtol * |golden|. "
         "The "
         "key of a tolerance is a glob of the names of arrays; of several that match, the last one "
         "applies.\n\n```yaml\narrays:\n  \"returns/**\": {rtol: 1e-5, atol: 1e-7, reason: threads "
         "sum in another order}\n  \"checkpoint/**\":\n    atol: 1e-4\n    steps: {0..10: {atol: "
         "1e-6}}\n    reason: errors grow with each step\n```\n\n## File\n\n" +
         key_table(tolerances::file_section().keys, kPage) + "\n## `arrays`\n\n" +
         each_table(*tolerances::file_section().keys[0].section, kPage) + "\n## Tolerance\n\n" +
         key_table(entry.keys, kPage) +
         "\nOne of `rtol`, `atol` and `steps` is required.\n\n## `steps` of a tolerance\n\n" +
         each_table(*steps.section, kPage) + "\n## Tolerance of steps\n\n" +
         key_table(steps.section->each->section->keys, kPage);
}

}  // namespace flow::cli
