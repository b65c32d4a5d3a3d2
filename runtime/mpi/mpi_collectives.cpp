// What ranks do together, by MPI.
#include "runtime/mpi/mpi_collectives.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <string_view>
#include <thread>

#include "runtime/base/check.h"
#include "runtime/mpi/calls.h"

namespace flow::mpi {
namespace {

#ifdef OPEN_MPI
constexpr std::string_view kLibrary = "Open MPI";
#else
constexpr std::string_view kLibrary = "MPICH";
#endif

/// "Open MPI v4.1.4, package: ..." and "MPICH Version:\t4.0.2\n..." have the version first.
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

}  // namespace

MpiCollectives::MpiCollectives() : library_(library_and_version()), messages_(MPI_COMM_WORLD) {
  for (MPI_Comm* communicator : {&exchanges_, &gathers_, &gathers_at_, &broadcasts_})
    FLOW_MPI(MPI_Comm_dup, MPI_COMM_WORLD, communicator);
  FLOW_MPI(MPI_Comm_rank, MPI_COMM_WORLD, &rank_);
  FLOW_MPI(MPI_Comm_size, MPI_COMM_WORLD, &size_);
}

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

/// `call` starts an operation in a slot.
template <typename Call>
exec::Collectives::Operation MpiCollectives::start(const Call& call) {
  const std::lock_guard lock(mutex_);
  auto slot = std::ranges::find_if(slots_, [](const Slot& one) { return !one.started; });
  if (slot == slots_.end()) slot = slots_.emplace(slots_.end());
  call(*slot);
  slot->started = true;
  return static_cast<Operation>(slot - slots_.begin());
}

exec::Collectives::Operation MpiCollectives::exchange(const exec::RankBlocks& send,
                                                      const exec::RankBlocks& receive) {
  return start([&](Slot& slot) {
    slot.send.set(send);
    slot.receive.set(receive);
    FLOW_MPI(MPI_Ialltoallv, slot.send.memory, slot.send.bytes.data(), slot.send.offsets.data(),
             MPI_BYTE, slot.receive.memory, slot.receive.bytes.data(), slot.receive.offsets.data(),
             MPI_BYTE, exchanges_, &slot.request);
  });
}

exec::Collectives::Operation MpiCollectives::gather(const exec::RankBlocks& blocks) {
  return start([&](Slot& slot) {
    slot.receive.set(blocks);
    FLOW_MPI(MPI_Iallgatherv, MPI_IN_PLACE, 0, MPI_BYTE, slot.receive.memory,
             slot.receive.bytes.data(), slot.receive.offsets.data(), MPI_BYTE, gathers_,
             &slot.request);
  });
}

exec::Collectives::Operation MpiCollectives::gather_at(int root, const exec::RankBlocks& blocks) {
  return start([&](Slot& slot) {
    const void* own = MPI_IN_PLACE;
    if (rank_ == root) {
      slot.receive.set(blocks);
    } else {
      own = blocks.memory + blocks.offsets[static_cast<size_t>(rank_)];
    }
    FLOW_MPI(MPI_Igatherv, own, int_of(blocks.bytes[static_cast<size_t>(rank_)]), MPI_BYTE,
             slot.receive.memory, slot.receive.bytes.data(), slot.receive.offsets.data(), MPI_BYTE,
             root, gathers_at_, &slot.request);
  });
}

exec::Collectives::Operation MpiCollectives::broadcast(int root, std::span<std::byte> bytes) {
  return start([&](Slot& slot) {
    FLOW_MPI(MPI_Ibcast, bytes.data(), int_of(bytes.size()), MPI_BYTE, root, broadcasts_,
             &slot.request);
  });
}

bool MpiCollectives::test(Operation operation) {
  const std::lock_guard lock(mutex_);
  Slot& slot = slots_.at(operation);
  FLOW_CHECK(slot.started);
  int complete = 0;
  FLOW_MPI(MPI_Test, &slot.request, &complete, MPI_STATUS_IGNORE);
  slot.started = !complete;
  return complete;
}

void MpiCollectives::post(int to, std::span<const std::byte> message) {
  const std::lock_guard lock(mutex_);
  messages_.post(to, message);
}

std::optional<exec::RankMessage> MpiCollectives::poll() {
  const std::lock_guard lock(mutex_);
  return messages_.poll();
}

/// Messages may have to be received before they are sent.
template <typename Done>
void MpiCollectives::receive_until(const Done& done) {
  while (!done()) {
    while (poll()) {
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void MpiCollectives::finish() {
  receive_until([&] {
    const std::lock_guard lock(mutex_);
    return messages_.all_sent();
  });
  // Nothing may be on its way when MPI ends.
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

}  // namespace flow::mpi
