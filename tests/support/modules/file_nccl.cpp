// Messages are written beside their place and moved there, so that they are whole when they appear.
#include "tests/support/modules/file_nccl.h"

#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace flow::stand_in {
namespace {

namespace fs = std::filesystem;
using cuda::NcclComm;
using cuda::NcclResult;

constexpr const char* kAborted = "aborted";

struct Message {
  std::byte* memory;
  size_t bytes;
  fs::path file;
};

/// A communicator, as one rank sees it. Work under way shares it.
struct Rank : std::enable_shared_from_this<Rank> {
  test::FakeDriver* driver = nullptr;
  fs::path folder;
  int rank = 0;
  std::map<std::pair<int, int>, size_t> counts;  // messages so far, by sender and receiver
  void* stream = nullptr;                        // of the group
  std::vector<Message> sends, receives;          // of the group
  std::atomic<bool> aborted = false, left_by_others = false;
};
thread_local std::shared_ptr<Rank> own;  // of the thread that connects
thread_local Rank* grouped = nullptr;    // whose calls this thread groups

Rank& rank_of(NcclComm* comm) { return *reinterpret_cast<Rank*>(comm); }

void write(const Message& message) {
  const fs::path beside = message.file.string() + ".part";
  std::ofstream(beside, std::ios::binary)
      .write(reinterpret_cast<const char*>(message.memory),
             static_cast<std::streamsize>(message.bytes));
  std::error_code ignored;  // rank 0 has ended, and the folder with it
  fs::rename(beside, message.file, ignored);
}

/// Leaves the memory as it is where the other rank ends before it sends.
void read(Rank& rank, const Message& message) {
  while (!fs::exists(message.file)) {
    if (rank.aborted) return;
    if (fs::exists(rank.folder / kAborted) || !fs::exists(rank.folder)) {
      rank.left_by_others = true;
      return;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  if (fs::file_size(message.file) != message.bytes) std::abort();
  std::ifstream(message.file, std::ios::binary)
      .read(reinterpret_cast<char*>(message.memory), static_cast<std::streamsize>(message.bytes));
  fs::remove(message.file);
}

Message message(Rank& rank, void* memory, size_t bytes, int from, int to) {
  const size_t number = rank.counts[{from, to}]++;
  return {static_cast<std::byte*>(memory), bytes,
          rank.folder / fmt::format("{}-{}-{}", from, to, number)};
}

NcclResult get_version(int* version) {
  *version = 22800;
  return NcclResult::kSuccess;
}

NcclResult get_unique_id(cuda::NcclId* id) {
  std::string folder = (fs::temp_directory_path() / "flow-nccl-XXXXXX").string();
  if (!::mkdtemp(folder.data()) || folder.size() >= sizeof id->bytes)
    return NcclResult::kSystemError;
  std::strcpy(id->bytes, folder.c_str());
  return NcclResult::kSuccess;
}

NcclResult init(NcclComm** comm, int, cuda::NcclId id, int rank, cuda::NcclConfig*) {
  own->folder = id.bytes;
  own->rank = rank;
  *comm = reinterpret_cast<NcclComm*>(own.get());
  return NcclResult::kSuccess;
}

NcclResult get_async_error(NcclComm* comm, NcclResult* error) {
  *error = rank_of(comm).left_by_others ? NcclResult::kRemoteError : NcclResult::kSuccess;
  return NcclResult::kSuccess;
}

/// All messages have been read, or nobody waits for them any more.
NcclResult abort_comm(NcclComm* comm) {
  Rank& rank = rank_of(comm);
  std::error_code ignored;
  rank.aborted = true;
  std::ofstream(rank.folder / kAborted) << rank.rank;
  if (rank.rank != 0) return NcclResult::kSuccess;
  // Moved first: a rank that writes meanwhile would keep a folder in which nothing says `aborted`.
  const fs::path ended = rank.folder.string() + "-ended";
  fs::rename(rank.folder, ended, ignored);
  fs::remove_all(ended, ignored);
  return NcclResult::kSuccess;
}

NcclResult group_start() { return NcclResult::kSuccess; }

NcclResult group_end() {
  Rank& rank = *std::exchange(grouped, nullptr);
  test::Work work;
  for (const Message& send : rank.sends) work.uses.push_back({send.memory, send.bytes, false});
  for (const Message& one : rank.receives) work.uses.push_back({one.memory, one.bytes, true});
  work.run = [rank = rank.shared_from_this(), sends = std::exchange(rank.sends, {}),
              receives = std::exchange(rank.receives, {})](const test::OperationPtr&) {
    if (rank->aborted) return;
    for (const Message& one : sends) write(one);
    for (const Message& one : receives) read(*rank, one);
  };
  rank.driver->put_work({rank.stream}, "group", std::move(work));
  return NcclResult::kSuccess;
}

/// The rank of a call in a group.
Rank& enter_group(NcclComm* comm, void* stream) {
  grouped = &rank_of(comm);
  grouped->stream = stream;
  return *grouped;
}

NcclResult send(const void* memory, size_t count, int, int peer, NcclComm* comm, void* stream) {
  Rank& rank = enter_group(comm, stream);
  rank.sends.push_back(message(rank, const_cast<void*>(memory), count, rank.rank, peer));
  return NcclResult::kSuccess;
}

NcclResult receive(void* memory, size_t count, int, int peer, NcclComm* comm, void* stream) {
  Rank& rank = enter_group(comm, stream);
  rank.receives.push_back(message(rank, memory, count, peer, rank.rank));
  return NcclResult::kSuccess;
}

const char* get_error_string(NcclResult) { return "unhandled system error"; }

}  // namespace

void use_file_nccl(test::FakeDriver& driver) {
  own = std::make_shared<Rank>();
  own->driver = &driver;
}

const cuda::NcclCalls& open_file_nccl() {
  static constexpr cuda::NcclCalls kCalls{get_version, get_unique_id,   init,      get_async_error,
                                          abort_comm,  group_start,     group_end, send,
                                          receive,     get_error_string};
  return kCalls;
}

}  // namespace flow::stand_in
