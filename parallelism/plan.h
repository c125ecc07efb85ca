// SPDX-License-Identifier: Apache-2.0
// The strategy, resolved on a mesh: where the model's axes rest, and what part of anything a rank holds. The states and
// their meaning are those of docs/law.md. Plan decides from the table and the states alone, never from local counts, so
// that all ranks decide alike.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"
#include "core/slice.h"
#include "core/tensor.h"
#include "parallelism/mesh.h"

namespace quadrille {

// The names a model gives to its dims. `none`: a dim that no strategy may split.
enum class Axis : std::uint8_t { none, batch, sequence, embed, heads, mlp, vocab, height };
inline constexpr std::size_t kAxes = 8;
std::string_view name_of(Axis);
Axis axis_from(const Json& name);  // throws Error naming the nearest

// What a rank holds of a value along one mesh axis. V: the value, G: its gradient, of the sum of losses.
//   same   every rank holds V; every rank's gradient is G
//   split  the ranks' parts side by side along `axis` are V; likewise G
//   copy   every rank holds V; the ranks' gradients sum to G
//   debt   the ranks' numbers sum to V; every rank's gradient is G
enum class Kind : std::uint8_t { same, split, copy, debt };
struct State {
  Kind kind = Kind::same;
  Axis axis = Axis::none;  // of a split only
  bool operator==(const State&) const = default;
};
using States = std::array<State, kMaxMeshAxes>;  // one per mesh axis
std::string text_of(State);                      // "split(mlp)"

struct Dim {
  Axis axis = Axis::none;
  std::int64_t extent = 0;  // of the whole, over all ranks
};
using Dims = std::vector<Dim>;
// Where weights, gradients and optimizer state are kept between uses: the mesh axes over which each is cut, each set
// containing the one before. Gradients listed are reduce-scattered after every micro-batch, others once a step.
struct Store {
  MeshAxes weights = 0, gradients = 0, optimizer = 0;
  bool keep_gathered = false;  // gathered weights stay from a block's forward to its backward
};

enum class Schedule : std::uint8_t { gpipe, one_forward_one_backward, interleaved };
std::string_view name_of(Schedule);  // "gpipe", "1f1b", "interleaved"
struct Pipeline {
  int axis = -1;  // the mesh axis of stages; -1: one stage
  Schedule schedule = Schedule::one_forward_one_backward;
  int chunks = 1;  // runs of layers per rank
};

// Bulk messages that may travel beside the maths.
struct Overlap {
  bool input_gradient = false;  // a linear layer's crossing beside its weight gradient (OAR)
  bool reduce_scatter = false;  // gradients of a finished block beside the next block's backward (ORS)
  bool all_gather = false;      // the next block's weights beside this block's maths (OAG)
  bool send = false;            // what a stage hands on, beside its next micro-batch
};

bool has(const Dims&, Axis);
int dim_of(const Dims&, Axis);  // throws Error: no such dim

// Attention where `sequence` rests on mesh axes that carry no heads: how a query meets the keys of other ranks, and in
// which order positions are dealt out. Balanced: with c ranks rank i holds chunks i and 2c-1-i of 2c, so that all have
// equal causal work.
enum class KeyExchange : std::uint8_t {
  gather,  // keys and values come from everywhere
  turn,    // all tokens of a part of the heads, by all-to-all, and back
  ring     // keys and values travel round, block by block
};
struct ContextParallelism {
  KeyExchange attention = KeyExchange::gather;
  bool balanced = false;
};

class Plan {
 public:
  // Throws Error, all faults of the table at once: unknown keys or names, two axes of one value on one mesh axis, a
  // mesh axis that nothing uses, parts of the grammar that this version does not serve.
  Plan(const Json& table, const Mesh&);
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  const Mesh& mesh() const { return mesh_; }
  // The part of a dim that this rank holds under these states; or the rank that stands at `place` on `mesh_axis`.
  Slice slice(Dim, const States&, int mesh_axis = -1, int place = 0) const;
  Shape shape(const Dims&, const States&, int mesh_axis = -1, int place = 0) const;
  States at_rest(const Dims&) const;  // of a value between ops
  // Of a parameter. When two dims fall on one mesh axis, or are of one axis, the earlier one, which is summed over,
  // keeps it and the later becomes whole (its axis is renamed `none` in `dims`): settling then scatters the debt over
  // it.
  States of_parameter(Dims& dims) const;
  // Where a debt on `mesh_axis` may be scattered: along an axis of the value that rests there, or may pass there.
  std::optional<Axis> scatter_target(const Dims&, const States&, int mesh_axis) const;
  bool innermost(Axis, int mesh_axis, const States&) const;  // no split of the axis lies inside this mesh axis
  bool rests_on(Axis, int mesh_axis) const;
  bool may_gather(Axis) const;
  std::vector<int> nesting(Axis) const;  // the mesh axes that may split it, outermost first
  int parts(Axis) const;                 // into how many an axis at rest is cut
  // Into how many groups attention deals its queries: one for each key/value head, or, where heads are cut into a
  // multiple of these, one for each part, with a replica of its key/value head.
  std::int64_t head_groups(std::int64_t heads, std::int64_t kv_heads) const;
  int most_parts(Axis) const;  // into how many an axis may be cut, at rest or passing
  const ContextParallelism& context() const { return context_; }
  MeshAxes context_axes() const;  // those longer than one on which sequence rests and heads do not
  // The positions of the part of a dim that a rank holds, in the order in which it holds them: one slice, or, where
  // causal work is balanced, a few consecutive runs. `places`: on every mesh axis, of the rank that is asked about.
  std::vector<Slice> runs(Dim, const States&) const;
  std::vector<Slice> runs(Dim, const States&, std::span<const int> places) const;

