// Texts as rows of token ids: lines of files, cells of CSV and tar files, and whole files as a
// stream of ids.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/data/sources/cell_place.h"
#include "runtime/data/sources/source_rows.h"
#include "runtime/data/text/token_rows.h"
#include "runtime/plan/model/dataset.h"

namespace flow::data {

/// A function that calls its argument with the text of each row, in order.
using VisitTexts = std::function<void(const std::function<void(std::string_view)>&)>;

/// Opens the texts of cells. `rows` are their places and bad rows. Throws RunError if the files of
/// the tokenizer do not fit.
std::unique_ptr<SourceRows> open_text_cells(const plan::Column& column, const fs::path& root,
                                            const VisitTexts& visit, CellPlace place,
                                            std::vector<int64_t> bad_rows,
                                            std::function<RunError(int64_t)> bad_row,
                                            std::vector<int64_t> file_starts);

/// Opens the lines of text files. Throws RunError as TextLines.
std::unique_ptr<SourceRows> open_text_lines(const plan::Column& column, const fs::path& root,
                                            const std::vector<fs::path>& files);

/// Opens text files as one stream, whose rows are single ids. Throws RunError as TokenStream.
std::unique_ptr<SourceRows> open_text_stream(const plan::Column& column, const fs::path& root,
                                             const std::vector<fs::path>& files);

}  // namespace flow::data
