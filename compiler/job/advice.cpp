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

constexpr Advice kAdvice[] = {
    // Ops.
    {"bce bceloss binarycrossentropy", "sigmoid_cross_entropy_with_logits",
     "write `sigmoid_cross_entropy_with_logits` and leave out the sigmoid before it"},
    {"nllloss", "sparse_softmax_cross_entropy_with_logits",
     "write `sparse_softmax_cross_entropy_with_logits` and leave out the log_softmax before it"},
    {"kldiv kldivloss", "softmax_cross_entropy_with_logits",
     "`softmax_cross_entropy_with_logits` takes shares as labels and has the same gradient"},
    {"hinge hingeloss hingeembeddingloss", "relu", "the `relu` of 1 - labels x is the hinge loss"},
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
    {"expm1", "exp", "the `exp` of x, less 1"},
    {"isnan", "not_equal", "a NaN is `not_equal` to itself: `in: [x, x]`"},
    {"trunc floor ceil round", "cast",
     "a `cast` to int32 cuts off what is behind the point, of negative numbers too"},
    {"var variance std", "reduce_mean",
     "the `reduce_mean` of the `square` of x less its own `reduce_mean` with `keepdims: true` is "
     "the variance, whose `sqrt` is the standard deviation"},
    {"norm l2norm normalize l2normalize cosinesimilarity", "rsqrt",
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
    {"arange range", "constant", "0, 1, 2, ... are an input: `from: {type: iota}`"},
    {"dropout2d spatialdropout droppath", "dropout",
     "x times the `dropout` of a `constant` of ones with extents of 1 drops all of a channel, or "
     "of a row"},
    {"sort argsort", "top_k", "`top_k` with all of an axis as `k` sorts it, the largest first"},
    {"cumsum", "triu",
     "a `matmul` with the `triu` of a `constant` of ones adds up along the last axis"},
    {"eye", "triu", "the `triu` of the `tril` of a `constant` of ones"},
    {"einsum tensordot", "matmul", "`transpose` and `reshape` make a `matmul` of it"},
    {"depthwiseconv2d separableconv2d", "conv2d",
     "`conv2d` with as many `groups` as channels; one of `kernel_size: 1` behind it makes it "
     "separable"},
    {"rnn simplernn lstm lstmcell gru grucell", "slice",
     "a network of one step, called with `repeat`: LANGUAGE.md has an RNN"},
    {"rand randn normal randomnormal uniform randomuniform gaussiannoise", "dropout",
     "random numbers are an input: `from: {type: random_normal}`"},
    // Keys.
    {"reduction", "in", "`minimize` takes the mean of a loss; `reduce_sum` sums it"},
    {"maximize", "minimize", "minimize what `{op: negative}` makes of it"},
    {"weightdecay", "minimize",
     "what PyTorch adds to gradients is `kernel_regularizer: {l2: ...}` on a layer; `sgdw` and "
     "`adamw` decay weights beside the gradient"},
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
