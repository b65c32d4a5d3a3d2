// The steps of a job: types, order, devices, fused posts, what is written in place.
#include <algorithm>
#include <set>

#include "runtime/base/names.h"
#include "runtime/base/text.h"
#include "runtime/plan/check/call_check.h"
#include "runtime/plan/check/check_job.h"

namespace flow::plan {
namespace {

/// Do kernels know this sequence of posts? A bias, a rectifier and a rounding follow products, each
/// perhaps absent; or an update.
bool can_be_fused(std::string_view op, std::span<const std::string_view> posts) {
  if (posts.size() == 1 && posts.front() == "sgd_update") return op == "matmul";
  const auto take = [&posts](std::string_view post) {
    if (!posts.empty() && posts.front() == post) posts = posts.subspan(1);
  };
  const bool product = op == "matmul" || op == "convolution";
  if (product) take("bias_add");
  if (product || op == "batch_norm" || op == "batch_norm_predict") take("relu");
  if (product || op == "convolution_grad_data") take("cast");
  return posts.empty();
}

/// A variable that a step updates: operand and result. Optimizers update what is trained and their
/// own slots; layers update what they keep of batches.
struct Update {
  enum class Of { kTrained, kSlot, kStatistics };
  TensorId variable, updated;
  Of of = Of::kTrained;
};

class StepCheck {
 public:
  StepCheck(const Job& job, const Site& site)
      : job_(job),
        site_(site),
        types_(types_of(job)),
        maker_(job.tensors.size(), nullptr),
        readable_(job.tensors.size()),
        updated_(job.tensors.size()),
        in_variable_(job.tensors.size()),
        variables_(job.tensors.size(), nullptr) {
    for (size_t i = 0; i < job.tensors.size(); ++i) {
      readable_[i] = job.tensors[i].role != Role::kResult;
      in_variable_[i] = job.tensors[i].role == Role::kVariable;
    }
    for (const Variable& variable : job.variables) variables_[variable.tensor.index()] = &variable;
  }

  void run() {
    std::set<std::string_view> names;
    for (const Step& step : job_.steps) {
      const Site here = site_.at("step", step.name);
      here.require(is_safe_name(step.name), "invalid name");
      here.require(names.insert(step.name).second, "duplicate name");
      check_device(step.device, here);
      check_reads(step, here);
      check_types(step, here);
      check_origins(step, here);
      check_outputs(step, here);
    }
    for (size_t i = 0; i < job_.tensors.size(); ++i) {
      const Site here = site_.at("tensor", job_.tensors[i].name);
      here.require(readable_[i], "no step computes this result");
      check_device(job_.tensors[i].device, here);
    }
  }

 private:
  void check_device(const std::optional<DeviceKind>& device, const Site& site) const {
    site.require(device != job_.device, "repeats the device of the job");
  }

  void check_read(const Step& step, TensorId id, const Site& site) const {
    const Tensor& tensor = job_[id];
    const bool here = job_.device_of(tensor) == job_.device_of(step);
    site.require(here == (step.op != "copy"), "`{}` is on {} device", tensor.name,
                 here ? "the same" : "another");
    site.require(readable_[id.index()], "reads `{}` before it is computed", tensor.name);
    site.require(!updated_[id.index()], "reads `{}` after its update", tensor.name);
    const Step* maker = maker_[id.index()];
    site.require(step.tap || !maker || !maker->tap, "reads `{}`, the result of a tap", tensor.name);
  }

  void check_reads(const Step& step, const Site& site) const {
    for (const TensorId id : step.inputs) check_read(step, id, site);
    for (const Post& post : step.posts)
      for (const TensorId id : post.operands) check_read(step, id, site);
  }

  void check_types(const Step& step, const Site& site) const {
    const ops::OpSpec& spec = spec_of(step.op, site);
    std::vector<ops::Operand> operands;
    for (const TensorId id : step.inputs) operands.push_back(operand_of(job_[id]));
    std::vector<ops::Result> results =
        check_call(spec, std::move(operands), step.attributes, types_, site);
    site.require(step.outputs.size() == results.size(), "{} results; {} has {}",
                 step.outputs.size(), step.op, results.size());
    results[0].dtype = dtype_after_posts(step, results[0].dtype);
    results[0].batch_axis = check_posts(step, results[0], site);
    for (size_t i = 0; i < results.size(); ++i) {
      if (!step.outputs[i].valid()) {
        site.require(spec.may_be_absent(i), "result {} must be a tensor", i);
        continue;
      }
      const Tensor& made = job_[step.outputs[i]];
      const auto& [dtype, shape, batch_axis] = results[i];
      site.require(made.dtype == dtype && made.shape == shape,
                   "result `{}` is {} {}; expected {} {}", made.name, name_of(made.dtype),
                   made.shape.str(), name_of(dtype), shape.str());
      site.require(made.rows == batch_axis, "result `{}` has batch axis {}; expected {}", made.name,
                   made.rows, batch_axis);
    }
  }

