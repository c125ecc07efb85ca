// SPDX-License-Identifier: Apache-2.0
#include "training/channel.h"

#include <utility>

#include "parallelism/courier.h"

namespace quadrille {

Channel::Channel(const Plan& plan, int direction, Ledger& ledger) : holds_(plan.overlap().send) {
  const Mesh& mesh = plan.mesh();
  const int stages = plan.stages(), axis = plan.pipeline().axis;
  to_ = (plan.stage() + direction + stages) % stages, from_ = (plan.stage() - direction + stages) % stages;
  group_ = mesh.part_of(
      axis, [](int) { return 0; }, mesh.name(axis));
  group_->prepare_passing();
  if (!holds_ || !mesh.courier()) return;
  group_ = carried_by(*mesh.courier(), std::move(group_), Sends::carried);
  group_->report_to(&ledger);
}

void Channel::send(Tensor tensor, Stream& stream) {
  settle(stream);
  under_way_ = group_->send(tensor.flat(), to_, stream);
  held_ = std::move(tensor);
  if (!holds_) settle(stream);
}

void Channel::receive(const Tensor& place, Stream& stream) {
  group_->receive(place.flat(), from_, stream).wait(stream);
}

void Channel::settle(Stream& stream) {
  std::move(under_way_).wait(stream);
  held_ = {};
}

}  // namespace quadrille
