// Finds the files of a column.
#include "runtime/data/sources/column_files.h"

#include "runtime/data/files/folder.h"

namespace flow::data {

std::vector<fs::path> files_of(const plan::Column& column, const fs::path& root) {
  std::vector<fs::path> files;
  for (const std::string& file : expand_paths(column.files, root)) {
    const fs::path path = (root / file).lexically_normal();
    if (column.source != plan::SourceKind::kImages) {
      files.push_back(path);
      continue;
    }
    for (const FileState& image : list_images(path).images) files.push_back(path / image.name);
  }
  return files;
}

std::vector<fs::path> helper_files_of(const plan::Column& column, const fs::path& root) {
  std::vector<fs::path> files;
  const auto add = [&](const std::string& file) {
    if (!file.empty()) files.push_back((root / file).lexically_normal());
  };
  if (column.cell && column.cell->categories) add(column.cell->categories->file);
  if (column.text) {
    add(column.text->tokenizer.vocab);
    add(column.text->tokenizer.merges);
    add(column.text->tokenizer.json);
  }
  return files;
}

}  // namespace flow::data
