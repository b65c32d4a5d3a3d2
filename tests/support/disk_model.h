// What a disk may hold after a power cut: changes that a program made, recorded and lost in part.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "runtime/base/file_operations.h"

namespace flow {

using Bytes = std::vector<std::byte>;

/// A change below a folder; paths are relative to it.
struct DiskChange {
  FileOperation::Kind kind;
  std::string path, target;             // of names, and of a directory that is synced
  std::optional<size_t> opened;         // of the file: which of the changes opened it
  bool makes = false, empties = false;  // kOpen: a missing file, one that is there
  uint64_t offset = 0;
  Bytes bytes;
};

/// Records what this program changes below a folder, in the order in which it happens, for as long
/// as it lives.
class DiskTrace : public FileObserver {
 public:
  explicit DiskTrace(const fs::path& folder);
  ~DiskTrace() override;
  DiskTrace(const DiskTrace&) = delete;
  DiskTrace& operator=(const DiskTrace&) = delete;

  long make(const FileOperation& operation, const std::function<long()>& call) override;
  /// When all threads that change files have ended.
  const std::vector<DiskChange>& changes() const { return changes_; }

 private:
  void note(const FileOperation& operation, uint64_t offset, long result);
  void note_open(const FileOperation& operation, int descriptor);

  const fs::path folder_;
  FileObserver* const before_;
  std::mutex mutex_;
  std::map<int, size_t> open_;  // descriptors: the change that opened them
  std::vector<DiskChange> changes_;
};

/// Paths and what they hold; directories hold nothing.
using DiskImage = std::map<std::string, std::optional<Bytes>>;

void write_image(const DiskImage& image, const fs::path& to);

/// What of the changes that no sync covers is lost.
enum class Loss {
  kNone,     // the program was killed, the system goes on
  kAll,      // nothing reached the disk
  kData,     // names did, data did not: new files are empty
  kZeros,    // names and sizes did, data did not: zeros
  kGarbage,  // the same, but the blocks hold something else
  kNames,    // data did, names did not
  kJournal,  // names up to some moment, as a journal keeps them; data in part
  kAny,      // any names and data
};
constexpr size_t kLosses = 8;

/// A file system that keeps in mind what a power cut may take. It allows what POSIX allows, which
/// is more than ext4, XFS or Btrfs lose:
///  - fsync of a file keeps its data and size, but not its name (fsync(2): "does not necessarily
///    ensure that the entry in the directory containing the file has also reached disk"); fsync of
///    a directory keeps its names; syncfs keeps all.
///  - Names that are not synced are lost in any combination and order, but those of one name keep
///    theirs; a rename or an exchange is whole or lost (rename(2): atomic; journals keep it so
///    through a crash). A journal as ext4's loses the last ones alone: Loss::kJournal.
///  - Data that are not synced are lost by sectors: each has any state since the last sync. One
///    that was never synced may be zeros or what its block held before (ext4(5), data=writeback).
///    Sizes likewise (see Pillai et al., "All File Systems Are Not Created Equal", OSDI 2014, table
///    1).
///  - Nothing synced is lost, and a sector is not torn: disks write them whole.
class DiskModel {
 public:
  /// Begins with what lies in `folder`, all of it synced.
  explicit DiskModel(const fs::path& folder);

  void apply(const DiskChange& change);
  DiskImage after(Loss loss, std::mt19937_64& chance) const;

 private:
  using Names = std::map<std::string, size_t>;

  struct Write {
    bool truncates;  // to the offset
    uint64_t offset;
    Bytes bytes;
  };
  struct Node {
    bool folder = false;
    Names now, synced;           // of a folder
    Bytes data;                  // of a file: synced
    std::vector<Write> pending;  // ... not synced
  };
  struct Entry {
    size_t folder;
    std::string name;
    std::optional<size_t> node;  // nothing: removed
  };
  using NameChange = std::vector<Entry>;  // whole or lost

  size_t read_folder(const fs::path& folder);
  std::pair<size_t, std::string> place(const std::string& path) const;
  std::optional<size_t> find(const std::string& path) const;
  void change_names(NameChange change);
  void open(const DiskChange& change);
  void sync_file(Node& node);
  /// Chooses too each change that comes before a chosen one and shares a name with it.
  void choose_earlier(std::vector<bool>& chosen) const;
  void sync_names(size_t folder);
  void sync_all();
  std::vector<bool> chosen_names(Loss loss, std::mt19937_64& chance) const;
  Bytes data_of(const Node& node, Loss loss, std::mt19937_64& chance) const;
  void list(size_t folder, const std::vector<Names>& names, const std::string& path, Loss loss,
            std::mt19937_64& chance, DiskImage& image) const;

  std::vector<Node> nodes_;  // the first is the folder
  std::vector<NameChange> pending_;
  std::map<size_t, size_t> opened_;  // nodes, by change
  size_t changes_ = 0;
};

}  // namespace flow
