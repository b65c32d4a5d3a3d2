// Digests of data files.
#include "runtime/exec/data_digests.h"

#include <variant>

#include "runtime/base/digest.h"
#include "runtime/exec/source.h"

namespace flow::exec {

namespace {

/// Of the size, and of blocks from the first to the last of the file.
std::string digest_in_places(const fs::path& path) {
  constexpr uint64_t kBlocks = 64;
  const File file = File::open_read(path);
  const uint64_t size = file.size();
  std::string block(4096, '\0');
  uint64_t sum = fnv1a64(std::to_string(size));
  const uint64_t last = size > block.size() ? size - block.size() : 0;
  for (uint64_t i = 0; i < kBlocks; ++i) {
    const uint64_t offset = i + 1 == kBlocks ? last : last / (kBlocks - 1) * i;
    const size_t got = file.read_at(offset, std::as_writable_bytes(std::span(block)));
    sum = fnv1a64(std::string_view(block).substr(0, got), sum);
  }
  return digest({}, sum);
}

}  // namespace

std::map<std::string, std::string> data_digests(const RunRequest& request) {
  std::map<std::string, fs::path> paths;
  const auto add = [&paths](const std::string& name, const plan::InputSource& source,
                            const fs::path& root) {
    paths.erase(name);
    if (const auto* npy = std::get_if<plan::FromNpy>(&source)) paths[name] = root / npy->path;
  };
  for (const plan::Dataset& dataset : request.job.datasets)
    for (const plan::Column& column : dataset.columns)
      paths[dataset.name + "." + column.name] = request.root / column.path;
  for (const plan::Input& input : request.job.inputs)
    add(request.job[input.tensor].name, input.source, request.root);
  for (const auto& [name, text] : request.inputs) add(name, parse_input_source(name, text), {});
  std::map<std::string, std::string> digests;
  std::error_code ignored;
  for (const auto& [name, path] : paths)
    if (fs::is_regular_file(path, ignored)) digests[name] = digest_in_places(path);
  return digests;
}

}  // namespace flow::exec
