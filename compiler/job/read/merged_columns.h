// Declares how the keys of a column are merged from the column itself, the `defaults` of its
// dataset, and the column that `like` names.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "compiler/job/text/reader.h"
#include "runtime/plan/model/dataset.h"

namespace flow::job {

/// A column with all its keys. Each value has the position where the file writes it.
struct MergedColumn {
  Name name;
  yaml::Node keys;                         // a mapping
  std::optional<plan::SourceKind> source;  // nothing after an error
  /// The type of the cells, for sources of cells. Nothing if it is unknown after an error.
  std::optional<plan::CellType> type;
  /// The column whose learned values this one uses, as "houses.area", or empty.
  std::string learned_from;
};

/// Returns true for sources whose columns have types of cells: csv, text, tar and images.
bool has_cells(plan::SourceKind source);

/// Returns the type of the cells of a column that has all its keys. Returns nothing if they do not
/// determine it.
std::optional<plan::CellType> implied_type(const yaml::Node& column, plan::SourceKind source);

/// Merges the columns of all datasets of a file. REQUIRES: the tree outlives this object.
class ColumnMerger {
 public:
  ColumnMerger(Reader& reader, const yaml::Node& data);

  /// Returns the columns of a dataset in the order of the file, then those that `options.like`
  /// adds. Reports errors of `like`, and keys that the source of a column does not have.
  const std::vector<MergedColumn>& columns(const std::string& dataset);
  /// Returns true if `like` of a column or dataset that was merged names the dataset.
  bool is_liked(const std::string& dataset) const { return liked_.contains(dataset); }

 private:
  struct Declared {
    const yaml::Node* node = nullptr;
    std::vector<yaml::Entry> written;   // the columns, including those that `options.like` adds
    bool listed = false, open = false;  // `written` is complete, or is being made
    std::optional<std::vector<MergedColumn>> merged;
  };
  using Key = std::pair<std::string, std::string>;

  const std::vector<yaml::Entry>& written(Declared& dataset);
  void add_columns_of(Declared& dataset, const yaml::Node& like);
  const MergedColumn* merge(const std::string& dataset, const yaml::Entry& column);
  void merge_like(const yaml::Node& like, MergedColumn& column);
  void take(const yaml::Node& from, MergedColumn& column);
  void keep_keys_of_source(MergedColumn& column, const std::set<std::string>& own);
  void check_defaults(Declared& dataset);
  const MergedColumn* find(const yaml::Node& like);
  void report_no_file(const MergedColumn& column);
  void report_chain(const yaml::Node& like, bool cycle);
  bool may_copy(const yaml::Node& node, Span use);

  Reader& reader_;
  std::map<std::string, Declared> datasets_;
  std::map<Key, std::unique_ptr<MergedColumn>> merged_;  // null while a column is being merged
  std::set<std::string> liked_;
  size_t copied_ = 0, depth_ = 0;
};

}  // namespace flow::job
