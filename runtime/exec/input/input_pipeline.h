// What fills the inputs of each call: datasets in batches, arrays, generators. All that can be
// refused of them is refused when it is made. The data files of a run, hashed: a resumed run
// continues with the same data.
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
#include "runtime/exec/core/backend.h"
#include "runtime/exec/core/run_request.h"
#include "runtime/exec/input/source.h"
#include "runtime/io/dataset.h"
#include "runtime/plan/json/records.h"
#include "runtime/plan/model/plan.h"

namespace flow::exec {

/// A data file and what is in it.
struct DataFile {
  fs::path path;
  std::string digest;                    // ContentDigest's, of the whole file
  std::optional<plan::FileStamp> stamp;  // where the file cannot change without changing it
};

/// By column ("digits.labels") or input; those of called jobs begin with "JOB:".
using DataFiles = std::map<std::string, DataFile>;

/// The files that the request's jobs read, by the same names. Streams and pipes are left out.
std::map<std::string, fs::path> data_paths(const RunRequest& request);

/// Hashes them. A file that has a stamp in `known` is not read: it still holds what `known` says.
/// RunError where a file cannot be read.
DataFiles hash_data(const RunRequest& request, const DataFiles& known);

/// Size, inode and times of a file. Nothing where it changed within the last two seconds: the next
/// change might leave the same times.
std::optional<plan::FileStamp> stamp_of(const fs::path& path);

/// Processes that get the same text read the same file, whatever their paths, mounts and containers
/// are: it names the host, its boot, the device, the inode, and what changes with the contents.
/// Empty where the system does not say.
std::string file_identity(const fs::path& path);

/// Has the job an input of that name?
bool has_input(const plan::Job& job, std::string_view name);
/// And one that has to be given?
bool wants_input(const plan::Job& job, std::string_view name);

/// What one of several ranks reads of each batch.
struct BatchShare {
  int rank = 0, ranks = 1;
  std::vector<std::string> streamed = {};  // inputs that another rank reads for all
  bool checks = true;                      // does this rank look at all values first?
};

class InputPipeline {
 public:
  /// Opens everything; `given` is what `--input` says: names and texts. RequestError where a source
  /// does not fit the job, RunError where data are missing or damaged; both name the place. `draws`
  /// begins the names of what is drawn at random.
  InputPipeline(const plan::Job& job, const fs::path& root,
                const std::vector<std::pair<std::string, std::string>>& given,
                std::string draws = "", BatchShare share = {}, Misreading misread = {});

  const StepIndex& step_index() const { return step_index_; }
  /// Steps until a sliced array ends, where there is one.
  std::optional<int64_t> slices() const { return slices_; }
  /// A line for each column or file that holds NaN or infinity: file, how many, and the first row.
  const std::vector<std::string>& remarks() const { return remarks_; }
  /// The same of streams as they are read: what is new. Called from one thread after the start.
  std::vector<std::string> remarks_of_streams();
  /// The inputs that are columns of datasets.
  std::vector<ColumnInput> columns() const;
  /// Row `row` of this step's batch as users find it: in the file that `input` is read from, "row
  /// 12 of data/labels.npy", else in the dataset, "row 2 of the data". REQUIRES: it reads a
  /// dataset.
  std::string row_text(const std::string& input, int64_t step, int64_t row) const;
  /// False when every step gets the same inputs: `prime` is all there is to do.
  bool varies() const;
  /// Does the maker of an input see it read, at the other end of a pipe? Only reading it tells
  /// where it ends.
  bool is_seen_reading() const;
  /// Fills what never changes. Before the first step, once for each slot.
  void prime(Program& program, size_t slot);
  /// Fills what varies for this step, of datasets this rank's rows; false where all streams have
  /// ended, or `give_up` said so to one who waits for it. Allocates nothing from the second call
  /// on. RunError where a stream ends before another one.
  bool fill(Program& program, int64_t step, size_t slot, const std::function<bool()>& give_up = {});

 private:
  struct Channel {
    plan::TensorId tensor;
    InputSpec spec;
    std::unique_ptr<Source> source;
    io::ColumnReader* column = nullptr;                     // of a dataset, if it is one
    std::optional<std::pair<int64_t, int64_t>> range = {};  // of its values, if they are checked
    bool noted = false;                                     // in a remark
  };
  void add(const plan::Input& input, const plan::InputSource& source, const std::string& where,
           const fs::path& root);
  io::ColumnReader& open_column(const plan::FromDataset& from, const InputSpec& spec,
                                const fs::path& root);
  io::Dataset& open_dataset(std::string_view name, const fs::path& root);
  void agree_on_length();
  bool fill(Channel& channel, const Reading& reading, std::span<std::byte> out) const;
  bool fill_in_step(Channel& channel, const Reading& reading, std::span<std::byte> out) const;
  void require_writers(const Channel& waiting) const;
  void require_end_of_all(const Channel& ended, int64_t step) const;
  std::string other_streams(const Channel& channel) const;
  void read_integers_once();
  /// RunError where a value is not in the channel's range; `step`: of the values.
  void check_range(const Channel& channel, std::span<const std::byte> values, int64_t step) const;
  void look_for_nonfinite(const fs::path& root);
  void note_nonfinite_sources();
  void find_rows(const Position& position);
  void draw_order(int64_t epoch, int64_t* order) const;
  int64_t data_row(int64_t step, int64_t row) const;
  uint64_t seed() const { return job_.seed + misread_.seed; }

  const plan::Job& job_;
  const std::string draws_;
  const BatchShare share_;
  const Misreading misread_;
  std::vector<std::unique_ptr<io::Dataset>> datasets_;  // those that are read, in order of use
  std::vector<Channel> channels_;
  StepIndex step_index_;
  int64_t batch_ = 0;  // 0 until a dataset is read
  std::optional<int64_t> slices_;
  std::vector<std::string> remarks_;
  std::vector<int64_t> order_;  // of a shuffled epoch's rows
  int64_t ordered_epoch_ = -1;
  std::vector<int64_t> rows_;  // of the batch being filled
};

}  // namespace flow::exec
