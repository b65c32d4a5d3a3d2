// Lists folders of images.
#include "runtime/data/sources/image_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "runtime/data/files/folder.h"
#include "runtime/data/sources/category_rows.h"
#include "runtime/data/sources/image_rows.h"
#include "runtime/data/text/tokenizer.h"

namespace flow::data {
namespace {

/// The images of one or several folders.
struct Folders {
  std::vector<std::string> names;  // as messages show them: "pets/cat/1.jpg"
  std::vector<fs::path> paths;
  std::vector<std::string> classes;  // by image; empty for an image without a folder
  std::vector<std::string> all_classes;
  std::vector<int64_t> starts;  // the first image of each folder
};

Folders list_folders(const plan::Column& column, const fs::path& root) {
  Folders all;
  for (const std::string& folder : column.files) {
    all.starts.push_back(static_cast<int64_t>(all.names.size()));
    const ImageFolder images = list_images((root / folder).lexically_normal());
    for (const FileState& image : images.images) {
      all.names.push_back((fs::path(folder) / image.name).string());
      all.paths.push_back(root / folder / image.name);
      all.classes.emplace_back(class_of(image.name));
    }
    for (const std::string& name : images.classes)
      if (const auto problem = utf8_problem(name))
        throw RunError(fmt::format("the name of a class in {}: {}", folder, problem->message),
                       "rename the folder in UTF-8");
    all.all_classes.insert(all.all_classes.end(), images.classes.begin(), images.classes.end());
  }
  return all;
}

class FolderImages : public ImageFiles {
 public:
  explicit FolderImages(Folders folders) : folders_(std::move(folders)) {}
  int64_t rows() const override { return static_cast<int64_t>(folders_.names.size()); }
  std::span<const std::byte> bytes(int64_t row, std::vector<std::byte>& memory) const override {
    return read_image_file(folders_.paths[static_cast<size_t>(row)], row_text(row), memory);
  }
  std::string row_text(int64_t row) const override {
    return folders_.names[static_cast<size_t>(row)];
  }
  std::vector<int64_t> file_starts() const override { return folders_.starts; }

 private:
  Folders folders_;
};

std::shared_ptr<SourceRows> open_classes(const plan::Column& column, const fs::path& root,
                                         Folders folders) {
  CategoryCells cells;
  std::map<std::string, int32_t> ids;
  for (size_t i = 0; i < folders.classes.size(); ++i) {
    const std::string& name = folders.classes[i];
    if (name.empty()) cells.bad_rows.push_back(static_cast<int64_t>(i));
    const auto [at, fresh] = ids.emplace(name, static_cast<int32_t>(cells.texts.size()));
    if (fresh) cells.texts.push_back(name);
    cells.ids.push_back(at->second);
  }
  cells.file_starts = folders.starts;
  const auto names = std::make_shared<const std::vector<std::string>>(std::move(folders.names));
  const CellPlace place = [names](int64_t row) { return (*names)[static_cast<size_t>(row)]; };
  const auto bad_row = [place](int64_t row) {
    return RunError(place(row) + ": the image is in no folder that names its class",
                    "move it into the folder of its class");
  };
  return std::make_shared<CategoryRows>(std::move(cells), *column.cell,
                                        listed_categories(column, root), place, bad_row,
                                        std::move(folders.all_classes));
}

}  // namespace

std::shared_ptr<SourceRows> open_image_folder(const plan::Column& column, const fs::path& root) {
  Folders folders = list_folders(column, root);
  if (column.image->take == plan::ImageFormat::Take::kClass)
    return open_classes(column, root, std::move(folders));
  return std::make_shared<ImageRows>(*column.image,
                                     std::make_unique<FolderImages>(std::move(folders)));
}

}  // namespace flow::data
