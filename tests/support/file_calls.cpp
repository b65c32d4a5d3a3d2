// An observer of all calls that change files.
#include "tests/support/file_calls.h"

#include <fmt/format.h>

#include <cerrno>
#include <regex>

namespace flow {

namespace {

/// What a test calls them; nothing for others.
const char* name_of(FileOperation::Kind kind) {
  switch (kind) {
    case FileOperation::Kind::kSync:
      return "fsync";
    case FileOperation::Kind::kSyncFileSystem:
      return "syncfs";
    case FileOperation::Kind::kClose:
      return "close";
    case FileOperation::Kind::kRename:
      return "rename";
    case FileOperation::Kind::kExchange:
      return "exchange";
    case FileOperation::Kind::kRemove:
    case FileOperation::Kind::kRemoveFolder:
      return "remove";
    default:
      return nullptr;
  }
}

}  // namespace

fs::path descriptor_path(int descriptor) {
  std::error_code closed;
  return fs::read_symlink(fmt::format("/proc/self/fd/{}", descriptor), closed);
}

fs::path operation_path(const FileOperation& operation) {
  if (!operation.path) return descriptor_path(operation.descriptor);
  const fs::path path = operation.path;
  return operation.folder < 0 ? fs::absolute(path) : descriptor_path(operation.folder) / path;
}

std::optional<std::string> path_below(const fs::path& folder, const fs::path& path) {
  const std::string name = path.lexically_normal().lexically_relative(folder).string();
  if (name.empty() || name.starts_with("..")) return {};
  return name;
}

FileCalls::FileCalls(const fs::path& folder)
    : folder_(fs::canonical(folder)), before_(observe_files(this)) {}

FileCalls::~FileCalls() { observe_files(before_); }

std::vector<std::string> FileCalls::list() const {
  const std::scoped_lock lock(mutex_);
  return calls_;
}

void FileCalls::fail(const std::string& call, int error) {
  const std::scoped_lock lock(mutex_);
  failing_[call] = error;
}

long FileCalls::make(const FileOperation& operation, const std::function<long()>& call) {
  const int error = take(operation);
  if (error == 0) return call();
  if (operation.kind == FileOperation::Kind::kClose) call();  // the system closes it all the same
  errno = error;
  return -1;
}

int FileCalls::take(const FileOperation& operation) {
  static const std::regex kRandom(R"(\.[0-9a-f]{16}\.tmp)");
  const char* const name = name_of(operation.kind);
  if (!name) return 0;
  const bool moves = operation.target != nullptr;
  const fs::path path = moves ? fs::absolute(operation.target) : operation_path(operation);
  const auto below = path_below(folder_, path);
  if (!below) return 0;
  std::error_code unknown;
  if (operation.kind == FileOperation::Kind::kRemove &&
      !fs::exists(fs::symlink_status(path, unknown)))
    return 0;  // changes nothing
  const std::string call = std::string(name) + ' ' + std::regex_replace(*below, kRandom, ".tmp");
  const std::scoped_lock lock(mutex_);
  if (operation.kind != FileOperation::Kind::kClose) calls_.push_back(call);
  const auto failing = failing_.extract(call);
  return failing ? failing.mapped() : 0;
}

}  // namespace flow
