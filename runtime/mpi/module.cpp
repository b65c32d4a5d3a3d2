// The functions that libflow_openmpi.so and libflow_mpich.so export (see
// runtime/exec/ranks/mpi_module.h): the collectives of ranks, implemented with MPI.
#include <fmt/format.h>
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <deque>
#include <limits>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "flow_build_id.h"
#include "runtime/base/error.h"
#include "runtime/exec/core/collectives.h"
#include "runtime/exec/ranks/mpi_module.h"

namespace flow::mpi {
namespace {

/// Throws RunError if `code` is an error. REQUIRES: `code` is the result of the MPI function
/// `function`.
void check(int code, const char* function) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  std::replace(text, text + length, '\n', ' ');  // MPICH adds a call stack
  throw RunError(fmt::format("{} failed: {}", function, text),
                 "another rank may have ended; its messages say why");
}

/// Calls an MPI function and checks its result: FLOW_MPI(MPI_Test, &request, &done, &status).
#define FLOW_MPI(function, ...) check(function(__VA_ARGS__), #function)

constexpr int kTag = 0;
constexpr ptrdiff_t kMostUnderWay = 16;  // messages in flight to one rank

/// Short messages between ranks, independent of the operations. No member waits for another rank. A
/// receive is always posted, so that a rank that stops while it sends blocks nothing.
class Messages {
 public:
  explicit Messages(MPI_Comm world) : received_(exec::Collectives::kMostMessage) {
    FLOW_MPI(MPI_Comm_dup, world, &communicator_);
    int ranks = 0;
    FLOW_MPI(MPI_Comm_size, communicator_, &ranks);
    sent_.resize(static_cast<size_t>(ranks));
    received_counts_.resize(static_cast<size_t>(ranks));
    receive();
  }

  Messages(const Messages&) = delete;
  Messages& operator=(const Messages&) = delete;

  /// Sends a message, or drops it if many earlier messages to this rank are still in flight,
  /// because the rank may be dead.
  void post(int to, std::span<const std::byte> message) {
    FLOW_CHECK(message.size() <= exec::Collectives::kMostMessage);
    all_sent();
    const auto under_way = std::ranges::count_if(sendings_, [to](const Sending& sending) {
      return sending.request != MPI_REQUEST_NULL && sending.to == to;
    });
    if (under_way >= kMostUnderWay) return;
    Sending& sending = free_sending();
    sending.to = to;
    sending.bytes.assign(message.begin(), message.end());
    FLOW_MPI(MPI_Isend, sending.bytes.data(), static_cast<int>(message.size()), MPI_BYTE, to, kTag,
             communicator_, &sending.request);
    ++sent_[static_cast<size_t>(to)];
  }

  std::optional<exec::RankMessage> poll() {
    int arrived = 0;
    MPI_Status status;
    FLOW_MPI(MPI_Test, &receiving_, &arrived, &status);
    if (!arrived) return std::nullopt;
    int bytes = 0;
    FLOW_MPI(MPI_Get_count, &status, MPI_BYTE, &bytes);
    exec::RankMessage message{status.MPI_SOURCE, {received_.begin(), received_.begin() + bytes}};
    ++received_counts_[static_cast<size_t>(message.from)];
    receive();
    return message;
  }

  bool all_sent() {
    bool all = true;
    for (Sending& sending : sendings_) {
      int sent = 0;
      FLOW_MPI(MPI_Test, &sending.request, &sent, MPI_STATUS_IGNORE);
      all = all && sent;
    }
    return all;
  }

  /// The numbers of messages sent to each rank and received from each rank.
  const std::vector<int>& sent() const { return sent_; }
  const std::vector<int>& received() const { return received_counts_; }
  void stop_receiving() {
    FLOW_MPI(MPI_Cancel, &receiving_);
    FLOW_MPI(MPI_Wait, &receiving_, MPI_STATUS_IGNORE);
  }

 private:
  struct Sending {
    MPI_Request request = MPI_REQUEST_NULL;
    int to = 0;
    std::vector<std::byte> bytes = {};
  };

  void receive() {
    FLOW_MPI(MPI_Irecv, received_.data(), static_cast<int>(received_.size()), MPI_BYTE,
             MPI_ANY_SOURCE, kTag, communicator_, &receiving_);
  }

