// Jobs made by hand.
#include "tests/support/job_builder.h"

#include "runtime/plan/model/lifetimes.h"

namespace flow::test {

using plan::TensorId;
using Ints = std::vector<int64_t>;

JobBuilder::JobBuilder() {
  job_.name = "job";
  job_.seed = 7;
  job_.where = "job.yaml:1:1";
}

TensorId JobBuilder::add(std::string name, Shape shape, DType dtype, plan::Role role) {
  plan::Tensor tensor;
  tensor.name = std::move(name);
  tensor.shape = std::move(shape);
  tensor.dtype = dtype;
  tensor.role = role;
  tensor.where = "job.yaml:2:1";
  job_.tensors.push_back(std::move(tensor));
  return TensorId{job_.tensors.size() - 1};
}

TensorId JobBuilder::input(std::string name, Shape shape, DType dtype) {
  const TensorId id = add(std::move(name), std::move(shape), dtype, plan::Role::kInput);
  plan::Input input;
  input.tensor = id;
  job_.inputs.push_back(std::move(input));
  return id;
}

TensorId JobBuilder::variable(std::string name, Shape shape, DType dtype) {
  const TensorId id = add(std::move(name), std::move(shape), dtype, plan::Role::kVariable);
  plan::Variable variable;
  variable.tensor = id;
  job_.variables.push_back(std::move(variable));
  return id;
}

TensorId JobBuilder::step(std::string op, std::string name, std::vector<TensorId> inputs,
                          Attributes attributes, Shape shape, DType dtype, TensorId alias) {
  const TensorId id = add(name, std::move(shape), dtype, plan::Role::kResult);
  job_.tensors[id.index()].alias = alias;
  plan::Step step;
  step.op = std::move(op);
  step.name = std::move(name);
  step.inputs = std::move(inputs);
  step.outputs = {id};
  step.attributes = std::move(attributes);
  step.where = "job.yaml:2:1";
  job_.steps.push_back(std::move(step));
  return id;
}

TensorId JobBuilder::second_result(std::string name, Shape shape, DType dtype) {
  const TensorId id = add(std::move(name), std::move(shape), dtype, plan::Role::kResult);
  job_.steps.back().outputs.push_back(id);
  return id;
}

void JobBuilder::fuse(std::string op, std::vector<TensorId> operands, Attributes attributes) {
  plan::EpilogueOp fused;
  fused.name = job_.steps.back().name + "/" + op;
  fused.op = std::move(op);
  fused.operands = std::move(operands);
  fused.attributes = std::move(attributes);
  job_.steps.back().epilogue.push_back(std::move(fused));
}

void JobBuilder::rows(TensorId id, int axis) { job_.tensors[id.index()].batch_axis = axis; }

void JobBuilder::combined(TensorId id, plan::Combine combine) {
  plan::Tensor& tensor = job_.tensors[id.index()];
  tensor.batch_axis = plan::kBatchReduced;
  tensor.combine = combine;
}

void JobBuilder::end_shards(int64_t count) {
  if (count > 1) {
    job_.sharding = plan::Sharding{count, plan::StepId(job_.steps.size())};
    return;
  }
  for (plan::Tensor& tensor : job_.tensors) tensor.combine.reset();
}

plan::Job JobBuilder::build() {
  plan::assign_lifetimes(job_);
  return job_;
}

namespace {

/// The layers that the two networks share, forward and backward.
class Network {
 public:
  explicit Network(int64_t batch) : batch_(batch), scale_(1.0 / static_cast<double>(batch)) {
    images_ = b_.input("images", {batch, 1, 28, 28});
    labels_ = b_.input("labels", {batch}, DType::kInt32);
  }

  struct Dense {
    TensorId x, weight, bias, y;
    int64_t in, out;
  };

  Dense dense(const std::string& name, TensorId x, int64_t in, int64_t out, bool relu) {
    Dense d{
        x,  b_.variable(name + "/weight", {out, in}), b_.variable(name + "/bias", {out}), {}, in,
        out};
    d.y = b_.step("matmul", name + "/matmul", {x, d.weight},
                  {{"transpose_a", false}, {"transpose_b", true}}, {batch_, out});
    b_.fuse("bias_add", {d.bias}, {{"axis", int64_t{1}}});
    if (relu) b_.fuse("relu", {}, {});
    return d;
  }

