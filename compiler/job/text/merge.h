// The tree of a job file before anything is read from it: mappings laid over others, by a file that
// includes others, by `--set`, and by a job that extends another one.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/job/text/reader.h"

namespace flow::job {

/// Puts `over` upon `base`: mappings are merged, deeply; any other value of `over` replaces that of
/// `base`. A merged mapping keeps the place of the one below, its key takes that of the one above.
/// `'~key': true` in `over` deletes the key of `base`; together with `key`, it replaces the value
/// as a whole. It stays in the result, because mappings below `base` can have the key too.
void merge(yaml::Node& base, yaml::Node over);

/// A deletion of `key`, as a file would write it at `span`.
yaml::Entry deletion_of(const std::string& key, Span span);
/// Is the entry `'~key': ...`?
inline bool is_deletion(const yaml::Entry& entry) { return entry.key.starts_with('~'); }

/// Removes all deletions, and reports those that deleted nothing. Called when everything is merged.
void finish_deletions(Reader& reader, yaml::Node& node);

/// The default is the last entry of the file that begins the graph: other files and `--set` add
/// entries to it, which must not change silently what the network computes.
class DefaultOutputs {
 public:
  /// Remembers where the graphs of one file end. Called for each file before it is merged.
  void note(const yaml::Node& file);
  /// Writes `output:` where the default is not the last entry of a merged graph, with a warning
  /// that names both. REQUIRES: deletions are finished.
  void write(Reader& reader, yaml::Node& file) const;

 private:
  void write_output(Reader& reader, yaml::Entry& network) const;

  std::map<std::pair<int32_t, uint32_t>, Name> last_;  // by where the graph begins
};

/// The directory that paths in a file are relative to, as written, with its slash. Empty for a file
/// without one and for a pipe: the working directory.
std::string directory_of(std::string_view path);

/// Merges the files of `include:` into the top-level mapping `file`, from source `reader.file`.
/// Mappings are merged deeply; other values of the including file, or of the last included file,
/// take precedence. Every value keeps its place in its own file. Keys of the included files come
/// first, in their order. `outputs` notes every file. False, after an error, when one cannot be
/// read: what it declares would only be missed elsewhere.
bool include_files(Reader& reader, yaml::Node& file, DefaultOutputs& outputs);

/// Replaces `extends:` in each job of `file` by the inherited keys: `inputs`, `graph`, `placement`,
/// `precision` and `determinism` of the other job. The job's own keys are merged over them. Entries
/// that it adds to the graph have no entry above them. Runs before substitution of variables.
void extend_jobs(Reader& reader, yaml::Node& file);

/// What a path of keys leads to in a job that the job of the path extends, before extend_jobs;
/// null where that is nothing, or deleted on the way.
const yaml::Node* inherited(const yaml::Node& file, const std::vector<std::string>& path);

/// Applies the overrides in order to the top-level mapping `file`. Each becomes a source of its
/// own, so that messages about it, and about values it brings, point into `--set ...`.
void apply_overrides(Reader& reader, yaml::Node& file, const std::vector<std::string>& sets);

}  // namespace flow::job
