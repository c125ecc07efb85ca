// SPDX-License-Identifier: Apache-2.0
// The layouts that `quadrille check` visits: every mesh of so many ranks, each with choices of what rests where, what
// passes, what is stored in parts, how a step is run, and the case it trains. Pure functions of the number of ranks.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "training/law/cover.h"
#include "training/law/models.h"
#include "training/trainer.h"

namespace quadrille {

// A layout and the toy model it trains. Layouts with the same `serial_name` are held to the same serial run.
struct LawLayout {
  std::string name;         // "data=2 x=2, sequence, llama, clipped, f64 on reference"
  std::string serial_name;  // "llama, clipped, f64 on reference"
  std::string backend;      // "reference"
  Bounds bounds;            // of one step
  Workload workload;        // one step of plain SGD
  Workload serial;          // the same on one rank, the whole batch at once
};
Workload with_adamw(Workload, int steps);  // the same in steps of AdamW

class LawSpace {
 public:
  // `model`: a kind that training/law/models.h has a toy of. `backend`: computes the layouts in f32, and those in f64
  // if it can; else the reference does.
  LawSpace(std::string_view model, int ranks, const Backend& backend);

  struct Factor {
    std::string name;                 // "store"
    std::vector<std::string> values;  // "none", "zero1", ...
  };
  const std::vector<Factor>& factors() const { return factors_; }
  std::vector<int> counts() const;              // values of each factor
  bool lawful(const Choice&) const;             // whether sizes and meanings allow what is chosen so far
  LawLayout layout(const Choice&) const;        // of a complete lawful choice
  std::vector<Choice> choices(bool all) const;  // every pair of values at least once, or every combination
  std::vector<LawLayout> layouts() const;       // of every pair

 private:
  int extent(const Choice&, std::string_view mesh_axis) const;
  const std::string& value(const Choice&, std::size_t factor) const;  // "" for what is open
  std::vector<std::string> real(const Choice&, const std::vector<std::string>& mesh_axes) const;
  std::int64_t micro_batches(const Choice&) const;
  std::int64_t own_rows(const Choice&) const;
  bool tensor_on_depth(const Choice&) const;
  bool lawful_for_model(const Choice&) const;
  bool lawful_on_mesh(const Choice&) const;
  bool lawful_in_time(const Choice&) const;
  Json table(const Choice&) const;
  Json axes(const Choice&) const;
  Json passing(const Choice&) const;
  Json store(const Choice&) const;
  Json context(const Choice&) const;
  Json model(const Choice&) const;
  TrainingConfig training(const Choice&, std::int64_t micro_batch) const;
  std::string text(const Choice&, bool of_case) const;

  const LawModel& model_;
  std::string backends_[3];  // for f32, f64 and bf16
  LawSizes size_;
  std::vector<std::vector<int>> meshes_;  // extents of kLawMeshAxes
  std::vector<Factor> factors_;
};

// All ways to write `ranks` as a product of six extents, over the mesh axes data, pipe, depth, c, y, x.
inline constexpr const char* kLawMeshAxes[] = {"data", "pipe", "depth", "c", "y", "x"};
std::vector<std::vector<int>> law_meshes(int ranks);

}  // namespace quadrille
