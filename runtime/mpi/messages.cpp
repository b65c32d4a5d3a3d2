// Short messages between ranks, beside the operations.
#include "runtime/mpi/messages.h"

#include <algorithm>

#include "runtime/base/check.h"
#include "runtime/mpi/calls.h"

namespace flow::mpi {
namespace {

constexpr int kTag = 0;
constexpr ptrdiff_t kMostUnderWay = 16;  // to one rank

}  // namespace

Messages::Messages(MPI_Comm world) : received_(exec::Collectives::kMostMessage) {
  FLOW_MPI(MPI_Comm_dup, world, &communicator_);
  int ranks = 0;
  FLOW_MPI(MPI_Comm_size, communicator_, &ranks);
  sent_.resize(static_cast<size_t>(ranks));
  received_counts_.resize(static_cast<size_t>(ranks));
  receive();
}

void Messages::post(int to, std::span<const std::byte> message) {
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

std::optional<exec::RankMessage> Messages::poll() {
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

bool Messages::all_sent() {
  bool all = true;
  for (Sending& sending : sendings_) {
    int sent = 0;
    FLOW_MPI(MPI_Test, &sending.request, &sent, MPI_STATUS_IGNORE);
    all = all && sent;
  }
  return all;
}

void Messages::stop_receiving() {
  FLOW_MPI(MPI_Cancel, &receiving_);
  FLOW_MPI(MPI_Wait, &receiving_, MPI_STATUS_IGNORE);
}

void Messages::receive() {
  FLOW_MPI(MPI_Irecv, received_.data(), static_cast<int>(received_.size()), MPI_BYTE,
           MPI_ANY_SOURCE, kTag, communicator_, &receiving_);
}

Messages::Sending& Messages::free_sending() {
  const auto free = std::ranges::find_if(
      sendings_, [](const Sending& sending) { return sending.request == MPI_REQUEST_NULL; });
  return free != sendings_.end() ? *free : sendings_.emplace_back();
}

}  // namespace flow::mpi
