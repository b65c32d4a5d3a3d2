// What to write where another tool has a word that a job file has no equal of.
#include <algorithm>

#include "compiler/job/vocabulary.h"
#include "runtime/base/text.h"

namespace flow::job {
namespace {

struct Advice {
  std::string_view theirs;  // as `squeezed` leaves them, with spaces between
  std::string_view beside;  // the candidate that tells where the word stands
  std::string_view text;
};

// What is said in several places.
constexpr std::string_view kAccumulation =
    "accumulate accumulation accumulationsteps accumulategradbatches gradacc gradientaccumulation "
    "gradientaccumulationsteps";
constexpr std::string_view kLargerBatch = "a larger batch is the leading extent of the inputs";
constexpr std::string_view kAverages = "ema emadecay exponentialmovingaverage useema swa";
constexpr std::string_view kNoAverages =
    "variables have no moving averages; a `cosine` learning rate that ends near 0 has much the "
    "same effect";
constexpr std::string_view kMetrics =
    "an entry of the graph computes a metric, and `returns: {value: NAME, to: {type: print, "
    "reduce: mean}}` prints its mean";
constexpr std::string_view kHeldOut = "validationsplit valsplit testsplit validationdata";
constexpr std::string_view kHoldOut =
    "`rows: 0..50000` of a column selects the training rows and `rows: 50000..` the others, which "
    "a predict job in `run.also` reads";
constexpr std::string_view kDevice = "write `placement: {device: gpu}` in the job";

constexpr Advice kAdvice[] = {
    // Ops.
    {"bce bceloss binarycrossentropy", "sigmoid_cross_entropy_with_logits",
     "write `sigmoid_cross_entropy_with_logits` and leave out the sigmoid before it"},
    {"nllloss", "sparse_softmax_cross_entropy_with_logits",
     "write `sparse_softmax_cross_entropy_with_logits` and leave out the log_softmax before it"},
    {"kldiv kldivloss", "softmax_cross_entropy_with_logits",
     "`softmax_cross_entropy_with_logits` takes shares as labels and has the same gradient"},
    {"hinge hingeloss hingeembeddingloss", "relu", "the `relu` of 1 - labels x is the hinge loss"},
    {"accuracy", "argmax",
     "the `equal` of the labels and the `argmax` of the logits, `cast` to float32: `to: {type: "
     "print, reduce: mean}` prints its mean"},
    {"dice diceloss", "reduce_sum",
     "1 less twice the `reduce_sum` of y times target, divided by the sum of both"},
    {"focalloss", "sparse_softmax_cross_entropy_with_logits",
     "the cross entropy times a power of 1 less `exp` of its `negative`, the share of the class"},
    {"triplet tripletloss tripletmarginloss marginrankingloss", "relu",
     "the `relu` of one distance less the other, plus the margin"},
    {"prelu", "leaky_relu",
     "the `relu` of x, less a `variable` times the `relu` of -x; the slope of `leaky_relu` is not "
     "trained"},
    {"selu", "elu", "`elu` with `alpha: 1.6732632`, times 1.0507010"},
    {"mish", "softplus", "x times the `tanh` of its `softplus`"},
    {"hardsigmoid", "relu6", "the `relu6` of x + 3, divided by 6"},
    {"hardtanh", "clip_by_value", "`clip_by_value` with `min: -1, max: 1`"},
    {"softsign", "abs", "x divided by 1 plus its `abs`"},
    {"logsigmoid", "softplus", "the `negative` of the `softplus` of -x"},
    {"glu swiglu geglu", "split",
     "`split` in two, one part times the `sigmoid` (`silu`, `gelu`) of the other"},
    {"reciprocal", "divide", "write `{op: divide, in: [1, x]}`"},
    {"log1p", "log", "the `log` of 1 + x"},
    {"log2", "log", "the `log` of x, times 1.442695041"},
    {"log10", "log", "the `log` of x, times 0.4342944819"},
    {"logit", "log", "the `log` of x less that of 1 - x"},
    {"tan", "sin", "the `sin` divided by the `cos`"},
    {"sinh cosh", "exp", "half of `exp` of x, and less or plus half of that of -x"},
    {"softmin", "softmax", "the `softmax` of -x"},
    {"lerp", "add", "a plus t times b less a: a `subtract`, a `multiply` and an `add`"},
    {"addn", "add", "an `add` takes two: one behind the other"},
    {"expm1", "exp", "the `exp` of x, less 1"},
    {"isnan", "not_equal", "a NaN is `not_equal` to itself: `in: [x, x]`"},
    {"trunc floor ceil round floordiv", "cast",
     "a `cast` to int32 cuts off what is behind the point, of negative numbers too"},
    {"mod fmod remainder", "cast",
     "x less y times what a `cast` to int32 and back leaves of x divided by y"},
    {"var variance std reducestd reducevar reducevariance", "reduce_mean",
     "the `reduce_mean` of the `square` of x less its own `reduce_mean` with `keepdims: true` is "
     "the variance, whose `sqrt` is the standard deviation"},
    {"norm l2norm normalize l2normalize cosinesimilarity cosineembeddingloss", "rsqrt",
     "x times the `rsqrt` of the `reduce_sum` of its `square`, with `keepdims: true`, is of norm "
     "1"},
    {"rmsnorm rmsnormalization", "rsqrt",
     "x times the `rsqrt` of the `reduce_mean` of its `square`, with `keepdims: true`, times a "
     "`variable`"},
    {"instancenorm instancenorm1d instancenorm2d instancenormalization", "group_norm",
     "`group_norm` with as many `groups` as channels"},
    {"upsample upsample2d upsampling2d upsamplingnearest2d interpolate resize", "tile",
     "`reshape` to [N, C, H, 1, W, 1], `tile` by [1, 1, 1, 2, 1, 2] and `reshape` to [N, C, 2H, "
     "2W] double an image"},
    {"spacetodepth pixelunshuffle", "transpose",
     "`reshape` to [N, C, H, 2, W, 2], `transpose` by [0, 1, 3, 5, 2, 4] and `reshape` to [N, 4C, "
     "H, W] make channels of pixels"},
    {"globalmaxpool globalmaxpool2d globalmaxpooling2d adaptivemaxpool2d", "reduce_max",
     "the `reduce_max` over `axis: [2, 3]`"},
    {"conv3d conv3dtranspose maxpool3d avgpool3d batchnorm3d", "conv2d",
     "convolutions and pools are of lengths and images, not of volumes"},
    {"pixelshuffle depthtospace", "transpose",
     "`reshape` to [N, C, 2, 2, H, W], `transpose` by [0, 1, 4, 2, 5, 3] and `reshape` to [N, C, "
     "2H, 2W] make pixels of channels"},
    {"expand broadcastto repeat repeatinterleave", "tile",
     "ops broadcast as NumPy's do; `tile` repeats"},
    {"flip reverse", "slice", "`slice` with `index: \"[:, ::-1]\"` turns axis 1 around"},
    {"roll", "slice", "`concat` of two slices"},
    {"take indexselect", "gather", "`gather` with `params`, `indices` and an `axis`"},
    {"takealongaxis", "one_hot",
     "x times the `one_hot` of the indices, whose `reduce_sum` is what they pick"},
    {"gathernd", "gather", "`gather` picks along one axis; a `reshape` makes one of several"},
    {"scatter scatteradd indexadd", "one_hot",
     "a `matmul` with `transpose_a: true` of the `one_hot` of the indices and x adds rows where "
     "they belong"},
    {"embeddingbag", "embedding", "the `reduce_sum` or `reduce_mean` over what `embedding` gives"},
    {"zeroslike oneslike fulllike", "constant",
     "a number stands where an operand does, as in `in: [x, 0]`; `constant` with the `shape` of x"},
    {"outer", "multiply", "the `multiply` of [N, 1] and [1, M]: shapes broadcast"},
    {"cdist pairwisedistance", "subtract",
     "the `subtract` of [N, 1, D] and [1, M, D] is of [N, M, D]; `square`, `reduce_sum` and `sqrt` "
     "make distances of it"},
    {"diag diagonal", "triu", "x times the `triu` of the `tril` of a `constant` of ones"},
    {"arange range linspace", "constant", "0, 1, 2, ... are an input: `from: {type: iota}`"},
    {"dropout2d spatialdropout droppath", "dropout",
     "x times the `dropout` of a `constant` of ones with extents of 1 drops all of a channel, or "
     "of a row"},
    {"sort argsort", "top_k", "`top_k` with all of an axis as `k` sorts it, the largest first"},
    {"cumsum", "triu",
     "a `matmul` with the `triu` of a `constant` of ones adds up along the last axis"},
    {"cumprod", "triu",
     "the `exp` of the `matmul` of the `log` of x with the `triu` of a `constant` of ones"},
    {"eye", "triu", "the `triu` of the `tril` of a `constant` of ones"},
    {"einsum tensordot", "matmul", "`transpose` and `reshape` make a `matmul` of it"},
    {"depthwiseconv2d separableconv2d", "conv2d",
     "`conv2d` with as many `groups` as channels; one of `kernel_size: 1` behind it makes it "
     "separable"},
    {"rnn simplernn lstm lstmcell gru grucell", "slice",
     "a network of one step, called with `repeat`: LANGUAGE.md has an RNN"},
    {"transformer transformerencoder transformerencoderlayer transformerdecoderlayer",
     "scaled_dot_product_attention",
     "a network of your own around `scaled_dot_product_attention`, called with `repeat`"},
    {"sequential", "dense", "a graph is one: each entry reads the one above it"},
    {"print", "identity", "`hooks: [{watch: NAME, to: print}]` prints any tensor"},
    {"gradientreversal gradreverse", "stop_gradient",
     "twice the `stop_gradient` of x, less x, has the value of x and the opposite gradient"},
    {"rand randn normal randomnormal uniform randomuniform gaussiannoise", "dropout",
     "random numbers are an input: `from: {type: random_normal}`"},
    // Keys.
    {"reduction", "in", "`minimize` takes the mean of a loss; `reduce_sum` sums it"},
    {"maximize", "minimize", "minimize what `{op: negative}` makes of it"},
    {"weightdecay", "minimize",
     "what PyTorch adds to gradients is `kernel_regularizer: {l2: ...}` on a layer; `sgdw` and "
     "`adamw` decay weights beside the gradient"},
    {"earlystopping patience", "epochs",
     "a command hook that exits with 10 ends the run, also one of a job in `also`"},
    {"maxgradnorm clipgradnorm gradientclipval gradclipnorm", "grad_clipping",
     "write `grad_clipping: {type: by_global_norm, clip_norm: 1}`"},
    {"clipvalue clipgradvalue", "grad_clipping",
     "write `grad_clipping: {type: by_value, clip_value: 1}`"},
    {kAccumulation, "minimize", kLargerBatch},
    {kAccumulation, "epochs", kLargerBatch},
    {kAccumulation, "returns", kLargerBatch},
    {kAverages, "minimize", kNoAverages},
    {kAverages, "epochs", kNoAverages},
    {kAverages, "returns", kNoAverages},
    {"metrics", "returns", kMetrics},
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
    {"batchsize batch", "epochs", "the batch is the leading extent of the inputs' `shape`"},
    {"batchsize batch", "inputs", "the batch is the leading extent of the inputs' `shape`"},
    {"batchsize batch", "shape", "the batch is the leading extent of `shape`"},
    // Words.
    {"csv", "idx", "`numpy.save` writes a .npy of what `numpy.loadtxt` reads"},
    {"momentum", "rmsprop", "write `sgd` with `momentum: 0.9`"},
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
