// Columns of a folder of images: the images, and the classes that their folders name.
#pragma once

#include <memory>

#include "runtime/data/sources/source_rows.h"
#include "runtime/plan/model/dataset.h"

namespace flow::data {

/// Opens the images of a folder, or the first folder of their paths as categories. Throws RunError
/// if the folder cannot be read or has no images.
std::shared_ptr<SourceRows> open_image_folder(const plan::Column& column, const fs::path& root);

}  // namespace flow::data