  Sending& free_sending() {
    const auto free = std::ranges::find_if(
        sendings_, [](const Sending& sending) { return sending.request == MPI_REQUEST_NULL; });
    return free != sendings_.end() ? *free : sendings_.emplace_back();
  }

  MPI_Comm communicator_ = MPI_COMM_NULL;
  std::vector<int> sent_, received_counts_;  // indexed by rank
  std::deque<Sending> sendings_;             // reused for later messages
  MPI_Request receiving_ = MPI_REQUEST_NULL;
  std::vector<std::byte> received_;
};

#ifdef OPEN_MPI
constexpr std::string_view kLibrary = "Open MPI";
#else
constexpr std::string_view kLibrary = "MPICH";
#endif

/// Returns the name and version of the library. The texts "Open MPI v4.1.4, package: ..." and
/// "MPICH Version:\t4.0.2\n..." begin with both.
std::string library_and_version() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0;
  FLOW_MPI(MPI_Get_library_version, text, &length);
  const std::string_view said(text, static_cast<size_t>(length));
  const std::string_view from =
      said.substr(std::min(said.size(), said.find_first_of("0123456789")));
  return fmt::format("{} {}", kLibrary, from.substr(0, from.find_first_not_of("0123456789.")));
}

int int_of(size_t number) {
  FLOW_CHECK(number <= size_t{std::numeric_limits<int>::max()});
  return static_cast<int>(number);
}

