// The page of files that a run writes.
#include <fmt/format.h>

#include "cli/reference/pages.h"
#include "cli/reference/run_files_table.h"

namespace flow::cli {

std::string files_page() {
  std::string text =
      "# Files of a run\n\n`flowrun` writes these files to the run directory: `-o DIR`, or "
      "`runs/FILE-JOB-NNN`. `flowrun` writes `run.json` last. Its absence means that the run "
      "is still active or was killed.\n\n| path | contents |\n| --- | --- |\n";
  for (const FileRow& row : run_files()) text += fmt::format("| `{}` | {} |\n", row.path, row.doc);
  text +=
      "\n## Files of a checkpoint\n\nA checkpoint is a directory. Each variable is a `.npy` file "
      "under its name.\n\n| path | contents |\n| --- | --- |\n";
  for (const FileRow& row : checkpoint_files())
    text += fmt::format("| `{}` | {} |\n", row.path, row.doc);
  text +=
      "\n## Rows of `metrics.jsonl`\n\nEach line is a JSON object.\n\n| key | meaning |\n| --- "
      "| --- |\n";
  for (const FileRow& row : metrics_keys())
    text += fmt::format("| `{}` | {} |\n", row.path, row.doc);
  return text;
}

}  // namespace flow::cli
