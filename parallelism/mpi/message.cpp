// SPDX-License-Identifier: Apache-2.0
// One message between two processes: an envelope, small numbers in the same packet, large ones after it in chunks that
// MPI's 32-bit counts can hold.
#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "parallelism/mpi/transport.h"

namespace quadrille::mpi {

void Departure::start(Transport& transport, int world_rank, int tag, const Envelope& envelope, const void* payload) {
  transport_ = &transport;
  requests_.clear();
  const std::int64_t with_it = envelope.payload <= kInline ? envelope.payload : 0;
  packet_.resize(sizeof(Envelope) + static_cast<std::size_t>(with_it));
  std::memcpy(packet_.data(), &envelope, sizeof(Envelope));
  if (with_it > 0) std::memcpy(packet_.data() + sizeof(Envelope), payload, static_cast<std::size_t>(with_it));
  const auto send = [&](const void* data, std::int64_t bytes) {
    check(MPI_Isend(data, static_cast<int>(bytes), MPI_BYTE, world_rank, tag, MPI_COMM_WORLD,
                    &requests_.emplace_back(MPI_REQUEST_NULL)),
          "MPI_Isend");
  };
  send(packet_.data(), static_cast<std::int64_t>(packet_.size()));
  for (std::int64_t sent = with_it; sent < envelope.payload; sent += transport.chunk_bytes())
    send(static_cast<const std::byte*>(payload) + sent, std::min(transport.chunk_bytes(), envelope.payload - sent));
}

bool Departure::done() {
  if (requests_.empty()) return true;
  int all = 0;
  check(MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &all, MPI_STATUSES_IGNORE), "MPI_Testall");
  if (all) requests_.clear();
  return all != 0;
}

void Departure::stop() noexcept {
  if (!requests_.empty()) transport_->abandon();
  requests_.clear();
}

void Arrival::expect(Transport& transport, int world_rank, int tag, void* place, std::int64_t bytes) {
  transport_ = &transport;
  peer_ = world_rank, tag_ = tag, place_ = static_cast<std::byte*>(place), bytes_ = bytes, got_ = 0;
  packet_.resize(sizeof(Envelope) + static_cast<std::size_t>(kInline));
  check(MPI_Irecv(packet_.data(), static_cast<int>(packet_.size()), MPI_BYTE, peer_, tag_, MPI_COMM_WORLD, &request_),
        "MPI_Irecv");
  state_ = State::packet;
}

bool Arrival::tested() {
  int arrived = 0;
  check(MPI_Test(&request_, &arrived, MPI_STATUS_IGNORE), "MPI_Test");
  return arrived != 0;
}

const Envelope& Arrival::envelope() {
  std::memcpy(&envelope_, packet_.data(), sizeof(Envelope));
  return envelope_;
}

void Arrival::advance() {
  if (state_ == State::packet) {
    require(envelope_.payload == bytes_, "a message of {} bytes came where {} were awaited", envelope_.payload, bytes_);
    if (bytes_ > kInline) return next_chunk();
    if (bytes_ > 0) std::memcpy(place_, packet_.data() + sizeof(Envelope), static_cast<std::size_t>(bytes_));
    state_ = State::done;
    return;
  }
  got_ += chunk_;
  if (got_ < bytes_) return next_chunk();
  state_ = State::done;
}

void Arrival::next_chunk() {
  chunk_ = std::min(transport_->chunk_bytes(), bytes_ - got_);
  check(MPI_Irecv(place_ + got_, static_cast<int>(chunk_), MPI_BYTE, peer_, tag_, MPI_COMM_WORLD, &request_),
        "MPI_Irecv");
  state_ = State::payload;
}

// A receive that nothing has matched yet can be taken back, another cannot.
void Arrival::take_back() noexcept {
  if (request_ == MPI_REQUEST_NULL) return;
  int over = 0;
  if (transport_->abandoned()) {  // MPI is not called any more, so nothing will arrive
    request_ = MPI_REQUEST_NULL;
    return;
  }
  if (MPI_Cancel(&request_) != MPI_SUCCESS || MPI_Test(&request_, &over, MPI_STATUS_IGNORE) != MPI_SUCCESS || !over)
    transport_->abandon();
  request_ = MPI_REQUEST_NULL;
}

}  // namespace quadrille::mpi
