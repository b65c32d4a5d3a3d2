// Implements `flowc init --from`: examines data and drafts a job file for it.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <set>

#include "cli/flowc/flowc.h"
#include "cli/flowc/job_draft.h"
#include "cli/shared/console.h"
#include "runtime/base/display.h"
#include "runtime/base/text.h"
#include "runtime/data/files/folder.h"
#include "runtime/data/image/decode.h"
#include "runtime/data/sources/image_rows.h"
#include "runtime/data/summary/detect.h"

namespace flow::cli {
namespace {

using data::DetectedColumn;
using data::DetectedCsv;
using Type = DetectedColumn::Type;

/// The fraction of the rows that are used for validation, and their number among `rows` rows.
constexpr double kValidation = 0.1;
int64_t validation_rows(int64_t rows) {
  return static_cast<int64_t>(std::floor(kValidation * static_cast<double>(rows) + 0.5));
}

/// Returns a batch size with which an epoch has several steps.
int64_t batch_for(int64_t training_rows) {
  constexpr int64_t kSteps = 8, kLargest = 64;
  const auto most = static_cast<uint64_t>(std::clamp(training_rows / kSteps, int64_t{1}, kLargest));
  return static_cast<int64_t>(std::bit_floor(most));
}

/// Returns the path of the data relative to the folder of the job file.
std::string path_from(const fs::path& job, const fs::path& data) {
  if (data.is_absolute()) return yaml_text(data.string());
  const fs::path folder = fs::absolute(job).parent_path();
  return yaml_text(fs::absolute(data).lexically_proximate(folder).string());
}

/// Decides whether the rows are split by class, and checks that there are enough of them.
/// `class_rows` has the number of rows of each class, or only the number of all rows if the target
/// is a number.
bool splits_by_class(const std::vector<int64_t>& class_rows, const std::string& data) {
  int64_t rows = 0, by_class = 0;
  for (const int64_t count : class_rows) {
    rows += count;
    by_class += validation_rows(count);
  }
  if (validation_rows(rows) == 0)
    throw RequestError(fmt::format("{} has {} that can be used; expected at least 5", data,
                                   counted(static_cast<uint64_t>(rows), "row")),
                       "add rows, or choose another column with --target");
  return class_rows.size() > 1 && by_class > 0;
}

/// Returns the notes about the columns that are left out, at most ten.
std::vector<std::string> shortened_notes(std::vector<std::string> notes) {
  constexpr size_t kMost = 10;
  if (notes.size() <= kMost) return notes;
  const size_t more = notes.size() - kMost;
  notes.resize(kMost);
  notes.push_back(fmt::format("{} more are left out.", counted(more, "column")));
  return notes;
}

/// Drafts a job for the columns of a CSV file.
class CsvDraft {
 public:
  CsvDraft(const fs::path& file, const DetectedCsv& csv, const std::string& target)
      : csv_(csv), target_(find_target(file, target)) {
    draft_.data = file.string();
    check_target();
    sort_columns();
  }

  const DetectedColumn& target() const { return target_; }

  JobDraft draft(const fs::path& job) {
    std::set<std::string> taken;
    draft_.file = job.string();
    draft_.dataset = draft_name(fs::path(draft_.data).stem().string(), taken);
    draft_.target = draft_name(key_of(target_), taken);
    draft_.what = fmt::format("`{}` from the other columns of {}", target_.name, draft_.data);
    write_data(job, taken);
    write_vars();
    draft_.notes = shortened_notes(std::move(draft_.notes));
    return std::move(draft_);
  }

 private:
  const DetectedColumn& find_target(const fs::path& file, const std::string& name) const {
    if (name.empty()) return csv_.columns.back();
    const auto found = std::ranges::find(csv_.columns, name, &DetectedColumn::name);
    if (found != csv_.columns.end()) return *found;
    std::vector<std::string> names;
    for (const DetectedColumn& column : csv_.columns) names.push_back(column.name);
    throw unknown_name(fmt::format("{} has no column `{}`", file.string(), name), name, names,
                       "list the columns: head -1 " + file.string());
  }