/// Collectives that call MPI from only one thread at a time, and only functions that return
/// immediately.
class MpiCollectives final : public exec::Collectives {
 public:
  /// REQUIRES: MPI is initialized. The destructor does not call MPI, because the process may be
  /// failing.
  MpiCollectives() : library_(library_and_version()), messages_(MPI_COMM_WORLD) {
    for (MPI_Comm* communicator : {&exchanges_, &gathers_, &gathers_at_, &broadcasts_})
      FLOW_MPI(MPI_Comm_dup, MPI_COMM_WORLD, communicator);
    FLOW_MPI(MPI_Comm_rank, MPI_COMM_WORLD, &rank_);
    FLOW_MPI(MPI_Comm_size, MPI_COMM_WORLD, &size_);
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string library() const override { return library_; }

  Operation exchange(const exec::RankBlocks& send, const exec::RankBlocks& receive) override {
    return start([&](Slot& slot) {
      slot.send.set(send);
      slot.receive.set(receive);
      FLOW_MPI(MPI_Ialltoallv, slot.send.memory, slot.send.bytes.data(), slot.send.offsets.data(),
               MPI_BYTE, slot.receive.memory, slot.receive.bytes.data(),
               slot.receive.offsets.data(), MPI_BYTE, exchanges_, &slot.request);
    });
  }

  Operation gather(const exec::RankBlocks& blocks) override {
    return start([&](Slot& slot) {
      slot.receive.set(blocks);
      FLOW_MPI(MPI_Iallgatherv, MPI_IN_PLACE, 0, MPI_BYTE, slot.receive.memory,
               slot.receive.bytes.data(), slot.receive.offsets.data(), MPI_BYTE, gathers_,
               &slot.request);
    });
  }

  Operation gather_at(int root, const exec::RankBlocks& blocks) override {
    return start([&](Slot& slot) {
      const void* own = MPI_IN_PLACE;
      if (rank_ == root) {
        slot.receive.set(blocks);
      } else {
        own = blocks.memory + blocks.offsets[static_cast<size_t>(rank_)];
      }
      FLOW_MPI(MPI_Igatherv, own, int_of(blocks.bytes[static_cast<size_t>(rank_)]), MPI_BYTE,
               slot.receive.memory, slot.receive.bytes.data(), slot.receive.offsets.data(),
               MPI_BYTE, root, gathers_at_, &slot.request);
    });
  }

  Operation broadcast(int root, std::span<std::byte> bytes) override {
    return start([&](Slot& slot) {
      FLOW_MPI(MPI_Ibcast, bytes.data(), int_of(bytes.size()), MPI_BYTE, root, broadcasts_,
               &slot.request);
    });
  }

  bool test(Operation operation) override {
    const std::lock_guard lock(mutex_);
    Slot& slot = slots_.at(operation);
    FLOW_CHECK(slot.started);
    int complete = 0;
    FLOW_MPI(MPI_Test, &slot.request, &complete, MPI_STATUS_IGNORE);
    slot.started = !complete;
    return complete;
  }

  void post(int to, std::span<const std::byte> message) override {
    const std::lock_guard lock(mutex_);
    messages_.post(to, message);
  }

  std::optional<exec::RankMessage> poll() override {
    const std::lock_guard lock(mutex_);
    return messages_.poll();
  }

  void finish() override {
    receive_until([&] {
      const std::lock_guard lock(mutex_);
      return messages_.all_sent();
    });
    // No message may be in flight when MPI ends.
    std::vector<int> expected(static_cast<size_t>(size_));
    const Operation counts = start([&](Slot& slot) {
      FLOW_MPI(MPI_Ialltoall, messages_.sent().data(), 1, MPI_INT, expected.data(), 1, MPI_INT,
               exchanges_, &slot.request);
    });
    receive_until([&] { return test(counts); });
    receive_until([&] { return messages_.received() == expected; });
    const std::lock_guard lock(mutex_);
    messages_.stop_receiving();
    FLOW_MPI(MPI_Finalize);
  }

 private:
  /// Blocks in the form that MPI requires. MPI's offsets are ints, so they are relative to the
  /// first byte of any block.
  struct Layout {
    void set(const exec::RankBlocks& blocks);
    std::byte* memory = nullptr;
    std::vector<int> bytes = {}, offsets = {};
  };
  /// An operation, or an entry for one. MPI reads the arrays until the operation is complete.
  struct Slot {
    MPI_Request request = MPI_REQUEST_NULL;
    bool started = false;
    Layout send = {}, receive = {};
  };

  /// Starts an operation: `call` starts it in a free slot.
  template <typename Call>
  Operation start(const Call& call) {
    const std::lock_guard lock(mutex_);
    auto slot = std::ranges::find_if(slots_, [](const Slot& one) { return !one.started; });
    if (slot == slots_.end()) slot = slots_.emplace(slots_.end());
    call(*slot);
    slot->started = true;
    return static_cast<Operation>(slot - slots_.begin());
  }

  /// Receives messages until `done` returns true. Other ranks may not be able to send all messages
  /// before earlier ones are received.
  template <typename Done>
  void receive_until(const Done& done) {
    while (!done()) {
      while (poll()) {
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  std::mutex mutex_;
  /// Separate communicators, because operations of different kinds may overtake each other.
  MPI_Comm exchanges_ = MPI_COMM_NULL, gathers_ = MPI_COMM_NULL, gathers_at_ = MPI_COMM_NULL,
           broadcasts_ = MPI_COMM_NULL;
  int rank_ = 0, size_ = 1;
  std::string library_;
  std::deque<Slot> slots_;  // reused for later operations
  Messages messages_;
};

void MpiCollectives::Layout::set(const exec::RankBlocks& blocks) {
  const size_t ranks = blocks.bytes.size();
  memory = blocks.memory;
  size_t first = std::numeric_limits<size_t>::max();
  for (size_t r = 0; r < ranks; ++r)
    if (blocks.bytes[r] > 0) first = std::min(first, blocks.offsets[r]);
  bytes.assign(ranks, 0);
  offsets.assign(ranks, 0);
  for (size_t r = 0; r < ranks; ++r) {
    if (blocks.bytes[r] == 0) continue;
    memory = blocks.memory + first;
    bytes[r] = int_of(blocks.bytes[r]);
    offsets[r] = int_of(blocks.offsets[r] - first);
  }
}

void initialize() {
  int threads = MPI_THREAD_SINGLE;
  FLOW_MPI(MPI_Init_thread, nullptr, nullptr, MPI_THREAD_SERIALIZED, &threads);
  for (MPI_Comm communicator : {MPI_COMM_WORLD, MPI_COMM_SELF})
    FLOW_MPI(MPI_Comm_set_errhandler, communicator, MPI_ERRORS_RETURN);
  if (threads < MPI_THREAD_SERIALIZED)
    throw RunError("this MPI library supports one thread only", "use a build with threads");
}

}  // namespace
}  // namespace flow::mpi

extern "C" {
flow::exec::MpiModuleEntries::BuildId flow_module_build_id;
flow::exec::MpiModuleEntries::Open flow_mpi_open;

const char* flow_module_build_id() { return FLOW_BUILD_ID; }

flow::exec::Collectives* flow_mpi_open() {
  flow::mpi::initialize();
  return new flow::mpi::MpiCollectives();
}
}
