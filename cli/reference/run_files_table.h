// What a run directory holds, for people.
#pragma once

#include <span>
#include <string_view>

namespace flow::cli {

struct FileRow {
  std::string_view path;  // relative to the directory; NAME and the like stand for names
  std::string_view doc;
};

std::span<const FileRow> run_files();
std::span<const FileRow> checkpoint_files();
/// The keys of a line of metrics.jsonl.
std::span<const FileRow> metrics_keys();

}  // namespace flow::cli
