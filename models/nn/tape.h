// SPDX-License-Identifier: Apache-2.0
// What happened in one block for one micro-batch, and how to walk back. Layers call ops here; each op demands lawful
// states of its operands, computes the local part, records how to go back and bills the work. Messages appear only as
// crossings, each the backward of another. The law: docs/law.md. One tape lives from a block's forward to its backward.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/ops.h"
#include "models/nn/halo.h"
#include "models/nn/moves.h"
#include "models/nn/parameter.h"

namespace quadrille {

struct Var {
  int id = -1;
};

// A loss of the model, known by its field of labels.
struct LossTotals {
  std::string labels;
  Tensor sums;         // f64 [2]: Σ loss, Σ count are added here
  Tensor counts = {};  // f64 [2], of a further loss: labels of the whole step that count in the main loss, and in this
};

// The rows a tape sees: `rows` of the global batch from `first_row` on, over all ranks; of each field of the model this
// rank's rows, [own rows, shape of the field...]. `step` addresses dropout.
struct MicroBatch {
  std::int64_t first_row = 0, rows = 0;
  std::vector<std::pair<std::string, Tensor>> fields;
  std::int64_t step = 0;
  std::uint64_t seed = 0;
  bool training = true;                 // false: dropout is off, no gradient is wanted
  std::vector<LossTotals> losses = {};  // the main one first
  // f64 [1], in evaluations: how many counted labels of the main loss have the largest logit is added here.
  Tensor correct = {};
  Tensor field(std::string_view name) const;                 // throws Error naming the fields there are
  const LossTotals& loss_of(std::string_view labels) const;  // throws Error naming the losses there are
};

// The state on one mesh axis.
inline State& on(States& s, int m) { return s[static_cast<std::size_t>(m)]; }
inline const State& on(const States& s, int m) { return s[static_cast<std::size_t>(m)]; }

// What a tape is for.
enum class Purpose : std::uint8_t {
  record,  // forward that will be walked back
  look,    // forward whose steps are not kept
  again    // forward done before, recorded this time: its work is billed as recomputed
};

// How queries, keys and values of attention lie: stored once for each of `kv_heads`, dealt out to `groups`, a multiple
// of them, of `queries` queries each. `head`: numbers of one head.
struct HeadSpread {
  std::int64_t kv_heads = 0, groups = 0, queries = 1, head = 0;
  std::int64_t stored_queries() const { return queries * groups / kv_heads; }  // of a key/value head
};

class Tape {
 public:
  Tape(Context&, const MicroBatch&, Purpose);
  Tape(const Tape&) = delete;
  Tape& operator=(const Tape&) = delete;

  Context& context() { return context_; }
  const MicroBatch& micro_batch() const { return micro_; }
  void scope(std::string what) { scope_ = std::move(what); }  // names ops in messages: "layers.0.qkv"

  // ---- values
  Var input(Tensor, Dims, States);  // from the block before; its gradient is wanted
  Var use(Parameter&);
  const Dims& dims(Var v) const { return value(v).dims; }
  const States& states(Var v) const { return value(v).states; }
  Tensor tensor(Var v) const { return now(v); }
  Tensor gradient(Var v) const { return value(v).g; }

  // ---- crossings; nothing on mesh axes of extent 1
  Var fan_out(Var, MeshAxes);                // same -> copy; backward: all-reduce
  Var fan_in(Var, MeshAxes);                 // debt -> same: all-reduce
  Var gather(Var, int mesh_axis);            // split -> copy: all-gather; backward: reduce-scatter
  Var scatter(Var, int mesh_axis, Axis);     // debt -> split: reduce-scatter; backward: all-gather
  Var all_to_all(Var, int mesh_axis, Axis);  // split -> split along another axis; its own backward
  Var slice(Var, int mesh_axis, Axis);       // copy or same -> split: nothing sent; backward of a same: all-gather

  // ---- helpers of layers
  std::pair<Var, Var> meet(Var,
                           Var);  // states that an op may combine; throws Error on debts and on axes that may not meet
  // Adds a bias to a value that may still owe: where it does the first rank alone adds, so that the bias itself never
  // owes there. Possible (may_join) where the bias is whole wherever the value owes.
  bool may_join(Var, Var bias) const;
  Var join(Var consumed, Var bias);
  Var settle(Var);       // pays every debt: scatters where an axis of the value may lie, sums the rest
  Var whole(Var, Axis);  // gathers every split of the axis, innermost first

