// Declares operations on the tree of a job file before it is read. Mappings are merged over other
// mappings by a file that includes others, by `--set`, and by a job that extends another one.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/job/text/reader.h"

namespace flow::job {

/// Merges `over` into `base`. Mappings are merged recursively; any other value of `over` replaces
/// that of `base`. A merged mapping keeps the position of `base`, and its key takes the position of
/// `over`. `'~key': true` in `over` deletes the key of `base`; together with `key`, it replaces the
/// value as a whole. The deletion stays in the result, because mappings below `base` can also
/// contain the key.
void merge(yaml::Node& base, yaml::Node over);

/// Returns a deletion of `key`, as a file would write it at `span`.
yaml::Entry deletion_of(const std::string& key, Span span);
/// Returns true if the entry is `'~key': ...`.
inline bool is_deletion(const yaml::Entry& entry) { return entry.key.starts_with('~'); }

/// Removes all deletions, and reports those that deleted nothing. Called after everything is
/// merged.
void finish_deletions(Reader& reader, yaml::Node& node);

/// Keeps the default outputs of networks. The default is the last entry of the file that begins the
/// graph. Other files and `--set` can add entries to the graph, and these must not silently change
/// the result of the network.
class DefaultOutputs {
 public:
  /// Records the last entries of the graphs of one file. Called for each file before it is merged.
  void note(const yaml::Node& file);
  /// Writes `output:` and a warning for each merged graph whose default is not its last entry. The
  /// warning names both entries. REQUIRES: deletions are finished.
  void write(Reader& reader, yaml::Node& file) const;

 private:
  void write_output(Reader& reader, yaml::Entry& network) const;

  std::map<std::pair<int32_t, uint32_t>, Name> last_;  // by the position where the graph begins
};

/// Returns the directory that paths in a file are relative to, as written, with its slash. Returns
/// an empty text, which means the working directory, for a file without a directory and for a pipe.
std::string directory_of(std::string_view path);

/// Merges the files of `include:` into the top-level mapping `file`, from source `reader.file`.
/// Mappings are merged recursively. For other values, the including file takes precedence over its
/// included files, and later included files over earlier ones. Every value keeps its position in
/// its own file. Keys of the included files come first, in their order. `outputs` notes every file.
/// Returns false after an error if a file cannot be read, because the missing declarations would
/// only cause further errors.
bool include_files(Reader& reader, yaml::Node& file, DefaultOutputs& outputs);

/// Replaces `extends:` in each job of `file` by the inherited keys: `inputs`, `graph`, `placement`,
/// `shards`, `precision` and `determinism` of the other job. The job's own keys are merged over
/// them. Entries that the job adds to the graph have no entry above them. Runs before variables are
/// substituted.
void extend_jobs(Reader& reader, yaml::Node& file);

/// Returns the node at a path of keys that a job inherits from the job that it extends, before
/// extend_jobs() has run. Returns null if there is none, or if a key of the path is deleted.
const yaml::Node* inherited(const yaml::Node& file, const std::vector<std::string>& path);

/// Applies the overrides in order to the top-level mapping `file`. Each becomes a separate source,
/// so that messages about the override and its values point into `--set ...`.
void apply_overrides(Reader& reader, yaml::Node& file, const std::vector<std::string>& sets);

}  // namespace flow::job
