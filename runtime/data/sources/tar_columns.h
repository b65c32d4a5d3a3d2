// Columns of tar files in the format of WebDataset. Columns of the same files share their indexes.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "runtime/data/sources/source_rows.h"
#include "runtime/plan/model/dataset.h"

namespace flow::data {

/// Opens tar columns of the same files. Throws RunError as TarShard.
std::vector<std::shared_ptr<SourceRows>> open_tar_columns(
    std::span<const plan::Column* const> columns, const fs::path& root);

}  // namespace flow::data
