// Datasets and their parts: columns of equal length, without the rows that are bad or belong to
// other parts, with the values that a train job learns from them.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/file.h"
#include "runtime/data/dataset/column.h"
#include "runtime/data/sources/learned.h"
#include "runtime/plan/model/plan.h"

namespace flow::data {

struct OpenColumn;

/// What a job reads of a dataset, and how.
struct DatasetRequest {
  const plan::Dataset* dataset = nullptr;
  std::string part;                  // a part of `split`, or empty for the rest
  std::vector<std::string> columns;  // the columns that the job reads
  fs::path root;                     // the folder to which paths are relative
  const Learned* learned = nullptr;  // values from a checkpoint or another job; may be null
  bool may_learn = false;            // values that are not given are learned
  ReadOptions options = {};
};

/// Numbers of a dataset for the record of a run.
struct DatasetCounts {
  int64_t rows = 0;  // rows that are not bad, in all parts
  int64_t bad_rows = 0;
};

/// A dataset, or a part of it.
class Dataset {
 public:
  class BadRows;

  /// Opens all columns, and prepares those that the job reads. Throws RunError if files are missing
  /// or damaged, if columns have different lengths, or for the first bad row unless the dataset
  /// skips bad rows; RequestError if values must be learned and the job cannot learn them.
  explicit Dataset(const DatasetRequest& request);

  /// The name of the dataset or part: "houses", "houses/validation".
  const std::string& name() const { return name_; }
  int64_t rows() const { return rows_; }
  /// The name without that of the part.
  std::string_view dataset_name() const {
    return std::string_view(name_).substr(0, name_.find('/'));
  }
  /// REQUIRES: the request names the column.
  Column& column(std::string_view name);
  const DatasetCounts& counts() const { return counts_; }
  /// The learned values of the columns that the job reads, whether learned here or given.
  const Learned& learned() const { return learned_; }
  /// Lines for the user: bad rows that are left out, and standard deviations of 0.
  const std::vector<std::string>& remarks() const { return remarks_; }
  /// The length of each run of rows that come from the same file, taken from the first column.
  const std::vector<int64_t>& rows_of_files() const { return rows_of_files_; }

 private:
  void prepare(const DatasetRequest& request, const OpenColumn& column, const RowSet& rows,
               BadRows& bad);
  void add_column(const DatasetRequest& request, const OpenColumn& column, const RowSet& rows);

  std::string name_;
  int64_t rows_ = 0;
  DatasetCounts counts_;
  Learned learned_;
  std::vector<std::string> remarks_;
  std::vector<int64_t> rows_of_files_;
  std::vector<std::pair<std::string, std::unique_ptr<Column>>> columns_;
};

}  // namespace flow::data
