// Read-only maps, and what happens where a file loses what is mapped: the system sends SIGBUS to
// who reads it.
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <mutex>
#include <utility>

#include "runtime/base/error.h"
#include "runtime/base/file.h"

namespace flow {

/// A map that is there, for the signal's handler.
struct MapRecord {
  const std::byte* begin;
  size_t size;
  std::string message;
};

namespace {

/// The handler may take no lock and no memory. A map beyond these dies without a word.
std::array<std::atomic<const MapRecord*>, 1024> live_maps;

void tell_and_leave(int signal, siginfo_t* info, void*) {
  const auto* at = static_cast<const std::byte*>(info->si_addr);
  for (const auto& live : live_maps) {
    const MapRecord* map = live;
    if (!map || at < map->begin || at >= map->begin + map->size) continue;
    if (::write(STDERR_FILENO, map->message.data(), map->message.size()) < 0) {
      // There is nobody to tell.
    }
    ::_exit(kRunFailed);
  }
  ::signal(signal, SIG_DFL);  // not ours: it comes again
}

void watch_for_lost_pages() {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction action {};
    action.sa_sigaction = tell_and_leave;
    action.sa_flags = SA_SIGINFO;
    ::sigaction(SIGBUS, &action, nullptr);
  });
}

std::unique_ptr<const MapRecord> registered(MapRecord map) {
  watch_for_lost_pages();
  auto record = std::make_unique<const MapRecord>(std::move(map));
  for (auto& live : live_maps) {
    const MapRecord* none = nullptr;
    if (live.compare_exchange_strong(none, record.get())) break;
  }
  return record;
}

void unregister(const MapRecord* map) {
  for (auto& live : live_maps) {
    const MapRecord* own = map;
    if (live.compare_exchange_strong(own, nullptr)) return;
  }
}

}  // namespace

MappedFile::MappedFile(const fs::path& path) {
  // A pipe that nobody writes to would let this wait.
  const Descriptor descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!descriptor.is_open()) throw cannot("read", path, errno);
  struct stat status {};
  if (::fstat(descriptor.get(), &status) != 0) throw cannot("read", path, errno);
  const auto size = static_cast<size_t>(status.st_size);
  void* mapped = nullptr;
  if (S_ISREG(status.st_mode) && size > 0)
    mapped = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor.get(), 0);
  if (S_ISDIR(status.st_mode)) throw cannot("read", path, EISDIR);
  if (!S_ISREG(status.st_mode))
    throw RunError(
        fmt::format("{} is a pipe or a device, of which no part can be read again", path.string()),
        "write it to a file first; an input's `from: {npy: PATH}` reads streams");
  if (mapped == MAP_FAILED) throw cannot("map", path, errno);
  if (!mapped) return;  // it is empty
  bytes_ = {static_cast<const std::byte*>(mapped), size};
  record_ = registered({bytes_.data(), size,
                        fmt::format("{}: error: {} became shorter while it was read\n",
                                    ::program_invocation_short_name, path.string())});
}

MappedFile::~MappedFile() {
  if (bytes_.empty()) return;
  unregister(record_.get());
  ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : bytes_(std::exchange(other.bytes_, {})), record_(std::move(other.record_)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  std::swap(record_, other.record_);
  return *this;
}

}  // namespace flow