  /// The gradient of x where `through`; updates weight and bias.
  TensorId dense_grad(const std::string& name, const Dense& d, TensorId dy, bool through) {
    TensorId dx;
    if (through)
      dx = b_.step("matmul", name + ":dx", {dy, d.weight},
                   {{"transpose_a", false}, {"transpose_b", false}}, {batch_, d.in});
    const TensorId dbias =
        b_.step("bias_add_grad", name + ":db", {dy}, {{"axis", int64_t{1}}}, {d.out});
    update(name + "/bias:update", dbias, d.bias, {d.out});
    b_.step("matmul", name + ":dw", {dy, d.x}, {{"transpose_a", true}, {"transpose_b", false}},
            {d.out, d.in}, DType::kFloat32, d.weight);
    b_.fuse("sgd_update", {d.weight}, {{"scale", scale_}, {"rate_scale", 1.0}});
    return dx;
  }

  struct Conv {
    TensorId x, weight, bias, y, pooled, argmax;
    int64_t in, out, size;
  };

  /// 5x5 `same` convolution, relu, 2x2 max pool, of size x size pixels.
  Conv conv(const std::string& name, TensorId x, int64_t in, int64_t out, int64_t size) {
    Conv c{x,
           b_.variable(name + "/weight", {out, in, 5, 5}),
           b_.variable(name + "/bias", {out}),
           {},
           {},
           {},
           in,
           out,
           size};
    c.y = b_.step("convolution", name + "/conv", {x, c.weight},
                  {{"strides", Ints{1, 1}},
                   {"padding", Ints{2, 2, 2, 2}},
                   {"dilation", Ints{1, 1}},
                   {"groups", int64_t{1}}},
                  {batch_, out, size, size});
    b_.fuse("bias_add", {c.bias}, {{"axis", int64_t{1}}});
    b_.fuse("relu", {}, {});
    const Shape half = {batch_, out, size / 2, size / 2};
    c.pooled = b_.step(
        "max_pool2d", name + "/pool", {c.y},
        {{"ksize", Ints{2, 2}}, {"strides", Ints{2, 2}}, {"padding", Ints{0, 0, 0, 0}}}, half);
    c.argmax = b_.second_result(name + "/pool.argmax", half, DType::kUInt8);
    return c;
  }

  /// From the gradient of the pooled result. relu's backward is below the pool.
  TensorId conv_grad(const std::string& name, const Conv& c, TensorId dpooled, bool through) {
    const int64_t half = c.size / 2;
    const TensorId masked = b_.step("relu_grad", name + ":drelu", {dpooled, c.pooled}, {},
                                    {batch_, c.out, half, half}, DType::kFloat32, dpooled);
    const TensorId dy = b_.step("max_pool2d_grad", name + ":dpool", {masked, c.argmax},
                                {{"ksize", Ints{2, 2}},
                                 {"strides", Ints{2, 2}},
                                 {"padding", Ints{0, 0, 0, 0}},
                                 {"input_shape", Ints{batch_, c.out, c.size, c.size}}},
                                {batch_, c.out, c.size, c.size});
    TensorId dx;
    if (through)
      dx = b_.step("convolution_grad_data", name + ":dx", {dy, c.weight},
                   {{"strides", Ints{1, 1}},
                    {"padding", Ints{2, 2, 2, 2}},
                    {"dilation", Ints{1, 1}},
                    {"groups", int64_t{1}},
                    {"input_shape", Ints{batch_, c.in, c.size, c.size}}},
                   {batch_, c.in, c.size, c.size});
    const TensorId dbias =
        b_.step("bias_add_grad", name + ":db", {dy}, {{"axis", int64_t{1}}}, {c.out});
    update(name + "/bias:update", dbias, c.bias, {c.out});
    const TensorId dw = b_.step("convolution_grad_weight", name + ":dw", {c.x, dy},
                                {{"strides", Ints{1, 1}},
                                 {"padding", Ints{2, 2, 2, 2}},
                                 {"dilation", Ints{1, 1}},
                                 {"groups", int64_t{1}},
                                 {"weight_shape", Ints{c.out, c.in, 5, 5}}},
                                {c.out, c.in, 5, 5});
    update(name + "/weight:update", dw, c.weight, {c.out, c.in, 5, 5});
    return dx;
  }

