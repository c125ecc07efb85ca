// SPDX-License-Identifier: Apache-2.0
// What a ledger gained between two moments, so that evaluation can be told from training: their FLOPs, messages and
// phases all pass through the same ledger of a rank.
#pragma once

#include <map>
#include <string>

#include "core/json.h"
#include "core/ledger.h"

namespace quadrille {

struct Tally {
  Work work;
  std::map<Ledger::MessageKey, Traffic> messages;
  std::map<std::string, double> phases;

  static Tally of(const Ledger& ledger) { return {ledger.work(), ledger.messages(), ledger.phases()}; }
  Tally& operator+=(const Tally&);
  Tally operator-(const Tally& earlier) const;  // what is zero in the difference is left out
};

Json tally_json(const Tally&);
Tally tally_from(const Json&);

}  // namespace quadrille
