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
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace flow::stand_in {
namespace {

namespace fs = std::filesystem;
using cuda::NcclComm;
using cuda::NcclResult;

struct Message {
  std::byte* memory;
  size_t bytes;
  fs::path file;
};

/// This process, as a rank.
struct Process {
  test::FakeDriver* driver = nullptr;
  fs::path folder;
  int rank = 0;
  std::map<std::pair<int, int>, size_t> counts;  // messages so far, by sender and receiver
  void* stream = nullptr;                        // of the group
  std::vector<Message> sends, receives;          // of the group
  std::atomic<bool> aborted = false;
};
Process process;

void write(const Message& message) {
  const fs::path beside = message.file.string() + ".part";
  std::ofstream(beside, std::ios::binary)
      .write(reinterpret_cast<const char*>(message.memory),
             static_cast<std::streamsize>(message.bytes));
  fs::rename(beside, message.file);
}

void read(const Message& message) {
  while (!fs::exists(message.file)) {
    if (process.aborted) return;
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  if (fs::file_size(message.file) != message.bytes) std::abort();
  std::ifstream(message.file, std::ios::binary)
      .read(reinterpret_cast<char*>(message.memory), static_cast<std::streamsize>(message.bytes));
  fs::remove(message.file);
}

Message message(void* memory, size_t bytes, int from, int to) {
  const size_t number = process.counts[{from, to}]++;
  return {static_cast<std::byte*>(memory), bytes,
          process.folder / fmt::format("{}-{}-{}", from, to, number)};
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
  process.folder = id.bytes;
  process.rank = rank;
  *comm = reinterpret_cast<NcclComm*>(&process);
  return NcclResult::kSuccess;
}

NcclResult get_async_error(NcclComm*, NcclResult* error) {
  *error = NcclResult::kSuccess;
  return NcclResult::kSuccess;
}

/// All messages have been read, or nobody waits for them any more.
NcclResult abort_comm(NcclComm*) {
  std::error_code ignored;
  process.aborted = true;
  if (process.rank == 0) fs::remove_all(process.folder, ignored);
  return NcclResult::kSuccess;
}

NcclResult group_start() { return NcclResult::kSuccess; }

NcclResult group_end() {
  process.driver->put_work(
      {process.stream}, "group",
      [sends = std::exchange(process.sends, {}), receives = std::exchange(process.receives, {})] {
        if (process.aborted) return;
        for (const Message& one : sends) write(one);
        for (const Message& one : receives) read(one);
      });
  return NcclResult::kSuccess;
}

NcclResult send(const void* memory, size_t count, int, int peer, NcclComm*, void* stream) {
  process.stream = stream;
  process.sends.push_back(message(const_cast<void*>(memory), count, process.rank, peer));
  return NcclResult::kSuccess;
}

NcclResult receive(void* memory, size_t count, int, int peer, NcclComm*, void* stream) {
  process.stream = stream;
  process.receives.push_back(message(memory, count, peer, process.rank));
  return NcclResult::kSuccess;
}

const char* get_error_string(NcclResult) { return "unhandled system error"; }

}  // namespace

void use_file_nccl(test::FakeDriver& driver) { process.driver = &driver; }

const cuda::NcclCalls& open_file_nccl() {
  static constexpr cuda::NcclCalls kCalls{get_version, get_unique_id,   init,      get_async_error,
                                          abort_comm,  group_start,     group_end, send,
                                          receive,     get_error_string};
  return kCalls;
}

}  // namespace flow::stand_in
