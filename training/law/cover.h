// SPDX-License-Identifier: Apache-2.0
// Choosing few combinations out of many so that every pair of values occurs together in at least one of them. Pure
// functions of their arguments, used by the layouts of `quadrille check`.
#pragma once

#include <functional>
#include <vector>

namespace quadrille {

// The value of each factor, by number; kOpen: not chosen yet.
using Choice = std::vector<int>;
inline constexpr int kOpen = -1;
// Whether the values chosen so far may stand together. What it refuses must stay refused when more is chosen.
using Lawful = std::function<bool(const Choice&)>;

// Lawful combinations in which every pair of values of two factors occurs, wherever any lawful combination has it.
// Greedy: each new combination starts at the first pair still missing and takes, factor by factor, the value that
// brings most missing pairs. The same arguments give the same list. `values`: how many values each factor has.
std::vector<Choice> cover_pairs(const std::vector<int>& values, const Lawful&);
// Every lawful combination, the last factor changing fastest.
std::vector<Choice> all_choices(const std::vector<int>& values, const Lawful&);

}  // namespace quadrille
