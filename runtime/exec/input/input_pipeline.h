// Fills the inputs of each call from datasets in batches, arrays and generators. The constructor
// detects all errors that can be detected before the first step. Also hashes the data files of a
// run, because a resumed run must continue with the same data.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/file.h"
#include "runtime/data/dataset/dataset.h"
#include "runtime/data/dataset/decode_pool.h"
#include "runtime/data/files/folder.h"
#include "runtime/exec/core/backend.h"
#include "runtime/exec/core/run_request.h"
#include "runtime/exec/input/epoch_order.h"
#include "runtime/exec/input/mixing.h"
#include "runtime/exec/input/source.h"
#include "runtime/plan/json/records.h"
#include "runtime/plan/model/plan.h"

namespace flow::exec {

/// The paths of the data files of a column or input, in the order of their rows.
struct DataPath {
  std::vector<fs::path> paths;
  fs::path root;            // names of several files are relative to this folder
  bool sizes_only = false;  // the digest covers names and sizes, but no contents

  auto operator<=>(const DataPath&) const = default;
  /// Returns the path, or "PATH and 3 more files".
  std::string text() const;
};

/// The digest of the data files of a column or input.
struct DataFile {
  DataPath source;
  std::string digest;
  std::optional<plan::FileStamp> stamp;  // set if a change of a file must change the stamp
  /// Each of several files. Empty for a single file, and if a checkpoint does not list them.
  std::vector<plan::DataFileRecord> files = {};
  uint64_t bytes = 0;  // of all files
};

/// The data files by column ("digits.labels") or input. Names for called jobs begin with "JOB:".
using DataFiles = std::map<std::string, DataFile>;

/// The paths of the data files, by the same names.
using DataPaths = std::map<std::string, DataPath>;

/// Returns the files that the request's jobs read. Streams and pipes are omitted.
DataPaths data_paths(const RunRequest& request);

/// Computes the digest of the files of a column or input: of a single file, the digest of its
/// contents (data::digest_of_samples), so that the file may be moved; of several files, the digest
/// of their names, sizes and contents. The stamp is left out. Throws RunError if a file cannot be
/// read, or changes while it is read.
DataFile hash_files(const DataPath& source);

/// Hashes the data files. Files whose stamp is in `known` are not read, because their contents have
/// not changed. Throws RunError if a file cannot be read.
DataFiles hash_data(const RunRequest& request, const DataFiles& known);

/// Returns the size, inode and times of a file. For several files: the sum of the sizes, a hash of
/// the inodes, and the latest times. Returns nothing if a file changed within the last two seconds,
/// because the next change might leave the same times.
std::optional<plan::FileStamp> stamp_of(const std::vector<fs::path>& paths);

/// Returns the first difference between the files of a column in a checkpoint and now: "pets/3.jpg
/// has 40 bytes; expected 30". Empty if one of them does not list its files.
std::string first_difference(const DataFile& before, const DataFile& now);

/// Returns the states of all files of the datasets of the request's jobs. Files that cannot be read
/// are left out, because whatever opens them reports that.
std::vector<data::FileState> states_of_data(const RunRequest& request);

/// Returns a text that identifies a file. Processes that get the same text read the same file,
/// regardless of paths, mounts and containers: it contains the host, its boot, the device, the
/// inode, and attributes that change with the contents. Empty if the system does not provide them.
std::string file_identity(const fs::path& path);

/// Returns true if the job has an input of this name.
bool has_input(const plan::Job& job, std::string_view name);
/// Returns true if the job has an input of this name whose value must be given.
bool wants_input(const plan::Job& job, std::string_view name);

/// The part of each batch that one of several ranks reads.
struct BatchShare {
  int rank = 0, ranks = 1;
  std::vector<std::string> streamed = {};  // inputs that another rank reads for all ranks
  bool checks = true;                      // whether this rank checks all values first
};

class InputPipeline {
 public:
  /// Opens all sources. `given` contains the names and texts of `--input` flags. Throws
  /// RequestError if a source does not fit the job, RunError if data are missing or damaged; both
  /// name the place. `draws` is a prefix for the names of random draws. `learned` are the values
  /// that columns take from a checkpoint or from another job; a train job learns those that are
  /// missing.
  InputPipeline(const plan::Job& job, const fs::path& root,
                const std::vector<std::pair<std::string, std::string>>& given,
                std::string draws = "", BatchShare share = {}, Misreading misread = {},
                const data::Learned& learned = {});