  TensorId reshape(const std::string& name, TensorId x, Shape shape) {
    const Ints extents = shape.extents();
    return b_.step("reshape", name, {x}, {{"shape", extents}}, shape, DType::kFloat32, x);
  }

  void update(const std::string& name, TensorId gradient, TensorId variable, Shape shape) {
    b_.step("sgd_update", name, {gradient, variable}, {{"scale", scale_}, {"rate_scale", 1.0}},
            shape, DType::kFloat32, variable);
  }

  /// The loss of each row; returns the gradient of the logits.
  TensorId loss(TensorId logits) {
    b_.step("sparse_softmax_cross_entropy_with_logits", "loss", {labels_, logits}, {}, {batch_});
    const TensorId prob = b_.second_result("loss.prob", {batch_, 10}, DType::kFloat32);
    const TensorId ones =
        b_.step("fill", "loss:diff", {},
                {{"value", 1.0}, {"shape", Ints{batch_}}, {"dtype", DType::kFloat32}}, {batch_});
    return b_.step("sparse_softmax_cross_entropy_with_logits_grad", "logits:diff",
                   {labels_, prob, ones}, {}, {batch_, 10});
  }

  JobBuilder& builder() { return b_; }
  TensorId images() const { return images_; }

 private:
  JobBuilder b_;
  int64_t batch_;
  double scale_;
  TensorId images_, labels_;
};

}  // namespace

plan::Job lenet_training(int64_t batch) {
  Network n(batch);
  JobBuilder& b = n.builder();
  const auto conv1 = n.conv("conv1", n.images(), 1, 32, 28);
  const auto conv2 = n.conv("conv2", conv1.pooled, 32, 64, 14);
  const TensorId flat = n.reshape("flat", conv2.pooled, {batch, 3136});
  const auto dense1 = n.dense("dense1", flat, 3136, 512, true);
  const TensorId drop = b.step("dropout", "drop", {dense1.y},
                               {{"rate", 0.5}, {"consumer", std::string("drop")}}, {batch, 512});
  const TensorId mask = b.second_result("drop.mask", {batch, 512}, DType::kBool);
  const auto dense2 = n.dense("dense2", drop, 512, 10, false);
  const TensorId dlogits = n.loss(dense2.y);
  const TensorId ddrop = n.dense_grad("dense2", dense2, dlogits, true);
  const TensorId dkept =
      b.step("dropout_grad", "drop:dx", {ddrop, mask}, {{"rate", 0.5}}, {batch, 512});
  const TensorId drelu = b.step("relu_grad", "dense1:drelu", {dkept, dense1.y}, {}, {batch, 512},
                                DType::kFloat32, dkept);
  const TensorId dflat = n.dense_grad("dense1", dense1, drelu, true);
  const TensorId dpool2 = n.reshape("flat:diff", dflat, {batch, 64, 7, 7});
  const TensorId dpool1 = n.conv_grad("conv2", conv2, dpool2, true);
  n.conv_grad("conv1", conv1, dpool1, false);
  return b.build();
}

plan::Job mlp_training(int64_t batch, int64_t hidden) {
  Network n(batch);
  JobBuilder& b = n.builder();
  const TensorId flat = n.reshape("flat", n.images(), {batch, 784});
  const auto dense1 = n.dense("dense1", flat, 784, hidden, true);
  const auto dense2 = n.dense("dense2", dense1.y, hidden, 10, false);
  const TensorId dlogits = n.loss(dense2.y);
  const TensorId dhidden = n.dense_grad("dense2", dense2, dlogits, true);
  const TensorId drelu = b.step("relu_grad", "dense1:drelu", {dhidden, dense1.y}, {},
                                {batch, hidden}, DType::kFloat32, dhidden);
  n.dense_grad("dense1", dense1, drelu, false);
  return b.build();
}

}  // namespace flow::test
