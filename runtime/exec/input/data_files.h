// The data files of a run, hashed: a resumed run continues with the same data.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "runtime/base/file.h"
#include "runtime/exec/core/run_request.h"
#include "runtime/plan/json/records.h"

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

}  // namespace flow::exec
