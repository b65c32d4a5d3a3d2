// Read-only maps of files. If a mapped file loses data, the system sends SIGBUS to a thread that
// reads it.
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <mutex>
#include <thread>
#include <utility>

#include "runtime/base/display.h"
#include "runtime/base/error.h"
#include "runtime/base/file.h"

namespace flow {

/// A live map, as the signal handler sees it.
struct MapRecord {
  MapRecord(std::span<const std::byte> map, Descriptor descriptor, const fs::path& path)
      : file(std::move(descriptor)),
        begin(map.data()),
        size(map.size()),
        page(static_cast<size_t>(::sysconf(_SC_PAGESIZE))),
        loss(fmt::format("{} shrank while it was being read", path.string())),
        message(fmt::format("{}: error: {}\n", ::program_invocation_short_name, escaped(loss))) {}

  Descriptor file;
  const std::byte* begin;
  size_t size, page;
  std::string loss, message;
  std::atomic<bool> recovers = false, lost = false;

  std::atomic<MapRecord*> next = nullptr;  // links of the list of live maps
  MapRecord* previous = nullptr;
};

namespace {

/// The list of all live maps. The handler walks this list without a lock and counts itself in
/// `walking` while it does. A record that has left the list is freed only when no handler can still
/// use it.
std::atomic<MapRecord*> first_map = nullptr;
std::atomic<int> walking = 0;
std::mutex changing_maps;  // locked by all code except the handler

class Walk {
 public:
  Walk() { ++walking; }
  ~Walk() { --walking; }
  Walk(const Walk&) = delete;
  Walk& operator=(const Walk&) = delete;
};

/// Maps zeros from `at` to the end of the map, so that the reader continues until it checks `lost`.
bool fill_up(const MapRecord& map, const std::byte* at) {
  const size_t offset = static_cast<size_t>(at - map.begin) / map.page * map.page;
  void* const page = const_cast<std::byte*>(map.begin + offset);
  return ::mmap(page, map.size - offset, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
                0) == page;
}

void recover_or_leave(int signal, siginfo_t* info, void*) {
  const auto* at = static_cast<const std::byte*>(info->si_addr);
  const Walk walk;
  for (MapRecord* map = first_map; map; map = map->next) {
    if (at < map->begin || at >= map->begin + map->size) continue;
    if (map->recovers && fill_up(*map, at)) {
      map->lost = true;
      return;
    }
    if (::write(STDERR_FILENO, map->message.data(), map->message.size()) < 0) {
      // Standard error has no reader.
    }
    ::_exit(kRunFailed);
  }
  // The address belongs to no map, so the signal arrives again with its default action.
  ::signal(signal, SIG_DFL);
}

void watch_for_lost_pages() {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction action {};
    action.sa_sigaction = recover_or_leave;
    action.sa_flags = SA_SIGINFO;
    ::sigaction(SIGBUS, &action, nullptr);
  });
}

std::unique_ptr<MapRecord> registered(std::unique_ptr<MapRecord> map) {
  watch_for_lost_pages();
  const std::scoped_lock lock(changing_maps);
  MapRecord* const next = first_map;
  map->next = next;
  if (next) next->previous = map.get();
  first_map = map.get();
  return map;
}

void unregister(MapRecord* map) {
  const std::scoped_lock lock(changing_maps);
  MapRecord* const next = map->next;
  (map->previous ? map->previous->next : first_map) = next;
  if (next) next->previous = map->previous;
  while (walking > 0) std::this_thread::yield();
}

}  // namespace

MappedFile::MappedFile(const fs::path& path) {
  // Without O_NONBLOCK, opening a pipe without a writer would wait.
  Descriptor descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!descriptor.is_open()) throw cannot("read", path, errno);
  struct stat status {};
  if (::fstat(descriptor.get(), &status) != 0) throw cannot("read", path, errno);
  const auto size = static_cast<size_t>(status.st_size);
  void* mapped = nullptr;
  if (S_ISREG(status.st_mode) && size > 0)
    mapped = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor.get(), 0);
  if (S_ISDIR(status.st_mode)) throw cannot("read", path, EISDIR);
  if (!S_ISREG(status.st_mode))
    throw RunError(fmt::format("{} is a pipe or a device; expected a regular file", path.string()),
                   "write it to a file first; only `from: {npy: PATH}` of an input reads streams");
  if (mapped == MAP_FAILED) throw cannot("map", path, errno);
  if (!mapped) return;  // the file is empty
  bytes_ = {static_cast<const std::byte*>(mapped), size};
  record_ = registered(std::make_unique<MapRecord>(bytes_, std::move(descriptor), path));
}

void MappedFile::begin_recovering() const {
  if (record_) record_->recovers = true;
}

void MappedFile::end_recovering() const {
  if (!record_) return;
  record_->recovers = false;
  // A file that ends within its last mapped page reads as zeros after its end, without a signal.
  struct stat status {};
  const bool shorter = ::fstat(record_->file.get(), &status) != 0 ||
                       static_cast<size_t>(status.st_size) < record_->size;
  if (shorter || record_->lost) throw RunError(record_->loss);
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
