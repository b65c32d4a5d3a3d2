// Checks the keys of a column together, and determines the shape of its rows.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "compiler/job/read/sections.h"
#include "compiler/job/tables/tables.h"
#include "compiler/job/text/values.h"
#include "runtime/base/text.h"

namespace flow::job {
namespace {

using plan::CellType;
using plan::Replacement;
using plan::SourceKind;

/// Checks one column and reports its errors at the keys.
class ColumnRules {
 public:
  ColumnRules(const Fields& fields, plan::Column& column) : fields_(fields), column_(column) {}

  void check() {
    if (column_.csv) check_csv();
    if (column_.cell) check_cells();
    if (column_.text) check_text();
    if (column_.tar) check_tar();
    if (column_.image) check_image();
  }

 private:
  template <typename... Args>
  Diag& error(std::string_view key, fmt::format_string<Args...> format, Args&&... args) {
    const yaml::Node* node = fields_.find(key);
    return fields_.reader().error(Diagnosis::kBadColumn, node ? node->span : fields_.owner(),
                                  fmt::format(format, std::forward<Args>(args)...));
  }

  void check_csv() {
    plan::CsvFormat& csv = *column_.csv;
    if (fields_.find("column") && fields_.find("columns"))
      error("columns", "column `{}` has both `column` and `columns`; expected one of them",
            column_.name);
    const bool named = csv.column.empty() && csv.columns.empty();
    if (named) csv.column = column_.name;
    if (csv.delimiter == csv.quote)
      error("delimiter", "`delimiter` and `quote` are both `{}`", csv.quote);
    if (csv.decimal == csv.thousands)
      error("decimal", "`decimal` and `thousands` are both `{}`", csv.decimal);
    if (csv.header) return;
    const auto is_index = [](const std::string& text) {
      const auto index = parse_bound(text);
      return index && *index >= 0;
    };
    if (!csv.column.empty() && !is_index(csv.column))
      error("column", "`column` is `{}`; a file without a header requires an index", csv.column)
          .with_hint(named ? "add `column: 0`, the index of the column" : "");
    for (const std::string& text : csv.columns) {
      const auto range = parse_range(text);
      if (!is_index(text) && !(range && 0 <= range->first && range->first < range->second))
        error("columns", "`columns` contains `{}`; a file without a header requires indices", text)
            .with_hint("write indices and ranges, such as `[0, 4..8]`");
    }
  }

  bool is(CellType type) const { return column_.cell->type == type; }
  bool is_number() const {
    return is(CellType::kNumber) || is(CellType::kInteger) || is(CellType::kBool);
  }

  void check_cells() {
    plan::CellRules& cell = *column_.cell;
    settle_missing(cell.missing);
    settle_unknown(cell.unknown);
    if (cell.max_categories > 0) check_max_categories(cell);
    const bool listed =
        is(CellType::kCategory) && cell.categories->kind == plan::Categories::Kind::kListed;
    if (!listed) return;
    const std::vector<std::string>& names = cell.categories->names;
    const auto require = [&](std::string_view key, const Replacement& replacement) {
      if (replacement.kind == Replacement::Kind::kCategory &&
          std::ranges::count(names, replacement.category) == 0)
        error(key, "`{}` is `{}`, which is not one of the categories", key, replacement.category)
            .with_hint(suggestion(replacement.category, names));
    };
    require("missing", cell.missing);
    require("unknown", cell.unknown);
  }

  /// Decides between the number and the category that the text can be.
  void settle_missing(Replacement& missing) {
    using Kind = Replacement::Kind;
    const bool number = missing.kind == Kind::kMean || missing.kind == Kind::kMedian;
    if (is(CellType::kCategory)) {
      if (missing.kind == Kind::kNumber) missing.kind = Kind::kCategory;
      if (number)
        error("missing", "`missing` is `{}`, but `{}` is a column of categories",
              plan::enum_name(missing.kind), column_.name)
            .with_hint("write `extra`, a category, or `{{category: {}}}`",
                       plan::enum_name(missing.kind));
    } else if (missing.kind == Kind::kExtra || missing.kind == Kind::kCategory) {
      error("missing", "`missing` is `{}`; expected `error`, `mean`, `median` or a number",
            missing.kind == Kind::kExtra ? "extra" : missing.category)
          .with_hint("only columns of type category have categories");
    }
    if (missing.kind != Kind::kCategory) missing.category.clear();
    if (missing.kind != Kind::kNumber) missing.number = 0;
  }

  /// Every text but `error` and `extra` is a category.
  static void settle_unknown(Replacement& unknown) {
    using Kind = Replacement::Kind;
    if (unknown.kind == Kind::kMean || unknown.kind == Kind::kMedian)
      unknown.category = plan::enum_name(unknown.kind);
    if (unknown.kind != Kind::kError && unknown.kind != Kind::kExtra)
      unknown.kind = Kind::kCategory;
    unknown.number = 0;
  }

  void check_max_categories(const plan::CellRules& cell) {
    if (cell.categories && cell.categories->kind != plan::Categories::Kind::kLearned)
      error("max_categories", "`max_categories` requires `categories: learn`");
    if (cell.unknown.kind == Replacement::Kind::kError)
      error("max_categories", "`max_categories` requires `unknown`")
          .with_hint("add `unknown: extra`, or a category: all other values become it");
  }

