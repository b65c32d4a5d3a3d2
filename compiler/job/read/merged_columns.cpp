// Merges the keys of columns.
#include "compiler/job/read/merged_columns.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "compiler/job/tables/tables.h"
#include "runtime/base/text.h"

namespace flow::job {
namespace {

using plan::CellType;
using plan::SourceKind;

// The limits are higher than any file needs, and low enough for the memory of a small machine.
constexpr size_t kMostMergedNodes = 1'000'000, kMostLikes = 64;

bool is_reserved(const yaml::Entry& entry) {
  return entry.key == "note" || find_key(kDatasetSection.keys, entry.key);
}

bool is_path(std::string_view key) {
  const auto& words = plan::EnumNames<SourceKind>::words;
  return std::ranges::find(words, key) != words.end();
}

std::optional<SourceKind> source_of(const yaml::Node& keys) {
  const auto& words = plan::EnumNames<SourceKind>::words;
  const auto found = std::ranges::find_if(words, [&](auto word) { return keys.find(word); });
  if (found == words.end()) return {};
  return static_cast<SourceKind>(found - words.begin());
}

/// Returns true if the mapping already has the key, or one that takes its place.
bool has_key_like(const yaml::Node& keys, std::string_view key) {
  if (is_path(key)) return source_of(keys).has_value();
  if (key == "column" || key == "columns") return keys.find("column") || keys.find("columns");
  return keys.find(key) != nullptr;
}

/// Returns the type of a field of a tar file, by its name.
std::optional<CellType> type_of_field(std::string_view field) {
  constexpr std::pair<std::string_view, CellType> kTypes[] = {
      {"png", CellType::kImage},   {"jpg", CellType::kImage}, {"jpeg", CellType::kImage},
      {"cls", CellType::kInteger}, {"npy", CellType::kNpy},   {"txt", CellType::kText},
      {"json", CellType::kNumber}};
  const auto* found =
      std::ranges::find(kTypes, field, &std::pair<std::string_view, CellType>::first);
  return found == std::end(kTypes) ? std::nullopt : std::optional(found->second);
}

std::optional<CellType> type_of_fields(const yaml::Node& fields) {
  const auto items = yaml::each_of(fields);
  if (items.empty()) return {};
  const auto first = type_of_field(items.front().scalar);
  const auto same = [&](const yaml::Node& item) { return type_of_field(item.scalar) == first; };
  return std::ranges::all_of(items, same) ? first : std::nullopt;
}

/// Returns the type of cells that the keys of one level determine.
std::optional<CellType> type_in(const yaml::Node& keys, SourceKind source) {
  const auto& words = plan::EnumNames<CellType>::words;
  const yaml::Node* type = keys.find("type");
  if (type && std::ranges::count(words, type->scalar) > 0)
    return enumerator_of<CellType>(words, type->scalar);
  if (keys.find("categories")) return CellType::kCategory;
  if (keys.find("tokenizer")) return CellType::kText;
  const yaml::Node* field = source == SourceKind::kTar ? keys.find("field") : nullptr;
  return field ? type_of_fields(*field) : std::nullopt;
}

bool takes_class(const yaml::Node& keys) {
  const yaml::Node* take = keys.find("take");
  return take && take->scalar == "class";
}

/// Returns the type for a source, which determines it in part. `type` is the one that keys imply.
std::optional<CellType> settled_type(const yaml::Node& keys, SourceKind source,
                                     std::optional<CellType> type) {
  if (!has_cells(source)) return {};
  if (source == SourceKind::kText) return CellType::kText;
  if (source == SourceKind::kImages)
    return takes_class(keys) ? CellType::kCategory : CellType::kImage;
  return source == SourceKind::kCsv ? type.value_or(CellType::kNumber) : type;
}

size_t count_nodes(const yaml::Node& node) {
  size_t count = 1;
  for (const yaml::Node& item : node.items) count += count_nodes(item);
  for (const yaml::Entry& entry : node.entries) count += count_nodes(entry.value);
  return count;
}

/// Returns a hint that names the sources or the types with this key.
std::string owners_hint(const std::string& key) {
  std::vector<std::string> sources, types;
  for (const ColumnKey& one : kColumnKeys) {
    if (one.def.name != key) continue;
    for (const SourceKind source : one.sources) sources.emplace_back(plan::enum_name(source));
    for (const CellType type : one.types) types.emplace_back(plan::enum_name(type));
  }
  return listed(fmt::format("`{}` is a key of", key), sources) +
         (types.empty() ? "" : listed(", for columns of type", types));
}

}  // namespace

bool has_cells(SourceKind source) {
  return source == SourceKind::kCsv || source == SourceKind::kText || source == SourceKind::kTar ||
         source == SourceKind::kImages;
}

std::optional<CellType> implied_type(const yaml::Node& column, SourceKind source) {
  return settled_type(column, source, type_in(column, source));
}

ColumnMerger::ColumnMerger(Reader& reader, const yaml::Node& data) : reader_(reader) {
  for (const yaml::Entry& entry : data.entries)
    if (entry.key != "note") datasets_[entry.key].node = &entry.value;
}

const std::vector<MergedColumn>& ColumnMerger::columns(const std::string& dataset) {
  Declared& source = datasets_.at(dataset);
  if (source.merged) return *source.merged;
  std::vector<MergedColumn> merged;
  for (const yaml::Entry& column : written(source))
    if (const MergedColumn* made = merge(dataset, column)) merged.push_back(*made);
  source.merged = std::move(merged);
  check_defaults(source);
  return *source.merged;
}

const std::vector<yaml::Entry>& ColumnMerger::written(Declared& dataset) {
  if (dataset.listed) return dataset.written;
  dataset.open = true;
  for (const yaml::Entry& entry : dataset.node->entries)
    if (!is_reserved(entry)) dataset.written.push_back(entry);
  const yaml::Node* options = dataset.node->find("options");
  const yaml::Node* like = options ? options->find("like") : nullptr;
  if (like && like->is_scalar()) add_columns_of(dataset, *like);
  dataset.open = false;
  dataset.listed = true;
  return dataset.written;
}

void ColumnMerger::add_columns_of(Declared& dataset, const yaml::Node& like) {
  const auto found = datasets_.find(like.scalar);
  if (found == datasets_.end()) {
    std::vector<std::string> names;
    for (const auto& [name, other] : datasets_)
      if (&other != &dataset) names.push_back(name);
    reader_.error(Diagnosis::kUnknownDataset, like, "unknown dataset `{}`", like.scalar)
        .with_hint(suggestion(like.scalar, names, "available datasets:"));
    return;
  }
  if (found->second.open || depth_ >= kMostLikes) {
    report_chain(like, found->second.open);
    return;
  }
  liked_.insert(like.scalar);
  ++depth_;
  const std::vector<yaml::Entry>& others = written(found->second);
  --depth_;
  const auto known = [&](const std::string& name) {
    return std::ranges::count(dataset.written, name, &yaml::Entry::key) > 0;
  };
  for (const yaml::Entry& other : others) {
    if (known(other.key)) continue;
    if (!may_copy(like, like.span)) return;
    const yaml::Node column =
        yaml::scalar_node(fmt::format("{}.{}", like.scalar, other.key), like.span);
    dataset.written.push_back(
        {other.key, like.span, yaml::mapping_node({{"like", like.span, column}}, like.span)});
  }
}

const MergedColumn* ColumnMerger::merge(const std::string& dataset, const yaml::Entry& column) {
  const auto [place, fresh] = merged_.try_emplace({dataset, column.key});
  if (!fresh) return place->second.get();
  auto made = std::make_unique<MergedColumn>();
  made->name = {column.key, column.key_span};
  made->keys = yaml::mapping_node({}, column.value.span);
  const Fields fields(reader_, column.value, column.key_span, kColumnSection);
  if (!fields.is_mapping()) return (merged_[{dataset, column.key}] = std::move(made)).get();
  std::set<std::string> own;
  for (const yaml::Entry& entry : column.value.entries) {
    if (!find_key(kColumnSection.keys, entry.key)) continue;
    own.insert(entry.key);
    made->keys.entries.push_back(entry);
  }
  const yaml::Node* defaults = datasets_.at(dataset).node->find("defaults");
  MergedColumn inherited;
  if (const yaml::Node* like = column.value.find("like"); like && like->is_scalar())
    merge_like(*like, inherited);
  made->learned_from = inherited.learned_from;

  // A level determines the type only if the levels above it do not.
  std::optional<CellType> type;
  const auto settle = [&](const yaml::Node& level) {
    if (made->source && !type) type = type_in(level, *made->source);
  };
  made->source = source_of(made->keys);
  if (!made->source && defaults) made->source = source_of(*defaults);
  settle(column.value);
  if (defaults) settle(*defaults);
  if (!type) type = inherited.type;
  if (defaults && defaults->is_mapping()) take(*defaults, *made);
  take(inherited.keys, *made);
  if (made->source) made->type = settled_type(made->keys, *made->source, type);
  if (made->source)
    keep_keys_of_source(*made, own);
  else
    report_no_file(*made);
  return (merged_[{dataset, column.key}] = std::move(made)).get();
}

void ColumnMerger::merge_like(const yaml::Node& like, MergedColumn& column) {
  const MergedColumn* other = find(like);
  if (!other || !may_copy(other->keys, like.span)) return;
  column.keys = other->keys;
  std::erase_if(column.keys.entries, [](const yaml::Entry& entry) {
    return is_path(entry.key) || entry.key == "rows" || entry.key == "like";
  });
  const bool names_field = column.keys.find("column") || column.keys.find("columns");
  if (other->source == SourceKind::kCsv && !names_field)
    column.keys.entries.push_back(
        {"column", like.span, yaml::scalar_node(other->name.text, like.span)});
  column.type = other->type;
  column.learned_from = other->learned_from.empty() ? like.scalar : other->learned_from;
}

/// Returns the merged column that a text such as "houses.area" names. Reports an unknown column and
/// one that depends on itself, and returns null.
const MergedColumn* ColumnMerger::find(const yaml::Node& like) {
  const size_t dot = like.scalar.find('.');
  const auto dataset = datasets_.find(like.scalar.substr(0, dot));
  if (dot == std::string::npos || dataset == datasets_.end()) {
    std::vector<std::string> names;
    for (const auto& [name, other] : datasets_) names.push_back(name);
    reader_
        .error(Diagnosis::kUnknownDataset, like, "unknown column `{}`; expected DATASET.COLUMN",
               like.scalar)
        .with_hint(listed("available datasets:", names));
    return nullptr;
  }
  const std::string column = like.scalar.substr(dot + 1);
  const std::vector<yaml::Entry>& columns = written(dataset->second);
  const auto entry = std::ranges::find(columns, column, &yaml::Entry::key);
  if (entry == columns.end()) {
    std::vector<std::string> names;
    for (const yaml::Entry& one : columns) names.push_back(one.key);
    reader_
        .error(Diagnosis::kUnknownColumn, like, "unknown column `{}` of dataset `{}`", column,
               dataset->first)
        .with_hint(suggestion(column, names, "available columns:"));
    return nullptr;
  }
  const auto known = merged_.find({dataset->first, column});
  const bool open = known != merged_.end() && !known->second;
  if (open || depth_ >= kMostLikes) {
    report_chain(like, open);
    return nullptr;
  }
  liked_.insert(dataset->first);
  ++depth_;
  const yaml::Entry copy = *entry;  // `columns` can move while other datasets are listed
  const MergedColumn* merged = merge(dataset->first, copy);
  --depth_;
  return merged;
}

void ColumnMerger::report_no_file(const MergedColumn& column) {
  std::vector<std::string> forms;
  for (const std::string_view source : plan::EnumNames<SourceKind>::words)
    forms.push_back(fmt::format("{}: PATH", source));
  reader_
      .error(Diagnosis::kBadColumn, column.name.span, "column `{}` has no file", column.name.text)
      .with_hint("add {}", quoted_alternatives(forms));
}

void ColumnMerger::report_chain(const yaml::Node& like, bool cycle) {
  reader_.error(Diagnosis::kBadLike, like, "`like: {}` {}", like.scalar,
                cycle ? "leads back to itself" : "leads through too many others");
}

/// Adds the keys that the column does not have yet.
void ColumnMerger::take(const yaml::Node& from, MergedColumn& column) {
  if (!may_copy(from, column.name.span)) return;
  std::vector<yaml::Entry> added;
  for (const yaml::Entry& entry : from.entries)
    if (find_key(kColumnSection.keys, entry.key) && !has_key_like(column.keys, entry.key))
      added.push_back(entry);
  column.keys.entries.insert(column.keys.entries.end(), added.begin(), added.end());
}

/// Removes the keys that the source and the type of the column do not have. Reports those that the
/// column itself has.
void ColumnMerger::keep_keys_of_source(MergedColumn& column, const std::set<std::string>& own) {
  const std::vector<KeyDef> keys = column_keys(*column.source, column.type);
  std::erase_if(column.keys.entries, [&](const yaml::Entry& entry) {
    if (find_key(keys, entry.key)) return false;
    if (!own.contains(entry.key)) return true;
    const auto of_source = [&](const ColumnKey& key) {
      return key.def.name == entry.key && std::ranges::count(key.sources, *column.source) > 0;
    };
    const bool by_type = column.type && std::ranges::any_of(kColumnKeys, of_source);
    reader_
        .error(Diagnosis::kBadColumn, entry.key_span, "unexpected `{}` for {} `{}`", entry.key,
               by_type ? "a column of type" : "a column with",
               by_type ? plan::enum_name(*column.type) : plan::enum_name(*column.source))
        .with_hint(owners_hint(entry.key));
    return true;
  });
}

/// Reports unknown keys of `defaults`, and keys that no column of the dataset has.
void ColumnMerger::check_defaults(Declared& dataset) {
  const yaml::Entry* defaults = dataset.node->find_entry("defaults");
  if (!defaults) return;
  const Fields fields(reader_, defaults->value, defaults->key_span, kColumnDefaultsSection);
  const auto broken = [](const MergedColumn& column) { return !column.source; };
  if (dataset.merged->empty() || std::ranges::any_of(*dataset.merged, broken)) return;
  for (const yaml::Entry& entry : defaults->value.entries) {
    if (!find_key(kColumnDefaultsSection.keys, entry.key)) continue;
    const auto takes = [&](const MergedColumn& column) {
      return find_key(column_keys(*column.source, column.type), entry.key) != nullptr;
    };
    if (std::ranges::any_of(*dataset.merged, takes)) continue;
    reader_
        .error(Diagnosis::kBadColumn, entry.key_span,
               "no column of the dataset has the key `{}` of `defaults`", entry.key)
        .with_hint(owners_hint(entry.key));
  }
}

bool ColumnMerger::may_copy(const yaml::Node& node, Span use) {
  const bool could = copied_ <= kMostMergedNodes;
  copied_ += count_nodes(node);
  if (could && copied_ > kMostMergedNodes)
    reader_.error(Diagnosis::kBadLike, use, "`defaults` and `like` make more than {} values",
                  kMostMergedNodes);
  return copied_ <= kMostMergedNodes;
}

}  // namespace flow::job