  const StepIndex& step_index() const { return step_index_; }
  /// The number of steps until a sliced array ends, if there is one.
  std::optional<int64_t> slices() const { return slices_; }
  /// The datasets that the job reads.
  const std::vector<std::unique_ptr<data::Dataset>>& datasets() const { return datasets_; }
  /// The values that columns learned or took over.
  data::Learned learned() const;
  /// Lines about the data: bad rows that are left out, columns whose values are all equal, and for
  /// each column or file that contains NaN or infinity, the file, the number of these values, and
  /// the first row.
  const std::vector<std::string>& remarks() const { return remarks_; }
  /// Returns new remarks about streams, which are found as the streams are read. Called from one
  /// thread after the start.
  std::vector<std::string> remarks_of_streams();
  /// Returns the inputs that are columns of datasets, or nothing if rows of one of them are not
  /// equal in each epoch.
  std::vector<ColumnInput> columns() const;
  /// Describes row `row` of this step's batch by its position in the data: in the file of `input`,
  /// "row 12 of data/labels.npy", otherwise in the dataset, "row 2 of the data". REQUIRES: the job
  /// reads a dataset.
  std::string row_text(const std::string& input, int64_t step, int64_t row) const;
  /// Returns the names of the rows that steps [first, end) read, one a line: "pets/cat/1.jpg", or
  /// "SHARD KEY". Unprintable characters are escaped. Empty if no input reads a folder of images or
  /// tar files. No other thread may use this object.
  std::string names_of_rows(int64_t first, int64_t end);
  /// Returns false if every step gets the same inputs, so that `prime` is sufficient.
  bool varies() const;
  /// Returns true if an input comes from a pipe, whose writer can see when it is read. The end of
  /// such an input is known only when it is read.
  bool is_seen_reading() const;
  /// Fills the inputs that never change. Called before the first step, once for each slot.
  void prime(Program& program, size_t slot);
  /// Fills the inputs that vary for this step; of datasets, only this rank's rows. Returns false if
  /// all streams have ended, or if `give_up` returned true while an input waited. Allocates nothing
  /// from the second call on. Throws RunError if a stream ends before another one.
  bool fill(Program& program, int64_t step, size_t slot, const std::function<bool()>& give_up = {});

 private:
  struct Channel {
    plan::TensorId tensor;
    InputSpec spec;
    std::unique_ptr<Source> source;
    data::Column* column = nullptr;                         // set for a column of a dataset
    std::optional<std::pair<int64_t, int64_t>> range = {};  // set if its values are checked
    bool checked_when_read = false;                         // its values are not checked at once
    bool noted = false;                                     // a remark was made
    std::unique_ptr<MixedRows> mixed = {};                  // set if rows of the batch are mixed
    std::vector<int64_t> mixed_rows = {};                   // the rows that are mixed
    std::vector<uint32_t> mixed_attempts = {};
  };
  void add(const plan::Input& input, const plan::InputSource& source, const std::string& where,
           const fs::path& root);
  data::Column& open_column(const plan::FromDataset& from, const InputSpec& spec,
                            const fs::path& root);
  data::Dataset& open_dataset(const plan::FromDataset& from, const fs::path& root);
  data::ReadOptions read_options(const plan::Dataset& dataset);
  /// The rows of each batch that this rank reads.
  size_t first_row_of_part() const;
  std::span<std::byte> part_of(std::span<std::byte> batch) const;
  void open_mixes();
  const data::Column* named_column() const;
  std::optional<data::ImageSize> image_size(const plan::Mix& mix,
                                            const plan::FromDataset& of) const;
  void agree_on_length();
  bool fill(Channel& channel, const Reading& reading, std::span<std::byte> out) const;
  void fill_mixed(Channel& channel, const Reading& reading, size_t first, size_t count,
                  std::span<std::byte> out) const;
  bool fill_in_step(Channel& channel, const Reading& reading, std::span<std::byte> out) const;
  void require_writers(const Channel& waiting) const;
  void require_end_of_all(const Channel& ended, int64_t step) const;
  std::string other_streams(const Channel& channel) const;
  void read_integers_once();
  /// Throws RunError if a value is outside the channel's range. `step` is the step of the values.
  void check_range(const Channel& channel, std::span<const std::byte> values, int64_t step) const;
  void look_for_nonfinite();
  void note_nonfinite_sources();
  void find_rows(const Position& position);
  int64_t data_row(int64_t step, int64_t row) const;
  uint64_t seed() const { return job_.seed + misread_.seed; }

  const plan::Job& job_;
  const std::string draws_;
  const BatchShare share_;
  const Misreading misread_;
  const data::Learned given_learned_;
  std::unique_ptr<data::DecodePool> pool_;  // decodes images; null if no column needs it
  std::vector<std::unique_ptr<data::Dataset>> datasets_;  // in the order of use
  data::Dataset* weights_ = nullptr;  // the one by whose column rows are sampled; may be null
  std::vector<Channel> channels_;
  StepIndex step_index_;
  int64_t batch_ = 0;  // 0 if no dataset is read
  std::optional<int64_t> slices_;
  std::vector<std::string> remarks_;
  std::optional<EpochOrder> order_;  // set if a dataset is read
  std::vector<int64_t> rows_;        // the rows of the batch that is being filled
  std::vector<uint32_t> attempts_;   // their numbers of earlier uses in the epoch
};

}  // namespace flow::exec
