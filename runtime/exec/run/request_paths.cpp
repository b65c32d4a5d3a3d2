// Where what is asked for reads and saves.
#include "runtime/exec/run/request_paths.h"

#include <fmt/format.h>
#include <unistd.h>

#include <climits>
#include <set>
#include <string>

#include "runtime/base/error.h"
#include "runtime/exec/core/run_files.h"
#include "runtime/exec/input/source.h"
#include "runtime/exec/run/sub_jobs.h"
#include "runtime/io/checkpoint_folder.h"

namespace flow::exec {

namespace {

constexpr const char* kNone = "none";

/// The nearest folder above `path` that is there; whatever is missing will be made in it.
fs::path existing_ancestor(const fs::path& path) {
  std::error_code ignored;
  fs::path at = fs::absolute(path).lexically_normal().parent_path();
  while (!fs::exists(at, ignored) && at != at.root_path()) at = at.parent_path();
  return at;
}

}  // namespace

std::vector<LoadedPath> loaded_from(const RunRequest& request) {
  return loaded_paths(request.job, request.root, request.load);
}

std::vector<fs::path> paths_read(const RunRequest& request) {
  const std::vector<LoadedPath> loaded = loaded_from(request);
  std::vector<fs::path> paths;
  for (const LoadedPath& one : loaded) paths.push_back(one.path);
  for (const plan::Job* job : jobs_of(request)) {
    for (const plan::Dataset& dataset : job->datasets)
      for (const plan::Column& column : dataset.columns)
        paths.push_back(request.root / column.path);
    for (const plan::Input& input : job->inputs)
      if (const auto* npy = std::get_if<plan::FromNpy>(&input.source))
        paths.push_back(request.root / npy->path);
    for (const plan::Variable& variable : job->variables)
      if (const auto* npy = std::get_if<plan::initializers::Npy>(&variable.initializer);
          npy && (loaded.empty() || !request.load_partial.empty()))
        paths.push_back(request.root / npy->path);
  }
  for (const auto& [name, text] : request.inputs) {
    const plan::InputSource source = parse_input_source(name, text);
    if (const auto* npy = std::get_if<plan::FromNpy>(&source)) paths.emplace_back(npy->path);
  }
  return paths;
}

std::optional<fs::path> save_target(const RunRequest& request) {
  const plan::Checkpointing& wanted = request.job.run.checkpoint;
  const std::optional<std::string>& text = request.save ? request.save : wanted.save;
  if (!text || *text == kNone) return std::nullopt;
  const std::string where = request.save ? "--save" : wanted.save_where;
  if (text->empty()) throw RequestError(where + ": empty path", "name a path, or use --save none");
  fs::path path = (request.save ? fs::path(*text) : request.root / *text).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();  // it ended with a slash
  path = followed(path);
  static const std::set<fs::path> kFileNames = {".npz", ".npy", ".pt", ".pth", ".safetensors"};
  if (kFileNames.contains(path.extension()))
    throw RequestError(
        fmt::format("{}: {} names a file; a checkpoint is a directory with a .npy per variable",
                    where, path.string()),
        fmt::format("write `{}`", fs::path(*text).replace_extension().string()));

  std::error_code ignored;
  const auto refuse = [&](const std::string& what) {
    throw RequestError(fmt::format("{}: {} {}", where, path.string(), what),
                       "name another path, or use --save none");
  };
  if (fs::exists(path, ignored) && !io::is_checkpoint(path))
    refuse("exists and is not a checkpoint");
  if (!request.directory.empty() && is_written(path, request.directory))
    refuse("belongs to the run itself");
  // An older checkpoint there is replaced whole, with all that lies in its folder.
  if (!request.directory.empty() && lies_in(request.directory, path))
    refuse("contains the run directory");
  for (const fs::path& read : paths_read(request))
    if (lies_in(read, path) && !lies_in(path, read))
      refuse(fmt::format("contains {}, which the run reads", read.string()));
  const fs::path parent = existing_ancestor(path);
  for (const fs::path& name : fs::absolute(path).lexically_relative(parent))
    if (name.native().size() > NAME_MAX)
      refuse(fmt::format("cannot be created: a name is longer than {} bytes", NAME_MAX));
  if (!fs::is_directory(parent, ignored) || ::access(parent.c_str(), W_OK | X_OK) != 0)
    refuse(fmt::format("cannot be created: {} is not writable", parent.string()));
  return path;
}

}  // namespace flow::exec