  bool is_number() const { return target_.type == Type::kNumber && !is_class_number(); }
  bool is_class_number() const {
    constexpr size_t kMostClasses = 20;
    return target_.is_whole && target_.values && target_.values->size() <= kMostClasses;
  }

  void check_target() {
    const std::string what = fmt::format("column `{}` of {}", target_.name, draft_.data);
    const char* const hint = "choose another column with --target";
    if (target_.is_constant()) throw RequestError(what + " has fewer than two values", hint);
    if (const std::string reason = unusable_name(target_); !reason.empty())
      throw RequestError(what + " " + reason, hint);
    std::vector<int64_t> class_rows = {csv_.rows - target_.missing};
    if (!is_number()) {
      if (!target_.values || target_.values->size() > csv_.most_categories())
        throw RequestError(what + " has too many different values to be a class", hint);
      class_rows.clear();
      for (const auto& [name, rows] : *target_.values) {
        draft_.classes.push_back(name);
        class_rows.push_back(rows);
      }
    }
    splits_by_class_ = splits_by_class(class_rows, draft_.data);
  }

  /// Returns why a column cannot be read by its name, or an empty text.
  std::string unusable_name(const DetectedColumn& column) const {
    if (column.name.empty()) return "has no name";
    if (std::ranges::count(csv_.columns, column.name, &DetectedColumn::name) > 1)
      return "has a name that occurs twice";
    return column.name.find('*') != std::string::npos ? "has a name with `*`" : "";
  }

  /// Returns why a column is left out, or an empty text.
  std::string reason_to_leave_out(const DetectedColumn& column) const {
    if (column.is_constant()) return "has fewer than two values";
    if (std::string reason = unusable_name(column); !reason.empty()) return reason;
    if (column.type != Type::kCategory) return {};
    if (!column.values) return "has too many different values";
    return column.values->size() > csv_.most_categories()
               ? fmt::format("has {} different values", column.values->size())
               : "";
  }

  void sort_columns() {
    for (const DetectedColumn& column : csv_.columns) {
      if (&column == &target_) continue;
      if (const std::string reason = reason_to_leave_out(column); !reason.empty())
        draft_.notes.push_back(
            fmt::format("Column `{}` is left out: it {}.", shortened(column.name), reason));
      else
        (column.type == Type::kNumber ? numbers_
         : column.type == Type::kBool ? flags_
                                      : categories_)
            .push_back(&column);
    }
    if (numbers_.empty() && flags_.empty() && categories_.empty())
      throw RequestError(
          fmt::format("{} has no column to predict `{}` from", draft_.data, target_.name),
          "use a file with more columns");
  }

  /// Returns the text from which the column's name in the job file is made.
  std::string key_of(const DetectedColumn& column) const {
    return csv_.header ? column.name : "column_" + column.name;
  }

  /// Returns "column: X, ", or an empty text if the header already names the column `name`.
  std::string column_key(const DetectedColumn& column, const std::string& name) const {
    return csv_.header && column.name == name
               ? ""
               : fmt::format("column: {}, ", csv_.header ? yaml_text(column.name) : column.name);
  }

  /// Returns the names of columns, or their indices, with consecutive indices joined into ranges.
  std::vector<std::string> columns_list(const std::vector<const DetectedColumn*>& columns) const {
    std::vector<std::string> items;
    if (csv_.header) {
      for (const DetectedColumn* column : columns) items.push_back(yaml_text(column->name));
      return items;
    }
    const auto index = [&](size_t i) { return columns[i] - csv_.columns.data(); };
    for (size_t first = 0, end = 0; first < columns.size(); first = end) {
      for (end = first + 1; end < columns.size() && index(end) == index(end - 1) + 1;) ++end;
      items.push_back(end - first == 1 ? fmt::format("{}", index(first))
                                       : fmt::format("{}..{}", index(first), index(end - 1) + 1));
    }
    return items;
  }

