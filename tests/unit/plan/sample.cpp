// Plans for the tests.
#include "tests/unit/plan/sample.h"

#include <random>

#include "runtime/plan/check/check.h"
#include "runtime/plan/model/lifetimes.h"

namespace flow::plan::sample {
namespace {

const std::string kPath = "sample";

Tensor tensor_of(std::string name, DType dtype, Shape shape, Role role, int batch_axis) {
  Tensor tensor;
  tensor.name = std::move(name);
  tensor.dtype = dtype;
  tensor.shape = std::move(shape);
  tensor.role = role;
  tensor.batch_axis = batch_axis;
  tensor.where = "job.yaml:7:3";
  return tensor;
}

}  // namespace

Attributes attributes_of(std::vector<Attributes::Entry> entries) {
  Attributes attributes;
  for (auto& [name, value] : entries) attributes.set(name, std::move(value));
  return attributes;
}

EpilogueOp epilogue_op(std::string op, std::string name, std::vector<TensorId> operands,
                       std::vector<Attributes::Entry> attributes) {
  return {std::move(op), std::move(name), std::move(operands),
          attributes_of(std::move(attributes))};
}

JobBuilder::JobBuilder(std::string name, bool train) {
  job.name = std::move(name);
  job.train = train;
  job.where = "job.yaml:3:3";
}

TensorId JobBuilder::input(std::string name, DType dtype, Shape shape, InputSource source) {
  const int rows = shape.rank() > 0 ? 0 : kNoBatch;
  const TensorId id(job.tensors.size());
  job.tensors.push_back(tensor_of(std::move(name), dtype, std::move(shape), Role::kInput, rows));
  job.inputs.push_back({id, std::move(source), "job.yaml:5:7", "job.yaml:5:40"});
  return id;
}

TensorId JobBuilder::variable(std::string name, Shape shape, Initializer initializer, bool slot) {
  const DType dtype = job.precision == "float64" ? DType::kFloat64 : DType::kFloat32;
  const TensorId id(job.tensors.size());
  job.tensors.push_back(
      tensor_of(std::move(name), dtype, std::move(shape), Role::kVariable, kNoBatch));
  job.variables.push_back({id, std::move(initializer), !slot, slot});
  return id;
}

std::vector<TensorId> JobBuilder::step(std::string_view op, const std::string& name,
                                       std::vector<TensorId> inputs,
                                       std::vector<Attributes::Entry> attributes,
                                       std::vector<EpilogueOp> epilogue) {
  Step step;
  step.op = op;
  step.name = name;
  step.inputs = std::move(inputs);
  step.attributes = attributes_of(std::move(attributes));
  step.epilogue = std::move(epilogue);
  step.where = "job.yaml:9:14";
  std::vector<ops::Operand> operands;
  for (const TensorId id : step.inputs) operands.push_back(operand_of(job[id]));
  const Location location = Location(kPath).at("step", name);
  const ops::OpSpec& spec = spec_of(op, location);
  auto results = check_call(spec, std::move(operands), step.attributes, types_of(job), location);
  for (const EpilogueOp& epilogue_op : step.epilogue)  // an updated variable has no batch axis
    if (spec_of(epilogue_op.op, location).result(0).updates) results[0].batch_axis = kNoBatch;
  for (size_t i = 0; i < results.size(); ++i) {
    const ops::ResultSpec& result = spec.result(i);
    std::string port(result.name.substr(0, result.name.find('*')));
    if (result.variadic) port += std::to_string(i);
    step.outputs.emplace_back(job.tensors.size());
    job.tensors.push_back(tensor_of(i == 0 ? name : name + "." + port, results[i].dtype,
                                    results[i].shape, Role::kResult, results[i].batch_axis));
  }
  job.steps.push_back(step);
  return step.outputs;
}

void JobBuilder::minimize(TensorId loss, Schedule schedule) {
  job.optimizer =
      Optimizer{"sgd", std::move(schedule), loss, job[loss].name, {}, {}, "job.yaml:20:5"};
}

Job JobBuilder::done() {
  assign_lifetimes(job);
  return job;
}

Plan small_plan() {
  JobBuilder b("train", true);
  const TensorId x = b.input("x", DType::kFloat32, {2, 3});
  const TensorId w = b.variable("dense/weight", {4, 3}, initializers::Normal{0, 0.1});
  const TensorId y =
      b.one("matmul", "dense/matmul", {x, w}, {{"transpose_a", false}, {"transpose_b", true}});
  const TensorId loss =
      b.one("reduce_mean", "loss", {y}, {{"axes", Integers{0, 1}}, {"keepdims", false}});
  const TensorId dy =
      b.one("fill", "dense/matmul:diff", {},
            {{"dtype", DType::kFloat32}, {"shape", Integers{2, 4}}, {"value", 1.0}});
  const TensorId updated = b.one("matmul", "dense/weight:updated", {dy, x},
                                 {{"transpose_a", true}, {"transpose_b", false}},
                                 {epilogue_op("sgd_update", "dense/weight:update", {w},
                                              {{"scale", 0.125}, {"rate_scale", 1.0}})});
  b.alias(updated, w);
  b.minimize(loss);
  return {kVersion, "job.yaml", "/somewhere", {b.done()}, {"a note"}};
}

Plan sharded_plan() {
  JobBuilder b("train", true);
  b.job.devices = 4;
  b.job.sharding = Sharding{4, {}};
  const TensorId x = b.input("x", DType::kFloat32, {2, 3});
  const TensorId w = b.variable("dense/weight", {4, 3}, initializers::Normal{0, 0.1});
  const TensorId y =
      b.one("matmul", "dense/matmul", {x, w}, {{"transpose_a", false}, {"transpose_b", true}});
  const TensorId flat = b.one("reshape", "flat", {y}, {{"shape", Integers{8}}});
  b.alias(flat, y);
  const TensorId loss =
      b.one("reduce_mean", "loss", {flat}, {{"axes", Integers{0}}, {"keepdims", false}});
  const TensorId dy =
      b.one("fill", "dense/matmul:diff", {},
            {{"dtype", DType::kFloat32}, {"shape", Integers{2, 4}}, {"value", 1.0}});
  const TensorId dw = b.one("matmul", "dense/weight:diff", {dy, x},
                            {{"transpose_a", true}, {"transpose_b", false}});
  const TensorId scaled = b.one("scale", "dense/weight:scaled", {dw}, {{"factor", 0.5}});
  b.alias(scaled, dw);
  b.job[loss].combine = Combine::kMean;
  b.job[scaled].combine = Combine::kSum;

  b.job.sharding->steps = StepId(b.job.steps.size());
  const TensorId factor =
      b.one("clip_factor", "clip", {scaled}, {{"clip_norm", 1.0}, {"scale", 0.125}});
  b.alias(b.one("sgd_update", "dense/weight:update", {scaled, w, factor},
                {{"scale", 0.125}, {"rate_scale", 1.0}}),
          w);
  b.minimize(loss);
  Hook hook;
  hook.name = "flat";
  hook.tensor = flat;
  hook.steps = {{0, INT64_MAX, 1}};
  hook.sinks = {PrintSink{}};
  b.job.hooks = {hook};
  return {kVersion, "job.yaml", "/somewhere", {b.done()}, {}};
}

namespace {

/// The forward half of full_plan's train job.
struct Forward {
  TensorId images, labels, weight, bias, slot, kernel, conv, pool, places, flat, drop, mask, logits,
      loss, prob, mean;
};

const std::vector<Attributes::Entry> kConvolution = {{"strides", Integers{1, 1}},
                                                     {"padding", Integers{1, 1, 1, 1}},
                                                     {"dilation", Integers{1, 1}},
                                                     {"groups", int64_t{1}}};
const std::vector<Attributes::Entry> kPool = {
    {"ksize", Integers{2, 2}}, {"strides", Integers{2, 2}}, {"padding", Integers{0, 0, 0, 0}}};

std::vector<Attributes::Entry> with(std::vector<Attributes::Entry> entries,
                                    Attributes::Entry more) {
  entries.push_back(std::move(more));
  return entries;
}

Forward add_forward(JobBuilder& b) {
  Forward f;
  f.images = b.input("images", DType::kFloat32, {4, 1, 6, 6}, FromDataset{"digits", "", "images"});
  f.labels = b.input("labels", DType::kInt32, {4}, FromDataset{"digits", "", "labels"});
  b.job.inputs.back().range = {0, 9};
  f.weight = b.variable("net/conv/weight", {2, 1, 3, 3}, initializers::TruncatedNormal{0, 0.1});
  f.bias = b.variable("net/conv/bias", {2});
  f.slot = b.variable("net/conv/weight/momentum", {2, 1, 3, 3}, {}, true);
  f.kernel = b.variable("net/dense/weight", {10, 18}, initializers::Npy{"w.npy"});
  f.conv = b.one("convolution", "net/conv/relu", {f.images, f.weight}, kConvolution,
                 {epilogue_op("bias_add", "net/conv/bias_add", {f.bias}, {{"axis", int64_t{1}}}),
                  epilogue_op("relu", "net/conv/relu", {})});
  const auto pooled = b.step("max_pool2d", "net/pool", {f.conv}, kPool);
  f.pool = pooled[0];
  f.places = pooled[1];
  f.flat = b.one("reshape", "net/flat", {f.pool}, {{"shape", Integers{4, 18}}});
  b.alias(f.flat, f.pool);
  const auto dropped = b.step("dropout", "net/drop", {f.flat},
                              {{"rate", 0.5}, {"consumer", std::string("net/drop")}});
  f.drop = dropped[0];
  f.mask = dropped[1];
  f.logits = b.one("matmul", "net/dense/matmul", {f.drop, f.kernel},
                   {{"transpose_a", false}, {"transpose_b", true}});
  const auto losses =
      b.step("sparse_softmax_cross_entropy_with_logits", "loss", {f.labels, f.logits});
  f.loss = losses[0];
  f.prob = losses[1];
  f.mean =
      b.one("reduce_mean", "loss:mean", {f.loss}, {{"axes", Integers{0}}, {"keepdims", false}});
  return f;
}

void add_backward(JobBuilder& b, const Forward& f) {
  const TensorId dloss =
      b.one("fill", "loss:diff", {},
            {{"dtype", DType::kFloat32}, {"shape", Integers{4}}, {"value", 1.0}});
  const TensorId dlogits = b.one("sparse_softmax_cross_entropy_with_logits_grad",
                                 "net/dense/matmul:diff", {f.labels, f.prob, dloss});
  const TensorId ddrop = b.one("matmul", "net/drop:diff", {dlogits, f.kernel},
                               {{"transpose_a", false}, {"transpose_b", false}});
  const TensorId kernel = b.one("matmul", "net/dense/weight:updated", {dlogits, f.drop},
                                {{"transpose_a", true}, {"transpose_b", false}},
                                {epilogue_op("sgd_update", "net/dense/weight:update", {f.kernel},
                                             {{"scale", 0.25}, {"rate_scale", 1.0}})});
  b.alias(kernel, f.kernel);
  const TensorId dflat = b.one("dropout_grad", "net/flat:diff", {ddrop, f.mask}, {{"rate", 0.5}});
  b.alias(dflat, ddrop);
  const TensorId dpool =
      b.one("reshape", "net/pool:diff", {dflat}, {{"shape", Integers{4, 2, 3, 3}}});
  const TensorId dconv = b.one("max_pool2d_grad", "net/conv/relu:diff", {dpool, f.places},
                               with(kPool, {"input_shape", Integers{4, 2, 6, 6}}));
  const TensorId dadd = b.one("relu_grad", "net/conv/bias_add:diff", {dconv, f.conv});
  const TensorId dbias =
      b.one("bias_add_grad", "net/conv/bias:diff", {dadd}, {{"axis", int64_t{1}}});
  const TensorId dweight =
      b.one("convolution_grad_weight", "net/conv/weight:diff", {f.images, dadd},
            with(kConvolution, {"weight_shape", Integers{2, 1, 3, 3}}));
  b.alias(b.one("sgd_update", "net/conv/bias:updated", {dbias, f.bias},
                {{"scale", 0.25}, {"rate_scale", 1.0}}),
          f.bias);
  const auto updated =
      b.step("momentum_update", "net/conv/weight:updated", {dweight, f.weight, f.slot},
             {{"scale", 0.25},
              {"rate_scale", 1.0},
              {"momentum", 0.9},
              {"nesterov", true},
              {"weight_decay", 0.5}});
  b.alias(updated[0], f.weight);
  b.alias(updated[1], f.slot);
}

/// Makes a value that a run follows.
Hook mean_hook(const std::string& name, TensorId tensor, const std::string& key) {
  Hook hook;
  hook.name = name;
  hook.tensor = tensor;
  hook.steps = {{0, INT64_MAX, 1}};
  hook.sinks = {MeanSink{key}};
  hook.where = "job.yaml:55:1";
  return hook;
}

Dataset digits() {
  Column images;
  images.name = "images";
  images.source = SourceKind::kIdx;
  images.files = {"d/images.gz"};
  images.row_shape = {1, 6, 6};
  images.scale = 1.0 / 255;
  images.mean.values = {0.5};
  images.std.values = {0.25};
  images.rows = {{0, 50}, {60, 70}};
  images.where = "job.yaml:11:5";
  Column labels;
  labels.name = "labels";
  labels.source = SourceKind::kNpz;
  labels.files = {"d/lab\"els.npz"};
  labels.array = "arr_0";
  labels.where = "job.yaml:12:5";
  Dataset made;
  made.name = "digits";
  made.columns = {images, labels};
  made.where = "job.yaml:10:3";
  return made;
}

Job train_job() {
  JobBuilder b("train", true);
  b.job.seed = UINT64_MAX;
  b.job.datasets = {digits()};
  const Forward f = add_forward(b);
  const TensorId inner =
      b.one("convolution", "net/conv/bias_add", {f.images, f.weight}, kConvolution,
            {epilogue_op("bias_add", "net/conv/bias_add", {f.bias}, {{"axis", int64_t{1}}})});
  b.job.steps.back().probe = true;
  add_backward(b, f);
  b.minimize(f.mean, {schedules::PiecewiseConstant{{30, 80}, {0.4, 0.2, 0.05}}});
  ReturnValue leaf{ReturnValue::Kind::kNumpy, f.loss, {}, {}, "out"};
  ReturnValue dict{ReturnValue::Kind::kDict, {}, {leaf, leaf}, {"a b", "\xc3\xa4"}};
  b.job.returns = Returns{"Callback[Tuple[Numpy, Dict[str, Numpy]]]",
                          true,
                          {ReturnValue::Kind::kTuple, {}, {leaf, dict}, {}},
                          {NpySink{true}, NoSink{}},
                          "job.yaml:30:5"};
  Hook hook;
  hook.name = "net/conv/bias_add";
  hook.tensor = inner;
  hook.steps = {{0, INT64_MAX, 100}, {7, 8, 1}};
  CommandSink command;
  command.run = {"python3", "a \"b\".py", ""};
  command.env = {{"LR", "0.1"}};
  command.format = CommandSink::Format::kText;
  command.timeout = 0.5;
  command.ack = true;
  hook.sinks = {PrintSink{"label:\n", Reduce::kNorm, Over::kEpoch, 0.1, "%5.2f %%", 3}, NpySink{},
                command};
  hook.where = "job.yaml:40:9";
  const FollowedValue loss{"out", "", "out", Mode::kMin, 0, 2, "job.yaml:53:1"};
  b.job.hooks = {hook, mean_hook("out", f.loss, loss.key())};
  b.job.run.also = {{"digits", 0, 2, "job.yaml:52:1"}};
  b.job.run.early_stopping = {loss, 3, 0.125};
  b.job.run.epochs = 20;
  b.job.run.shuffle = true;
  b.job.run.checkpoint = {
      .load = {"start"},
      .save = "saved",
      .every_steps = 100,
      .every_epochs = 1,
      .every_minutes = 2.5,
      .rolls = true,
      .keep = 5,
      .keep_best = FollowedValue{"digits.hit", "digits", "hit", Mode::kMax, 0, 0, "job.yaml:54:1"},
      .names = {{.from = {"h.*.q", "h.*.k"},
                 .to = {"net/{1+1}/w"},
                 .perm = {1, 0},
                 .concat = 0,
                 .sizes = {2, 1},
                 .where = "job.yaml:55:1"},
                {.from = {"e"}, .to = {"a", "b"}, .copy = true, .reshape = true},
                {.from = {"l"}, .to = {"c", "d"}, .split = 1},
                {.from = {"**"}, .ignore = true}},
      .load_where = {"job.yaml:50:1"},
      .save_where = "job.yaml:51:1"};
  return b.done();
}

Job predict_job() {
  JobBuilder b("digits");
  b.job.precision = "float64";
  const TensorId narrow = b.input("x", DType::kFloat32, {5, 3}, generators::Uniform{-1, 1});
  const TensorId x = b.one("cast", "x:float64", {narrow}, {{"dtype", DType::kFloat64}});
  const TensorId answers = b.input("answers", DType::kInt64, {5}, FromNpy{"a.npy"});
  const TensorId best = b.one("argmax", "best", {x}, {{"axis", int64_t{1}}});
  const TensorId hit = b.one("equal", "hit", {best, answers});
  b.job.returns = Returns{"Numpy",
                          false,
                          {ReturnValue::Kind::kNumpy, hit, {}, {}, "out"},
                          {NpySink{}},
                          "job.yaml:60:5"};
  b.job.hooks = {mean_hook("hit", hit, "hit")};
  return b.done();
}

}  // namespace

Plan full_plan() {
  return {kVersion,
          "jobs/full.yaml",
          "/somewhere/\xc3\xa4",
          {train_job(), predict_job()},
          {"first", "se\"cond\n"}};
}

Plan random_plan(uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto below = [&random](size_t n) { return static_cast<size_t>(random() % n); };
  JobBuilder b("random");
  std::vector<TensorId> values;
  for (size_t i = 0; i < 1 + below(3); ++i)
    values.push_back(
        b.input("in" + std::to_string(i), DType::kFloat32,
                {static_cast<int64_t>(1 + below(4)), static_cast<int64_t>(1 + below(4))}));
  for (size_t i = below(30); i-- > 0;) {
    const TensorId x = values[below(values.size())];
    const Shape shape = b.job[x].shape;
    const bool small = shape.elements() < 100;
    const std::string name = "t" + std::to_string(b.job.tensors.size());
    const double number =
        std::ldexp(static_cast<double>(random()), static_cast<int>(below(200)) - 100);
    TensorId made;
    switch (below(8)) {
      case 0:
        made = b.one("relu", name, {x});
        break;
      case 1:
        made = b.one("scale", name, {x}, {{"factor", number}});
        break;
      case 2:
        made = b.one("reshape", name, {x}, {{"shape", Integers{shape.elements(), 1}}});
        break;
      case 3:
        made = b.one("reduce_sum", name, {x}, {{"axes", Integers{1}}, {"keepdims", true}});
        break;
      case 4:
        made = b.one("matmul", name, {x, x}, {{"transpose_a", true}, {"transpose_b", false}});
        break;
      case 5:
        made = b.one("concat", name, std::vector<TensorId>(small ? 1 + below(3) : 1, x),
                     {{"axis", int64_t{1}}});
        break;
      case 6:
        made = b.step("split", name, {x},
                      {{"axis", int64_t{0}},
                       {"sizes",
                        small ? Integers(static_cast<size_t>(shape[0]), 1) : Integers{shape[0]}}})
                   .back();
        break;
      default:
        made = b.one("multiply", name, {x, x});
    }
    const std::string& op = b.job.steps.back().op.name();
    if (below(2) == 0 && b.job[x].role == Role::kResult &&
        (op == "relu" || op == "scale" || op == "reshape"))
      b.alias(made, x);
    values.push_back(made);
  }
  b.job.returns = Returns{"Numpy",
                          false,
                          {ReturnValue::Kind::kNumpy, values[below(values.size())], {}, {}, "out"},
                          {},
                          ""};
  return {kVersion, "random.yaml", "/r", {b.done()}, {}};
}

}  // namespace flow::plan::sample