  // ---- ops. Operands marked "consumed" may be overwritten: using them again is refused.
  enum class Summed : std::uint8_t {
    first,
    last
  };  // which dims of the weight are summed over: w[in, made] or w[made, in]
  Var linear(Var x, Var w, int summed_dims, const Dims& made,
             Summed = Summed::first);  // meets inside; the result may owe
  Var add(Var x, Var y_consumed);
  Var add_bias(Var x_consumed, Var bias);
  Var gelu(Var x);
  Var relu(Var x_consumed);
  Var tanh(Var x);
  Var gated_silu(Var gate, Var up);
  Var dropout(Var x_consumed, double probability, std::string_view name);
  Var norm(Var x, Var gain, std::optional<Var> bias, NormKind, double epsilon);
  // A parameter [.., kv_heads, (stored queries + 2)*head] as this rank's part of [.., groups, (queries + 2)*head]: its
  // queries, and the keys and values they meet, which several groups may share. Sends nothing; the gradient is a
  // partial sum where heads rest.
  Var spread_heads(Var parameter, const HeadSpread&);
  // Rows of a table by the ids of a field [tokens]; ids outside of it, such as -1, give zeros. May owe.
  Var embedding(Var table, std::string_view field, Dim features);
  Var add_positions(Var x_consumed, Var table);  // row t of the table to every token t
  // factor·x and the sinusoids of each token's position (kernels/ops.h): addresses, no parameters.
  Var add_sinusoids(Var x_consumed, double factor);
  Var scale(Var x_consumed, double factor);  // of tokens
  // Rows of x [batch, sequence, features] at the places that a field [P] names: [batch, P, features]; a place of -1
  // gives zeros. Owes where the sequence is split.
  Var pick(Var x, std::string_view field);
  Var pick_first(Var x);  // the row of place 0: [batch, 1, features]
  // i32 [own rows]: how many ids of a field [tokens] are not padding. For Heads::lengths.
  Tensor row_lengths(std::string_view field);
  struct Heads {
    std::int64_t queries = 1, head = 0;  // per key/value group; numbers per head
    bool causal = true;
    double dropout = 0;
    std::string_view name;
    Tensor lengths = {};  // i32 [own rows]: of the keys of each row, the rest is padding; none: all count
  };
  Var rotary(Var packed_consumed, const Heads&, double base);
  // packed [batch, sequence, heads, (queries + 2)*head]. Where the sequence is split, keys of other ranks are met as
  // the plan's "context" says.
  Var attention(Var packed_consumed, const Heads&);
  // queries [batch, sequence, heads, queries*head] over keys and values [batch, sequence, heads, 2*head] of another
  // sequence, which are gathered where it is split.
  Var cross_attention(Var queries, Var keys, const Heads&);
  // logits [batch, ..., vocab] against a field of labels [...]. Adds to its totals; backward starts here.
  void cross_entropy(Var logits, std::string_view labels, double smoothing);

  // ---- images [batch, height, width, channels] (tape_images.cpp). Where the height is split an op borrows the rows
  // that its windows reach from those who hold them; where it would leave ranks without rows it makes the height whole
  // first.
  struct Window {
    std::int64_t kernel = 1, stride = 1, pad = 0;
    std::int64_t over(std::int64_t extent) const { return (extent + 2 * pad - kernel) / stride + 1; }
  };
  Var image(std::string_view field);                // numbers [height, width, channels] of each row; wants no gradient
  Var conv(Var x, Var w, Dim made, const Window&);  // w [kernel, kernel, in, made]; may owe
  struct Normalising {
    double epsilon = 1e-5, momentum = 0.9;
    std::int64_t groups = 1;  // equal runs of the batch with statistics of their own, each over the whole height
    bool relu = false;
  };
  Var batch_norm(Var x, Var gain, Var bias, const Statistics&, const Normalising&);
  Var add_relu(Var x, Var y_consumed);
  Var max_pool(Var x, const Window&);
  Var mean_pixels(Var x);  // [batch, 1, channels]; settled

  // Walks back, from the loss and from whatever was given its gradient.
  void seed(Var made, Tensor gradient) { value(made).g = std::move(gradient); }
  void backward();
  // Notes in every parameter used where its gradient is a partial sum, and names them (one used twice may come twice).
  // For the rehearsal, before buckets exist.
  std::vector<Parameter*> note_debts();

 private:
  struct Value {
    Dims dims;
    States states;
    Tensor v, g;
    Parameter* parameter = nullptr;
    int source = -1;        // the parameter that it was made of without a message; lent with it
    double useful = 1;      // share of it that is there once: the rest are replicas
    bool kept = false;      // somebody's backward needs v
    bool consumed = false;  // v may have been overwritten
    bool constant = false;  // data: nobody wants its gradient
  };
  struct Step {
    std::function<void()> back;
    int made;  // the value whose numbers are no longer needed once this step has been walked
    std::string scope;
  };
  struct AttentionResult {
    Tensor packed, out, log_sum, dout, lengths;
  };
  // The gradient of `to` -> a contribution to the gradient of `from`. `early`: it may travel beside the maths.
  using Back = std::function<Later(Tensor, bool early)>;
  struct Crossing {
    std::string_view kind;
    int from, to;
    MeshAxes over;
    Axis axis;
    Back back;
    bool started = false;
    std::optional<Later> coming;
  };