  /// Returns keys and the columns to which they apply. A long list of columns starts on a new line.
  std::string with_columns(const std::string& keys,
                           const std::vector<const DetectedColumn*>& columns) const {
    constexpr size_t kIndent = 14, kLongest = 40;
    const std::string list = yaml_list("columns", columns_list(columns), kIndent);
    return fmt::format("{},{}{}", keys,
                       list.size() > kLongest ? "\n" + std::string(kIndent, ' ') : " ", list);
  }

  void write_data(const fs::path& job, std::set<std::string>& taken) {
    std::vector<std::string>& lines = draft_.data_lines;
    std::vector<std::string> like;
    const auto add = [&](const std::string& name, const std::string& keys) {
      lines.push_back(fmt::format("    {}: {{{}}}", name, keys));
      if (name != draft_.target)
        like.push_back(fmt::format("    {0}: {{like: {1}.{0}}}", name, draft_.dataset));
    };
    lines.push_back(fmt::format("  {}:", draft_.dataset));
    lines.push_back(fmt::format("    defaults: {{{}}}", csv_keys(path_from(job, draft_.data))));
    lines.push_back(fmt::format("    options: {{{}}}", option_keys()));
    if (!numbers_.empty())
      add("numbers", with_columns("mean: learn, std: learn, missing: median", numbers_));
    if (!flags_.empty()) add("flags", with_columns("type: bool, missing: median", flags_));
    add_number_inputs();
    for (const DetectedColumn* column : categories_) {
      const std::string name = draft_name(key_of(*column), taken);
      add(name, column_key(*column, name) + "categories: learn, unknown: extra, missing: extra");
      draft_.inputs.push_back({name, "", "int32"});
      add_embedding(name, column->values->size() + 1);
    }
    add(draft_.target, column_key(target_, draft_.target) + target_keys());
    lines.push_back(
        fmt::format("  new:   # rows to predict: name a file of your own, which needs "
                    "no column for the target"));
    lines.push_back(fmt::format("    defaults: {{csv: {}}}", path_from(job, draft_.data)));
    if (csv_.bad_rows > 0) lines.push_back("    options: {on_bad_row: skip}");
    lines.insert(lines.end(), like.begin(), like.end());
    add_hidden_layers();
  }

  std::string csv_keys(const std::string& path) const {
    std::string keys = "csv: " + path;
    if (csv_.delimiter == '\t')
      keys += ", delimiter: \"\\t\"";
    else if (csv_.delimiter != ',')
      keys += fmt::format(", delimiter: \"{}\"", csv_.delimiter);
    if (!csv_.header) keys += ", header: false";
    return keys;
  }

  std::string option_keys() const {
    std::string split = fmt::format("validation: {}", kValidation);
    if (splits_by_class_) split += ", by: " + draft_.target;
    return fmt::format("split: {{{}}}{}", split, bad_rows() > 0 ? ", on_bad_row: skip" : "");
  }

  int64_t bad_rows() const { return csv_.bad_rows + target_.missing; }

  std::string target_keys() const {
    if (is_number()) return is_scaled() ? "mean: $mean, std: $std" : "type: number";
    std::vector<std::string> spellings;
    for (const std::string& text : target_.missing_spellings) spellings.push_back(yaml_text(text));
    return spellings.empty()
               ? "categories: learn"
               : fmt::format("categories: learn, missing_values: [{}]", join(spellings, ", "));
  }

  bool is_scaled() const { return is_number() && std::isfinite(target_.std) && target_.std > 0; }

  void add_number_inputs() {
    for (const auto& [name, columns] :
         {std::pair{"numbers", &numbers_}, std::pair{"flags", &flags_}})
      if (!columns->empty()) {
        draft_.inputs.push_back({name, fmt::format(", {}", columns->size()), "float32"});
        features_.emplace_back(name);
      }
  }

