// Mappings laid over others: what an including file, or a job that extends another, changes.
#pragma once

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

}  // namespace flow::job