  /// All ops that can be fused keep dtype and shape, but for a cast, the last.
  static DType dtype_after_posts(const Step& step, DType dtype) {
    const bool cast = !step.posts.empty() && step.posts.back().op == "cast";
    const Attribute* to = cast ? step.posts.back().attributes.find("dtype") : nullptr;
    return to && std::holds_alternative<DType>(*to) ? std::get<DType>(*to) : dtype;
  }

  /// The batch axis of the step's first result after its epilogue.
  int check_posts(const Step& step, const ops::Result& result, const Site& site) const {
    if (step.posts.empty()) return result.batch_axis;
    std::vector<std::string_view> ops;
    for (const Post& post : step.posts) ops.push_back(post.op);
    site.require(can_be_fused(step.op, ops), "cannot fuse its epilogue onto {}", step.op);
    int batch_axis = result.batch_axis;
    for (const Post& post : step.posts) {
      site.require(is_safe_name(post.name), "invalid name `{}` in the epilogue", post.name);
      std::vector<ops::Operand> operands{{types_.compute, result.shape, batch_axis}};
      for (const TensorId id : post.operands) operands.push_back(operand_of(job_[id]));
      const ops::OpSpec& spec = spec_of(post.op, site);
      batch_axis =
          check_call(spec, std::move(operands), post.attributes, types_, site).front().batch_axis;
      if (post.op == "cast")
        site.require(post.attributes.get<DType>("dtype") == types_.low_precision,
                     "cannot cast a fused product to {}",
                     name_of(post.attributes.get<DType>("dtype")));
      site.require(!spec.result(0).updates || post.operands.size() == 1,
                   "fused {} takes only the variable", post.op);
    }
    return batch_axis;
  }

  /// Second results that only their own gradients may read, since kernels trust what they hold.
  void check_origins(const Step& step, const Site& site) const {
    if (step.op == "max_pool2d_grad") {
      const Step* pool = maker_as(step.inputs[1], "max_pool2d");
      const auto same = [&](std::string_view name) {
        return *pool->attributes.find(name) == *step.attributes.find(name);
      };
      site.require(pool && same("ksize") && same("padding") && same("strides") &&
                       job_[pool->inputs[0]].shape.extents() ==
                           step.attributes.get<std::vector<int64_t>>("input_shape"),
                   "`{}` does not come from the matching max_pool2d", job_[step.inputs[1]].name);
    }
    if (step.op == "top_k_grad") {
      const Step* top = maker_as(step.inputs[1], "top_k");
      const auto axis = static_cast<int>(step.attributes.get<int64_t>("axis"));
      site.require(top && top->attributes.get<int64_t>("axis") == axis &&
                       job_[top->inputs[0]].shape[axis] == step.attributes.get<int64_t>("extent"),
                   "`{}` does not come from the matching top_k", job_[step.inputs[1]].name);
    }
    if (step.op == "sparse_softmax_cross_entropy_with_logits_grad") {
      const Step* loss = maker_as(step.inputs[1], "sparse_softmax_cross_entropy_with_logits");
      site.require(loss && loss->inputs[0] == step.inputs[0],
                   "`{}` does not come from the loss with these labels", job_[step.inputs[1]].name);
    }
  }

  /// The step of that op whose second result the tensor is, or null.
  const Step* maker_as(TensorId id, std::string_view op) const {
    const Step* maker = maker_[id.index()];
    return maker && maker->op == op && maker->outputs[1] == id ? maker : nullptr;
  }

  void check_outputs(const Step& step, const Site& site) {
    const std::vector<Update> updates = updates_of(step);
    for (const TensorId id : step.outputs) {
      if (!id.valid()) continue;
      const Tensor& tensor = job_[id];
      site.require(tensor.role == Role::kResult && !maker_[id.index()],
                   "writes `{}`, which is not a result or is already computed", tensor.name);
      site.require(job_.device_of(tensor) == job_.device_of(step),
                   "result `{}` is on another device", tensor.name);
      maker_[id.index()] = &step;
      if (std::ranges::find(updates, id, &Update::updated) == updates.end())
        check_in_place(step, id, site);
    }
    for (const Update& update : updates) check_update(step, update, site);
    for (const TensorId id : step.outputs)
      if (id.valid()) readable_[id.index()] = true;
  }