  void add_embedding(const std::string& name, size_t ids) {
    const int units = ids <= 10 ? 4 : ids <= 100 ? 8 : 16;
    draft_.graph_lines.push_back(
        fmt::format("      {0}_vector: {{op: embedding, in: {0}, vocab_size: {1}, units: {2}}}",
                    name, ids, units));
    features_.push_back(name + "_vector");
  }

  void add_hidden_layers() {
    std::string in = features_.front();
    if (features_.size() > 1) {
      in = "features";
      draft_.graph_lines.push_back(fmt::format("      features: {{op: concat, {}, axis: 1}}",
                                               yaml_list("in", features_, 17)));
    }
    draft_.graph_lines.push_back(
        fmt::format("      hidden: {{op: dense, in: {}, units: $units, activation: relu}}", in));
  }

  void write_vars() {
    const auto rounded = [](double value) {
      return shortest(std::stod(fmt::format("{:.4g}", value)));
    };
    const int64_t rows = csv_.rows - target_.missing;
    draft_.is_scaled = is_scaled();
    draft_.vars = {{"batch", std::to_string(batch_for(rows - validation_rows(rows)))},
                   {"epochs", "20"},
                   {"lr", "0.003"},
                   {"units", "64"}};
    if (draft_.is_scaled) {
      draft_.vars.emplace_back("mean", rounded(target_.mean));
      draft_.vars.emplace_back("std", rounded(target_.std));
    }
    if (bad_rows() > 0)
      draft_.notes.push_back(fmt::format(
          "{} left out: the number of fields is wrong, the text is not UTF-8, or `{}` is missing.",
          bad_rows() == 1 ? "1 row is" : fmt::format("{} rows are", bad_rows()), target_.name));
  }

