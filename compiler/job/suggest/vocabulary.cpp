// Contains the names that other tools use for names of job files, and hints for words of other
// tools that have no equivalent.
#include "compiler/job/suggest/vocabulary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <optional>

#include "runtime/base/display.h"
#include "runtime/base/text.h"

namespace flow::job {
namespace {

struct Term {
  // `theirs` contains words in the form of squeezed(), separated by spaces.
  std::string_view theirs, ours;
};

constexpr Term kTerms[] = {
    // Ops.
    {"linear fc fullyconnected innerproduct gemm addmm", "dense"},
    {"convolution conv convolution2d", "conv2d"},
    {"deconvolution convtranspose2d deconv", "conv2d_transpose"},
    {"maxpool maxpooling maxpooling2d pooling", "max_pool2d"},
    {"maxpooling1d", "max_pool1d"},
    {"avgpool averagepooling2d", "avg_pool2d"},
    {"averagepooling1d", "avg_pool1d"},
    {"globalaveragepooling2d", "global_avg_pool"},
    {"adaptiveavgpool2d", "adaptive_avg_pool"},
    {"batchnorm batchnorm1d batchnorm2d bn batchnorm3d", "batch_normalization"},
    {"layernormalization ln", "layer_norm"},
    {"groupnormalization", "group_norm"},
    {"rmsnormalization", "rms_norm"},
    {"swish", "silu"},
    {"linear", "none"},
    {"crossentropy crossentropyloss softmaxcrossentropy sparsecategoricalcrossentropy "
     "softmaxwithloss",
     "sparse_softmax_cross_entropy_with_logits"},
    {"categoricalcrossentropy", "softmax_cross_entropy_with_logits"},
    {"bcewithlogitsloss bcewithlogits", "sigmoid_cross_entropy_with_logits"},
    {"nllloss negativeloglikelihood negativeloglikelihoodloss", "nll"},
    {"ctcloss", "ctc"},
    {"mseloss meansquarederror euclideanloss", "mse"},
    {"mae meanabsoluteerror l1loss", "l1"},
    {"huberloss", "huber"},
    {"kldivloss kldivergence", "kl_div"},
    {"hingeloss", "hinge"},
    {"focalloss sigmoidfocalloss binaryfocalcrossentropy", "focal"},
    {"cosineembeddingloss", "cosine_embedding"},
    {"triplet tripletloss tripletmarginloss", "triplet_margin"},
    {"cat concatenate", "concat"},
    {"permute swapaxes moveaxis t", "transpose"},
    {"view", "reshape"},
    {"unsqueeze", "expand_dims"},
    {"detach", "stop_gradient"},
    {"attention multiheadattention groupedqueryattention flashattention",
     "scaled_dot_product_attention"},
    {"rotaryembedding rotarypositionembedding applyrotaryposemb", "rope"},
    {"matrixmultiply bmm batchmatmul mm", "matmul"},
    {"inner vecdot", "dot"},
    {"mean", "reduce_mean"},
    {"sum", "reduce_sum"},
    {"max amax", "reduce_max"},
    {"min amin", "reduce_min"},
    {"prod", "reduce_prod"},
    {"any", "reduce_any"},
    {"all", "reduce_all"},
    {"sub", "subtract"},
    {"mul", "multiply"},
    {"div", "divide"},
    {"clamp clip", "clip_by_value"},
    {"eltwise", "add"},
    {"neg", "negative"},
    {"cumulativeproduct", "cumprod"},
    {"im2col", "unfold"},
    {"col2im", "fold"},
    {"power", "pow"},
    {"eq", "equal"},
    {"ne", "not_equal"},
    {"gt", "greater"},
    {"ge gte", "greater_equal"},
    {"lt", "less"},
    {"le lte", "less_equal"},
    {"smoothl1loss", "smooth_l1"},
    {"unstack chunk unbind", "split"},
    {"reverse fliplr flipud", "flip"},
    {"cumulativesum", "cumsum"},
    {"remainder floormod", "mod"},
    {"truncatemod", "fmod"},
    {"floordiv integerdivide", "floor_divide"},
    {"arange", "range"},
    {"eyelike", "eye"},
    {"randn randnlike randomnormallike", "random_normal"},
    {"rand randlike randomuniformlike", "random_uniform"},
    {"categorical", "multinomial"},
    {"expand", "broadcast_to"},
    {"repeatinterleave", "repeat_elements"},
    {"gatherelements", "take_along_axis"},
    {"scatter scatterelements", "put_along_axis"},
    {"tensorscatterndupdate", "scatter_nd"},
    {"indexcopy", "scatter_update"},
    {"depthtospace", "pixel_shuffle"},
    {"spacetodepth", "pixel_unshuffle"},
    {"lrn localresponsenormalization", "local_response_norm"},
    {"normalize l2norm", "l2_normalize"},
    {"instancenormalization instancenorm1d instancenorm2d", "instance_norm"},
    {"globalmaxpooling2d globalmaxpool2d", "global_max_pool"},
    {"maxpooling3d", "max_pool3d"},
    {"averagepooling3d", "avg_pool3d"},
    {"convtranspose1d", "conv1d_transpose"},
    {"zeropad2d reflectionpad2d", "pad"},
    {"squareroot", "sqrt"},
    {"maskedfill", "where"},
    {"zeros ones full", "constant"},
    {"simplernn rnncell", "rnn"},
    {"lstmcell", "lstm"},
    {"grucell", "gru"},
    {"interpolate upsample upsample2d upsampling2d upsamplingnearest2d upsamplingbilinear2d",
     "resize"},
    // Keys.
    {"input inputs x bottom", "in"},
    {"type layer", "op"},
    {"outfeatures hiddensize numoutput outputdim embeddingdim", "units"},
    {"numlayers", "layers"},
    {"sequencelength sequencelengths sequencelens", "lengths"},
    {"initialstate h0", "initial_h"},
    {"c0", "initial_c"},
    {"bidirectional gobackwards", "direction"},
    {"nonlinearity", "activation"},
    {"resetafter", "linear_before_reset"},
    {"numembeddings inputdim", "vocab_size"},
    {"paddingidx", "padding"},
    {"persampleweights weight classweight classweights", "weights"},
    {"outchannels", "filters"},
    {"kernel", "kernel_size"},
    {"kernel kernelsize poolsize", "ksize"},
    {"bias", "use_bias"},
    {"eps", "epsilon"},
    {"p", "rate"},
    {"ignorelabel ignoreclass", "ignore_index"},
    {"targetlengths labellength", "label_lengths"},
    {"logitlength", "input_lengths"},
    {"blankindex", "blank"},
    {"smoothing", "label_smoothing"},
    {"input", "log_probs"},
    {"target", "labels"},
    {"dilation", "dilation_rate"},
    {"dim dims axes", "axis"},
    {"lr baselr", "learning_rate"},
    {"loss", "minimize"},
    {"clip gradclip", "grad_clipping"},
    {"gamma", "factor"},
    {"rho gamma alpha", "decay_rate"},
    {"nssteps", "newton_schulz_steps"},
    {"adjustlrfn", "adjust_learning_rate"},
    {"l1regularizationstrength", "l1"},
    {"l2regularizationstrength", "l2"},
    {"initialaccumulator", "initial_accumulator_value"},
    {"maxlr initiallr initiallearningrate", "base"},
    {"stepsize totalsteps totaliters decaysteps firstdecaysteps t0 tmax maxsteps maxiter "
     "iterations",
     "steps"},
    {"tmult tmul", "period_factor"},
    {"mmul", "restart_factor"},
    {"milestones", "boundaries"},
    {"annealstrategy", "linear"},
    {"maxnorm", "clip_norm"},
    {"clipnorm", "by_global_norm"},
    {"clipvalue", "by_value"},
    {"negativeslope", "alpha"},
    {"requiresgrad", "trainable"},
    {"monitor", "watch"},
    {"warmupsteps numwarmupsteps", "warmup"},
    {"trainable istraining", "training"},
    {"dims", "perm"},
    {"startdim", "start"},
    {"numgroups", "groups"},
    {"numclasses", "depth"},
    {"reps repeats", "multiples"},
    {"pad", "paddings"},
    {"size", "shape"},
    {"sizes outputsize", "size"},
    {"scalefactor scales", "scale"},
    {"interpolation", "mode"},
    {"cubiccoeffa", "cubic_coefficient"},
    {"nearestmode", "rounding"},
    {"coordinatetransformationmode aligncorners", "coordinates"},
    {"init", "initializer"},
    {"std", "stddev"},
    {"saveevery", "checkpoint"},
    {"validate val eval validation", "also"},
    {"numepochs maxepochs", "epochs"},
    {"callbacks", "hooks"},
    {"model", "networks"},
    {"layers", "graph"},
    {"outputs", "returns"},
    // Words.
    {"avg average", "mean"},
    {"linear", "bilinear"},
    {"cubic", "bicubic"},
    {"half fp16", "float16"},
    {"bf16", "bfloat16"},
    {"float fp32 f32", "float32"},
    {"double fp64", "float64"},
    {"int", "int32"},
    {"long", "int64"},
    {"byte", "uint8"},
    {"boolean", "bool"},
    {"fp16 float16 half amp", "mixed_float16"},
    {"bf16 bfloat16", "mixed_bfloat16"},
    {"cuda cuda:0", "gpu"},
    {"no false", "off"},
    {"yes true", "on"},
    {"training fit", "train"},
    {"test eval inference", "predict"},
    {"xavier", "xavier_uniform"},
    {"glorot", "glorot_uniform"},
    {"henormal heuniform kaimingnormal kaiminguniform", "kaiming"},
    {"normal gaussian", "random_normal"},
    {"uniform", "random_uniform"},
    {"ftrlproximal", "ftrl"},
    {"rectifiedadam", "radam"},
    {"steplr stepdecay", "step"},
    {"multistep multisteplr", "piecewise_scaling"},
    {"linearlr", "linear"},
    {"constantlr", "constant"},
    {"polynomiallr polynomialdecay", "polynomial"},
    {"exponentiallr exponentialdecay", "exponential"},
    {"onecyclelr", "one_cycle"},
    {"cosineannealingwarmrestarts cosinedecayrestarts warmrestarts", "cosine_restarts"},
    {"inversesquareroot noam", "inverse_sqrt"},
    {"cosineannealing cosineannealinglr", "cosine"},
    {"reducelronplateau reduceonplateau", "plateau"},
};

/// Hints for words that have no equivalent in a job file.
struct Advice {
  std::string_view theirs;  // in the form of squeezed(), separated by spaces
  std::string_view beside;  // candidates that identify the place of the word
  std::string_view text;
};

// Hints that apply to several places.
constexpr std::string_view kAccumulation =
    "accumulate accumulatesteps accumulation accumulationsteps accumulategradbatches "
    "accumulategradients accumsteps gradacc gradaccum gradaccumsteps gradaccumulation "
    "gradaccumulationsteps gradientaccumulation gradientaccumulationsteps itersize microbatches "
    "microbatchsize numberofmicrobatches updatefreq";
constexpr std::string_view kMetrics =
    "write `metrics: {accuracy: {type: accuracy, labels: label, predictions: logits}}` in the job";

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
    {"monitor", "epochs",
     "write `early_stopping: {watch: JOB.TENSOR, patience: N}`, or `keep_best` in `checkpoint`"},
    {"dampening", "nesterov", "leave it out: the momentum of `sgd` has no dampening"},
    {"maxgradnorm clipgradnorm gradientclipval gradclipnorm", "grad_clipping",
     "write `grad_clipping: {type: by_global_norm, clip_norm: 1}`"},
    {"clipvalue clipgradvalue", "grad_clipping",
     "write `grad_clipping: {type: by_value, clip_value: 1}`"},
    {kAccumulation, "minimize epochs returns",
     "write `shards: 4` in the job to add up the gradients of 4 parts of a batch"},
    {"ema emadecay exponentialmovingaverage useema swa", "minimize epochs returns",
     "write `ema: {decay: 0.999}` in `optimizer`"},
    {"metrics", "minimize epochs jobs", kMetrics},
    {"validationsplit valsplit testsplit validationdata", "returns epochs idx jobs",
     "write `options: {split: {validation: 0.1}}` in the dataset, and read "
     "`DATASET/validation.COLUMN` in a predict job in `run.also`"},
    {"device", "returns epochs jobs", "write `placement: {device: gpu}` in the job"},
    {"batchsize batch", "epochs inputs",
     "write the batch size as the leading dimension of the inputs' `shape`"},
    {"batchsize batch", "shape", "write the batch size as the leading dimension of `shape`"},
    // Words.
    {"momentum", "rmsprop", "write `sgd` with `momentum: 0.9`"},
    {"amsgrad", "rmsprop", "write `adam` with `amsgrad: true`"},
    {"sequentiallr chainedscheduler sequence", "inverse_sqrt",
     "write a list of schedules, each but the last with `until`: first step of the next one"},
    {"nesterov", "rmsprop", "write `sgd` with `momentum: 0.9` and `nesterov: true`"},
};

bool is_among(const std::string& word, std::string_view words) {
  return std::ranges::count(split(words, ' '), word) > 0;
}

std::optional<std::string> known_term(std::string_view word,
                                      const std::vector<std::string>& candidates) {
  const std::string theirs = squeezed(word);
  for (const std::string& candidate : candidates)
    if (squeezed(candidate) == theirs) return candidate;
  for (const Term& term : kTerms)
    if (is_among(theirs, term.theirs) && std::ranges::count(candidates, term.ours) > 0)
      return std::string(term.ours);
  return {};
}

/// Returns the word with ASCII punctuation, without enclosing quotes.
std::string bare_ascii(std::string_view word) {
  const std::string text = with_ascii_punctuation(word);
  const bool quoted = text.size() > 1 && (text.front() == '"' || text.front() == '\'') &&
                      text.back() == text.front();
  return quoted ? text.substr(1, text.size() - 2) : text;
}

}  // namespace