  void check_text() {
    const plan::TextFormat& text = *column_.text;
    const bool stream = column_.source == SourceKind::kText && !text.lines;
    if (stream && !column_.window)
      fields_.reader()
          .error(Diagnosis::kBadColumn, fields_.owner(),
                 "column `{}` is a stream of tokens; expected `window` or `lines: true`",
                 column_.name)
          .with_hint("add `window: {length: 128}`");
    if (!stream && column_.window)
      error("window", "`window` requires a stream of tokens, without `lines: true`");
    if (stream) {
      for (const char* key : {"take", "length", "truncate", "pad", "pad_side"})
        if (fields_.find(key)) error(key, "`{}` requires `lines: true`", key);
      return;
    }
    if (text.take == plan::TextFormat::Take::kIds && text.length == 0)
      fields_.reader()
          .error(Diagnosis::kBadColumn, fields_.owner(), "column `{}` requires `length`",
                 column_.name)
          .with_hint("add `length: 64`, the number of ids in a row");
    if (text.length > 0 && text.length < text.begin.has_value() + text.end.has_value())
      error("length", "`length` is {}, which has no place for `begin` and `end`", text.length);
  }

  void check_tar() {
    const bool json = std::ranges::count(column_.tar->field, "json") > 0;
    if (json && column_.tar->pointer.empty() && !is(CellType::kImage) && !is(CellType::kText))
      error("field", "the field json requires `pointer`")
          .with_hint("add `pointer: /KEY`, the place of the value in the JSON text");
    if (!column_.tar->pointer.empty() && !json)
      error("pointer", "`pointer` requires the field json");
  }

  void check_image() {
    const plan::ImageFormat& image = *column_.image;
    if (image.bits != 8 && image.bits != 16)
      error("bits", "`bits` is {}; expected 8 or 16", image.bits);
    if (image.bits == 8 && image.fill > 255)
      error("fill", "`fill` is {}; expected at most 255", image.fill);
    if (!image.size && fields_.find("fit"))
      error("fit", "`fit` requires `size`").with_hint("add `size: [224, 224]`");
    const yaml::Node* list = fields_.find("augment");
    for (const plan::AugmentFault& fault :
         plan::faults_of(image.augment, plan::rows_before_augment(image))) {
      const bool has_item = list && fault.op < list->items.size();
      fields_.reader()
          .error(Diagnosis::kBadColumn, has_item ? list->items[fault.op].span : fields_.owner(),
                 fault.message)
          .with_hint(fault.hint);
    }
  }

  const Fields& fields_;
  plan::Column& column_;
};

RowForm known(std::vector<std::optional<int64_t>> extents) {
  return {.extents = std::move(extents), .open = false};
}

const RowForm kScalar{.extents = {}, .open = false, .scalar = true};

/// Returns the number of columns that a list of a CSV file selects, or nothing if it has globs.
std::optional<int64_t> count_columns(const plan::CsvFormat& csv) {
  int64_t count = 0;
  for (const std::string& text : csv.columns) {
    if (csv.header && text.find('*') != text.npos) return {};
    const auto range = parse_range(text);
    if (csv.header || !range) {
      ++count;
    } else {
      if (range->second == Hook::kForever) return {};
      count += range->second - range->first;
    }
    if (count > static_cast<int64_t>(plan::kMostExtent)) return {};
  }
  return count;
}

RowForm form_of_image(const plan::ImageFormat& image) {
  const plan::AugmentedRows rows = plan::rows_before_augment(image);
  const auto size = plan::size_after(image.augment);
  const auto sides = size ? size : rows.size;
  if (!sides) return known({rows.channels, {}, {}});
  return known({rows.channels, (*sides)[0], (*sides)[1]});
}

RowForm form_of_cell(const plan::Column& column) {
  const plan::CellRules& cell = *column.cell;
  switch (cell.type) {
    case CellType::kImage:
      return form_of_image(*column.image);
    case CellType::kNpy:
      return {};
    case CellType::kText:
      if (column.source == SourceKind::kText && !column.text->lines) return kScalar;
      if (column.text->take == plan::TextFormat::Take::kLengths) return kScalar;
      return known({column.text->length});
    default:
      break;
  }
  RowForm form = kScalar;
  if (column.csv && !column.csv->columns.empty()) form = known({count_columns(*column.csv)});
  if (cell.one_hot > 0) {
    form.extents.push_back(cell.one_hot);
    form.scalar = false;
  }
  return form;
}

RowForm form_of_source_row(const plan::Column& column, const std::optional<Shape>& shape) {
  if (shape) return known({shape->begin(), shape->end()});
  if (column.cell) return form_of_cell(column);
  return column.source == SourceKind::kBin && column.window ? kScalar : RowForm();
}

}  // namespace

void check_column(const Fields& fields, plan::Column& column) {
  ColumnRules(fields, column).check();
}

RowForm row_form(const plan::Column& column, const std::optional<Shape>& shape) {
  RowForm form = form_of_source_row(column, shape);
  if (!column.window) return form;
  form.extents.insert(form.extents.begin(), column.window->length);
  form.scalar = false;
  return form;
}

bool RowForm::is_exact() const {
  return !open && !scalar &&
         std::ranges::all_of(extents, [](const auto& extent) { return extent.has_value(); });
}

bool RowForm::accepts(const Shape& row) const {
  if (scalar) return row.checked_elements() == 1;
  const auto rank = static_cast<size_t>(row.rank());
  if (rank < extents.size() || (rank > extents.size() && !open)) return false;
  for (size_t i = 0; i < extents.size(); ++i)
    if (extents[i].value_or(row[static_cast<int>(i)]) != row[static_cast<int>(i)]) return false;
  return true;
}

std::string RowForm::str() const {
  std::vector<std::string> texts;
  for (const auto& extent : extents) texts.push_back(extent ? std::to_string(*extent) : "?");
  if (open) texts.emplace_back("...");
  return fmt::format("[{}]", join(texts, ", "));
}

}  // namespace flow::job