  const DetectedCsv& csv_;
  const DetectedColumn& target_;
  bool splits_by_class_ = false;
  std::vector<const DetectedColumn*> numbers_, flags_, categories_;
  std::vector<std::string> features_;
  JobDraft draft_;
};

/// Returns the median of the images' shorter sides, rounded down to a multiple of 8 and clamped to
/// 16..64. Examines a sample of the images. Returns 64 if none of them can be read.
int64_t size_for(const fs::path& folder, const std::vector<data::FileState>& images) {
  constexpr size_t kSampled = 200;
  const size_t step = images.size() / kSampled + 1;
  std::vector<int64_t> sides;
  std::vector<std::byte> memory;
  for (size_t i = 0; i < images.size(); i += step) try {
      const std::string& name = images[i].name;
      const auto bytes = data::read_image_file(folder / name, name, memory);
      const data::ImageSize size = data::read_image_header(bytes, {}).size;
      sides.push_back(std::min(size.height, size.width));
    } catch (const RunError&) {  // `flowc data` reports damaged images
    }
  if (sides.empty()) return 64;
  std::ranges::nth_element(sides, sides.begin() + static_cast<ptrdiff_t>(sides.size() / 2));
  return std::clamp(sides[sides.size() / 2] / 8 * 8, int64_t{16}, int64_t{64});
}

/// Drafts a job for a folder of images.
JobDraft draft_for_images(const fs::path& folder, const fs::path& job) {
  const data::ImageFolder found = data::list_images(folder);
  if (found.classes.empty())
    throw RequestError(fmt::format("{} has no folders of classes", folder.string()),
                       "move the images of each class into a folder of its own");
  std::map<std::string, int64_t, std::less<>> class_rows;
  for (const data::FileState& image : found.images)
    ++class_rows[std::string(data::class_of(image.name))];
  const int64_t without_class = class_rows[""];
  class_rows.erase("");
  if (class_rows.size() < 2)
    throw RequestError(fmt::format("{} has images of one class", folder.string()),
                       "move the images of each class into a folder of its own");
  std::vector<int64_t> counts;
  for (const auto& [name, rows] : class_rows) counts.push_back(rows);
  const int64_t rows = std::accumulate(counts.begin(), counts.end(), int64_t{0});
  const int64_t size = size_for(folder, found.images);
  std::set<std::string> taken = {"image", "label"};
  const fs::path named = folder.has_filename() ? folder : folder.parent_path();
  JobDraft draft{.file = job.string(),
                 .data = folder.string(),
                 .dataset = draft_name(named.filename().string(), taken),
                 .what = fmt::format("the class of the images in {}", folder.string()),
                 .target = "label",
                 .classes = found.classes,
                 .notes = {},
                 .vars = {{"batch", std::to_string(batch_for(rows - validation_rows(rows)))},
                          {"epochs", "20"},
                          {"lr", "0.001"}},
                 .data_lines = {},
                 .inputs = {{"image", fmt::format(", 3, {0}, {0}", size), "float32"}},
                 .graph_lines = {}};
  std::string options = fmt::format("split: {{validation: {}{}}}", kValidation,
                                    splits_by_class(counts, folder.string()) ? ", by: label" : "");
  if (without_class > 0) {
    options += ", on_bad_row: skip";
    draft.notes.push_back(
        fmt::format("{} in no folder of a class.",
                    without_class == 1
                        ? "1 image is left out because it is"
                        : fmt::format("{} images are left out because they are", without_class)));
  }
  const std::string path = path_from(job, named);
  draft.data_lines = {
      fmt::format("  {}:", draft.dataset),
      fmt::format("    defaults: {{images: {}}}", path),
      fmt::format("    options: {{{}}}", options),
      fmt::format("    image: {{size: {}, scale: 1/255,   # in training, flipped and shifted",
                  size),
      fmt::format("            augment: [{{flip: horizontal}}, {{crop: {}, pad: {}}}]}}", size,
                  size / 16),
      "    label: {take: class}",
      "  new:   # images to predict: name a folder of your own; it needs no folders of classes",
      fmt::format("    image: {{images: {}, like: {}.image}}", path, draft.dataset)};
  draft.graph_lines = {
      "      conv1: {op: conv2d, filters: 16, kernel_size: 3, padding: same, activation: relu}",
      "      pool1: {op: max_pool2d, ksize: 2}",
      "      conv2: {op: conv2d, filters: 32, kernel_size: 3, padding: same, activation: relu}",
      "      pool2: {op: max_pool2d, ksize: 2}",
      "      conv3: {op: conv2d, filters: 64, kernel_size: 3, padding: same, activation: relu}",
      "      pool3: {op: max_pool2d, ksize: 2}",
      "      flat: {op: flatten}",
      "      hidden: {op: dense, units: 64, activation: relu}"};
  return draft;
}

JobDraft draft_for_csv(const FlowcOptions& options, const fs::path& job) {
  const DetectedCsv csv = data::detect_csv(options.from);
  CsvDraft draft(options.from, csv, options.target);
  if (options.target.empty())
    print_to_stderr(
        fmt::format("{}: predicts `{}`, the last column; choose another with --target\n",
                    escaped(options.from), escaped(draft.target().name)));
  return draft.draft(job);
}

}  // namespace

int init_from_data(const FlowcOptions& options) {
  const fs::path from = options.from;
  std::error_code unknown;
  if (!fs::exists(from, unknown))
    throw RequestError(fmt::format("no such file or folder: {}", options.from),
                       "name a CSV file, or a folder with a folder of images for each class");
  const bool is_folder = fs::is_directory(from, unknown);
  if (is_folder && !options.target.empty())
    throw RequestError("--target is for CSV files; the target of a folder is the class",
                       "remove --target");
  const fs::path named = from.has_filename() ? from : from.parent_path();
  const fs::path job = options.output.empty() ? named.stem().string() + ".yaml" : options.output;
  check_new_file(job);
  write_first_job_file(
      job, text_of(is_folder ? draft_for_images(from, job) : draft_for_csv(options, job)));
  return kDone;
}

}  // namespace flow::cli