std::string squeezed(std::string_view word) {
  std::string text;
  for (const char c : word.substr(word.rfind('.') + 1))
    if (c != '_' && c != '-')
      text += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

std::string respelling_hint(std::string_view word,
                            const std::function<bool(const std::string&)>& valid) {
  const std::string bare = bare_ascii(word);
  if (with_ascii_punctuation(word) != word && valid(bare))
    return fmt::format("write `{}`, without typographic quotes and dashes", bare);
  const size_t hash = word.find('#');
  if (hash == word.npos || !valid(trimmed(word.substr(0, hash)))) return {};
  return fmt::format("write `{} {}`: a comment needs a space before it",
                     trimmed(word.substr(0, hash)), word.substr(hash));
}

std::vector<std::string> meant_by(std::string_view word,
                                  const std::vector<std::string>& candidates) {
  if (const std::string bare = bare_ascii(word);
      bare != word && std::ranges::count(candidates, bare) > 0)
    return {bare};
  if (auto known = known_term(word, candidates)) return {*std::move(known)};
  return suggest(word, candidates);
}

std::string_view advice_on(std::string_view word, const std::vector<std::string>& candidates) {
  const std::string theirs = squeezed(word);
  for (const Advice& advice : kAdvice)
    if (is_among(theirs, advice.theirs) && std::ranges::any_of(candidates, [&](const auto& one) {
          return is_among(one, advice.beside);
        }))
      return advice.text;
  return {};
}

}  // namespace flow::job