  const Store& store() const { return store_; }
  bool sums_axis_by_axis() const { return sums_axis_by_axis_; }
  const Pipeline& pipeline() const { return pipeline_; }
  int stages() const { return pipeline_.axis < 0 ? 1 : mesh_.extent(pipeline_.axis); }
  int stage() const { return pipeline_.axis < 0 ? 0 : mesh_.at(pipeline_.axis); }
  MeshAxes pipe() const { return pipeline_.axis < 0 ? 0 : bit(pipeline_.axis); }  // its ranks are no replicas
  bool recomputes() const { return recomputes_; }  // layers are rerun before their backward
  const Overlap& overlap() const { return overlap_; }

 private:
  struct Passing {
    Axis made, axis;
    int mesh_axis;
    std::string origin;
  };
  void read_axes(const Json&, std::vector<std::string>& faults);
  void read_passing(const Json&, std::vector<std::string>& faults);
  void read_context(const Json*, std::vector<std::string>& faults);
  void read_store(const Json&, std::vector<std::string>& faults);
  void read_pipeline(const Json&, std::vector<std::string>& faults);
  void read_overlap(const Json&, std::vector<std::string>& faults);
  MeshAxes read_store_axes(const Json* list, std::vector<std::string>& faults);
  int known_mesh_axis(const Json& name, std::vector<std::string>& faults);
  // What a table asks for although each word of it is known (plan_check.cpp).
  void check(std::vector<std::string>& faults) const;
  void check_pipeline_alone(std::vector<std::string>& faults) const;
  void check_mesh_axis(int m, std::vector<std::string>& faults) const;
  void check_nesting(std::vector<std::string>& faults) const;
  void check_passing(std::vector<std::string>& faults) const;
  bool may_owe_on(int m, const Passing& but) const;
  void check_order_of_tokens(std::vector<std::string>& faults) const;
  std::vector<int> real_order(Axis) const;  // the mesh axes longer than one on which it rests
  std::string named_at(Axis a) const { return named_at_[static_cast<std::size_t>(a)]; }

  const Mesh& mesh_;
  std::array<std::vector<int>, kAxes> rest_;  // by Axis
  std::array<std::string, kAxes> named_at_;   // by Axis: file and line
  std::string mesh_at_, store_at_;
  MeshAxes meant_ = 0;  // what a word that is not known may have meant
  std::vector<Passing> passing_;
  std::vector<Axis> may_gather_;
  ContextParallelism context_;
  Store store_;
  bool sums_axis_by_axis_ = false, recomputes_ = false;
  Pipeline pipeline_;
  Overlap overlap_;
};

// The mesh axes of a strategy table for this many ranks: "*" takes what remains. Throws Error naming extents and ranks.
std::vector<MeshAxis> mesh_axes(const Json& table, int ranks);
// The same with all that is wrong told at once: axes that cannot be read stay 1 long, so that reading may go on.
std::vector<MeshAxis> mesh_axes(const Json& table, int ranks, std::vector<std::string>& faults);

}  // namespace quadrille