  /// What the step writes onto variables; a fused update writes its result onto its operand.
  std::vector<Update> updates_of(const Step& step) const {
    using Of = Update::Of;
    if (step.op == "move_statistics") return moves_of(step);
    std::vector<Update> updates;
    const ops::OpSpec& spec = *ops::find_spec(step.op);
    for (size_t i = 0; i < step.outputs.size(); ++i)
      if (const auto operand = spec.result(i).updates)
        updates.push_back({step.inputs[*operand], step.outputs[i],
                           spec.operand(*operand).name == "variable" ? Of::kTrained : Of::kSlot});
    if (!step.posts.empty() && ops::find_spec(step.posts.back().op)->result(0).updates)
      updates.push_back({step.posts.back().operands[0], step.outputs[0], Of::kTrained});
    return updates;
  }

  /// Of several calls that move the same statistics the last one updates the variables; the others
  /// pass theirs on.
  std::vector<Update> moves_of(const Step& step) const {
    std::vector<Update> moves;
    for (size_t i = 0; i < 2; ++i)
      if (const TensorId alias = job_[step.outputs[i]].alias; alias.valid())
        moves.push_back(
            {first_moved(step.inputs[2 + i]), step.outputs[i], Update::Of::kStatistics});
    return moves;
  }

  /// The variable whose moves have led to this.
  TensorId first_moved(TensorId id) const {
    for (const Step* maker = maker_[id.index()]; maker && maker->op == "move_statistics";
         maker = maker_[id.index()])
      id = maker->inputs[maker->outputs[0] == id ? 2 : 3];
    return id;
  }

  bool may_update(const Variable& variable, Update::Of of) const {
    if (of == Update::Of::kSlot) return variable.slot;
    return !variable.slot && variable.trainable == (of == Update::Of::kTrained);
  }

  void check_update(const Step& step, const Update& update, const Site& site) {
    const Tensor& tensor = job_[update.variable];
    const Variable* variable = variables_[update.variable.index()];
    site.require(job_.train && !step.tap, "only train jobs update variables");
    constexpr std::string_view kKinds[] = {"trainable variable", "slot of the optimizer",
                                           "statistic of a layer"};
    site.require(variable && may_update(*variable, update.of), "updates `{}`, which is not a {}",
                 tensor.name, kKinds[static_cast<size_t>(update.of)]);
    site.require(job_[update.updated].alias == update.variable,
                 "the update of `{}` must be in place", tensor.name);
    const bool reads_it =
        !step.posts.empty() && std::ranges::find(step.inputs, update.variable) != step.inputs.end();
    site.require(!reads_it && !updated_[update.variable.index()],
                 "`{}` is updated twice, or while it is read", tensor.name);
    updated_[update.variable.index()] = true;
    in_variable_[update.updated.index()] = true;
  }

  /// A permission to work in place is for operands that the op reads element by element.
  void check_in_place(const Step& step, TensorId id, const Site& site) {
    const Tensor& tensor = job_[id];
    if (!tensor.alias.valid()) return;
    const ops::OpSpec& spec = spec_of(step.op, site);
    bool allowed = false;
    for (size_t i = 0; i < step.inputs.size(); ++i)
      allowed = allowed || (step.inputs[i] == tensor.alias && spec.may_overwrite(i));
    const bool view = step.op == "reshape";
    const bool alone =
        std::ranges::all_of(step.posts, [](const Post& post) { return post.operands.empty(); });
    allowed = allowed && id == step.outputs[0] && alone &&
              (view || tensor.shape == job_[tensor.alias].shape);
    // Only then is what it takes over made before, and so on: the chain of aliases ends.
    const bool allowed_here = allowed && (view || !in_variable_[tensor.alias.index()]);
    site.require(allowed_here, "`{}` cannot reuse the memory of `{}`", tensor.name,
                 job_[tensor.alias].name);
    in_variable_[id.index()] = in_variable_[tensor.alias.index()];
  }

  const Job& job_;
  const Site& site_;
  const ops::JobTypes types_;
  std::vector<const Step*> maker_;  // by tensor; null: none yet
  std::vector<bool> readable_;      // by tensor: outer ones, and results that have been made
  std::vector<bool> updated_;       // by tensor: variables that have been
  std::vector<bool> in_variable_;   // by tensor: whether it lies in a variable's memory
  std::vector<const Variable*> variables_;  // by tensor
};

}  // namespace

void check_steps(const Job& job, const Site& site) { StepCheck(job, site).run(); }

}  // namespace flow::plan
