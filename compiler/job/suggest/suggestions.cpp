// Hints for words of other tools that have no equivalent in a job file.
#include <algorithm>

#include "compiler/job/suggest/vocabulary.h"
#include "runtime/base/text.h"

namespace flow::job {
namespace {

struct Advice {
  std::string_view theirs;  // as `squeezed` leaves them, with spaces between
  std::string_view beside;  // a candidate that identifies the place of the word
  std::string_view text;
};

// Hints for several places.
constexpr std::string_view kAccumulation =
    "accumulate accumulatesteps accumulation accumulationsteps accumulategradbatches "
    "accumulategradients accumsteps gradacc gradaccum gradaccumsteps gradaccumulation "
    "gradaccumulationsteps gradientaccumulation gradientaccumulationsteps itersize microbatches "
    "microbatchsize numberofmicrobatches updatefreq";
constexpr std::string_view kShards =
    "write `shards: 4` in the job to add up the gradients of 4 parts of a batch";
constexpr std::string_view kMonitor =
    "write `early_stopping: {watch: JOB.TENSOR, patience: N}`, or `keep_best` in `checkpoint`";
constexpr std::string_view kAverages = "ema emadecay exponentialmovingaverage useema swa";
constexpr std::string_view kAverage = "write `ema: {decay: 0.999}` in `optimizer`";
constexpr std::string_view kMetrics =
    "write `metrics: {accuracy: {type: accuracy, labels: label, predictions: logits}}` in the job";
constexpr std::string_view kHeldOut = "validationsplit valsplit testsplit validationdata";
constexpr std::string_view kHoldOut =
    "select the training rows with `rows: 0..50000` of a column, and read `rows: 50000..` in a "
    "predict job in `run.also`";
constexpr std::string_view kDevice = "write `placement: {device: gpu}` in the job";

constexpr Advice kAdvice[] = {
    // Ops.
    {"bce bceloss binarycrossentropy", "sigmoid_cross_entropy_with_logits",
     "write `sigmoid_cross_entropy_with_logits` and leave out the sigmoid before it"},
    {"hingeembeddingloss", "hinge",
     "use `where` between x and the `relu` of the margin minus x, or `hinge` for scores"},
    {"accuracy topkaccuracy precision recall f1 f1score auc rocauc confusionmatrix meaniou "
     "perplexity",
     "argmax", kMetrics},
    {"dice diceloss", "reduce_sum",
     "write 1 - 2 * a / b, where a is the `reduce_sum` of y * target and b that of y + target"},
    {"marginrankingloss", "relu", "write the `relu` of one score minus the other plus the margin"},
    {"hardtanh", "clip_by_value", "use `clip_by_value` with `min: -1, max: 1`"},
    {"glu swiglu geglu", "split",
     "`split` x in two, and multiply one part by the `sigmoid` (`silu`, `gelu`) of the other"},
    {"log2", "log", "multiply the `log` of x by 1.442695041"},
    {"log10", "log", "multiply the `log` of x by 0.4342944819"},
    {"logit", "log", "write the `log` of x minus the `log` of 1 - x"},
    {"softmin", "softmax", "write the `softmax` of -x"},
    {"lerp", "add", "write a + t * (b - a) with `subtract`, `multiply` and `add`"},
    {"addn", "add", "chain several `add` entries: each takes two operands"},
    {"var variance std reducestd reducevar reducevariance", "reduce_mean",
     "for the variance, `subtract` the `reduce_mean` with `keepdims: true` from x, and write the "
     "`reduce_mean` of the `square`; its `sqrt` is the standard deviation"},
    {"norm cosinesimilarity", "l2_normalize",
     "a norm is the `sqrt` of the `reduce_sum` of the `square`; `l2_normalize` divides by it"},
    {"adaptivemaxpool2d", "global_max_pool",
     "use `max_pool2d` with the size of the input over that of the result as `ksize`"},
    {"conv3dtranspose convtranspose3d", "conv2d_transpose",
     "use 1D or 2D layers: transposed 3D convolutions are not supported"},
    {"repeat", "tile", "use `tile` to repeat a tensor, or `repeat_elements` to repeat elements"},
    {"take indexselect", "gather", "use `gather` with `params`, `indices` and an `axis`"},
    {"indexadd", "scatter_add", "use `scatter_add` with `in`, `indices`, `updates` and an `axis`"},
    {"zeroslike oneslike fulllike", "constant",
     "write a number as an operand, as in `in: [x, 0]`, or use `constant` with the `shape` of x"},
    {"cdist pairwisedistance", "subtract",
     "`subtract` [1, M, D] from [N, 1, D], then apply `square`, `reduce_sum` and `sqrt`"},
    {"diag diagonal", "triu", "multiply x by the `triu` of the `tril` of a `constant` of ones"},
    {"dropout2d spatialdropout droppath", "dropout",
     "multiply x by the `dropout` of a `constant` of ones with size 1 in the dimensions to drop "
     "as a whole"},
    {"tensordot", "einsum", "use `einsum` with a letter for each axis"},
    {"depthwiseconv2d separableconv2d", "conv2d",
     "use `conv2d` with as many `groups` as channels, and a `conv2d` with `kernel_size: 1` after "
     "it "
     "for a separable one"},
    {"transformer transformerencoder transformerencoderlayer transformerdecoderlayer",
     "scaled_dot_product_attention",
     "write a network with `scaled_dot_product_attention`, and call it with `repeat`"},
    {"sequential", "dense",
     "write the layers as entries of the graph: each reads the one above it"},
    {"gradient gradients grad diff derivative jacobian hessian jvp vjp secondderivative",
     "stop_gradient",
     "watch gradients of the loss with `watch_diff` of a hook, and write other derivatives with "
     "ops"},
    {"print", "identity", "write `hooks: [{watch: NAME, to: print}]` to print a tensor"},
    {"gradientreversal gradreverse", "stop_gradient",
     "write twice the `stop_gradient` of x, minus x"},
    {"gaussiannoise", "random_normal", "`add` a `random_normal` with `like: x` to x"},
    // Keys.
    {"reduction", "in",
     "delete it: `minimize` takes the mean of a loss; for the sum, use `reduce_sum`"},
    {"maximize", "minimize", "minimize the `negative` of it"},
    {"lrdecay learningratedecay", "initial_accumulator_value",
     "write `learning_rate: {type: inverse_time, base: 0.1, steps: 1, decay_rate: ...}`"},
    {"earlystopping patience", "epochs",
     "write `early_stopping: {watch: JOB.TENSOR, patience: N}`"},
    {"monitor", "epochs", kMonitor},
    {"dampening", "nesterov", "leave it out: the momentum of `sgd` has no dampening"},
    {"maxgradnorm clipgradnorm gradientclipval gradclipnorm", "grad_clipping",
     "write `grad_clipping: {type: by_global_norm, clip_norm: 1}`"},
    {"clipvalue clipgradvalue", "grad_clipping",
     "write `grad_clipping: {type: by_value, clip_value: 1}`"},
    {kAccumulation, "minimize", kShards},
    {kAccumulation, "epochs", kShards},
    {kAccumulation, "returns", kShards},
    {kAverages, "minimize", kAverage},
    {kAverages, "epochs", kAverage},
    {kAverages, "returns", kAverage},
    {"metrics", "minimize", kMetrics},
    {"metrics", "epochs", kMetrics},
    {"metrics", "jobs", kMetrics},
    {kHeldOut, "returns", kHoldOut},
    {kHeldOut, "epochs", kHoldOut},
    {kHeldOut, "idx", kHoldOut},
    {kHeldOut, "jobs", kHoldOut},
    {"device", "returns", kDevice},
    {"device", "epochs", kDevice},
    {"device", "jobs", kDevice},
    {"batchsize batch", "epochs",
     "write the batch size as the leading dimension of the inputs' `shape`"},
    {"batchsize batch", "inputs",
     "write the batch size as the leading dimension of the inputs' `shape`"},
    {"batchsize batch", "shape", "write the batch size as the leading dimension of `shape`"},
    // Words.
    {"csv", "idx", "convert it to .npy with `numpy.loadtxt` and `numpy.save`"},
    {"momentum", "rmsprop", "write `sgd` with `momentum: 0.9`"},
    {"amsgrad", "rmsprop", "write `adam` with `amsgrad: true`"},
    {"sequentiallr chainedscheduler sequence", "inverse_sqrt",
     "write a list of schedules, each but the last with `until`: first step of the next one"},
    {"nesterov", "rmsprop", "write `sgd` with `momentum: 0.9` and `nesterov: true`"},
};

}  // namespace

std::string_view advice_on(std::string_view word, const std::vector<std::string>& candidates) {
  const std::string theirs = squeezed(word);
  for (const Advice& advice : kAdvice)
    if (std::ranges::count(split(advice.theirs, ' '), theirs) > 0 &&
        std::ranges::count(candidates, advice.beside) > 0)
      return advice.text;
  return {};
}

}  // namespace flow::job