  Value& value(Var v) { return values_.at(static_cast<std::size_t>(v.id)); }
  const Value& value(Var v) const { return values_.at(static_cast<std::size_t>(v.id)); }
  Tensor read(Var);           // refuses consumed values
  Tensor now(Var) const;      // of a parameter: its numbers at this moment, which may have been gathered anew
  Tensor take(Var consumed);  // the numbers, to be overwritten; a copy where somebody needs them
  Var put(Dims, States, Tensor);
  void record(Var made, std::function<void()> back);
  Tensor fresh(const Shape&, DType, End = End::low);
  Shape local_shape(const Dims& d, const States& s) const { return context_.plan.shape(d, s); }

  // gradients
  void contribute(Var, Tensor);      // adds numbers nobody else holds
  void pass_on(Var, const Tensor&);  // adds numbers that others may share
  Tensor to_add_to(Var, Write&);     // the gradient to write or add into; empty: a parameter that another rank adds for
  Tensor to_accumulate_in(Var);      // the same for ops that can only add: zeros where nothing was added yet
  Tensor parameter_gradient(Var);    // where to add; empty where another rank adds for this one
  double adds_for(Var) const;        // for how many ranks this one then adds to a parameter's gradient

  // law
  State combine(State, State, int mesh_axis) const;
  States combine(Var, Var) const;
  Var lend(Var, MeshAxes, Var other);
  bool patient(Var v) const { return value(v).parameter || value(v).source >= 0; }  // pays once a step, moves never
  bool first_moves(Var, Axis, Var, Axis, int mesh_axis) const;
  Var give_way(Var, Axis other, int mesh_axis);
  void expect(State, Kind, const char* who, int mesh_axis) const;
  void expect_innermost(Axis, int mesh_axis, const States&) const;
  std::optional<Var> shared(std::string_view kind, Var, MeshAxes, Axis) const;
  Var cross(std::string_view kind, Var from, MeshAxes, Axis, Dims, States, Tensor, Back);
  void start(std::size_t crossing, bool early);
  void start_towards(Var x, std::size_t first, std::size_t last);
  Communicator& group(MeshAxes, bool early) const;
  [[noreturn]] void refuse(const std::string&) const;
  MeshAxes where(Var, Kind) const;
  MeshAxes where_split(const States&, Axis) const;

  // addresses and bills
  std::int64_t first_of(const Dims&, const States&, Axis) const;
  std::int64_t extent_of(const Dims&, Axis) const;
  void bill(const char* op, const Cost&, const States&, const States&, double useful = 1);
  Key dropout_key(std::string_view name);
  struct Place {
    std::int64_t first = 0;  // position of the first token
    Jump jump;
  };
  Place place_of(const std::vector<Slice>& runs) const;
  Place tokens_of(const Dims&, const States&) const;  // of those this rank holds

  // images
  struct Reach {  // how windows of this rank's output rows lie over the rows it has, borrowed ones included
    std::optional<Halo> halo;
    Conv how;
  };
  Reach reach_of(const Dims&, const States&, const Window&) const;
  Var keep_height(Var x, std::int64_t rows);
  Tensor borrowed(const Reach&, Var x);
  struct Span {
    MeshAxes shared = 0, apart = 0;
    std::int64_t groups = 1;  // of this rank
  };
  Span span_of(Var x, std::int64_t groups) const;
  Tensor channel_sums(Var x, const Statistics&, const Normalising&, const Span&);

  // attention and its ways to keys of other ranks
  Attention attention_of(Var packed, const Heads&);
  Var attend(Var packed, Var keys, const Heads&);
  Var gathered_keys(Var packed, MeshAxes over, const Heads&);
  Var all_tokens(Var, MeshAxes over);
  Var attend_turned(Var packed, const Heads&);
  Var attend_around(Var packed, MeshAxes over, const Heads&);
  Tensor around_backward(Var packed, MeshAxes over, const Attention& own, const AttentionResult&);
  Tensor own_keys(const Tensor& packed, const Attention&);
  void paste_keys(const Tensor& packed, const Tensor& keys, const Attention&, Write);
  Rotary rotary_of(Var packed, const Heads&, double base) const;
  Tensor positions_of(Var x);
  Var with_sinusoids(Var x_consumed, double factor, double amplitude);
  Var pick_at(Var x, const Tensor& places);
  Tensor own_tokens(const Tensor& held, const Dims& rows, const States&);

  Context& context_;
  MicroBatch micro_;
  Purpose purpose_;
  bool walking_ = false;  // backward has begun
  std::string scope_ = "?";
  std::deque<Value> values_;
  std::deque<Crossing> crossings_;
  std::vector<Step> steps_;
};

}  // namespace quadrille
