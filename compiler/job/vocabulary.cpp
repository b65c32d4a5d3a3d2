// What other tools call what a job file calls otherwise.
#include "compiler/job/vocabulary.h"

#include <algorithm>
#include <cctype>
#include <optional>

#include "runtime/base/text.h"

namespace flow::job {
namespace {

struct Term {
  std::string_view theirs, ours;  // theirs as `squeezed` leaves it
};

constexpr Term kTerms[] = {
    // Ops.
    {"linear", "dense"},
    {"fc", "dense"},
    {"fullyconnected", "dense"},
    {"innerproduct", "dense"},
    {"gemm", "dense"},
    {"convolution", "conv2d"},
    {"conv", "conv2d"},
    {"convolution2d", "conv2d"},
    {"deconvolution", "conv2d_transpose"},
    {"convtranspose2d", "conv2d_transpose"},
    {"maxpool", "max_pool2d"},
    {"maxpooling", "max_pool2d"},
    {"maxpooling1d", "max_pool1d"},
    {"maxpooling2d", "max_pool2d"},
    {"pooling", "max_pool2d"},
    {"avgpool", "avg_pool2d"},
    {"averagepooling1d", "avg_pool1d"},
    {"averagepooling2d", "avg_pool2d"},
    {"globalaveragepooling2d", "global_avg_pool"},
    {"adaptiveavgpool2d", "global_avg_pool"},
    {"batchnorm", "batch_normalization"},
    {"batchnorm1d", "batch_normalization"},
    {"batchnorm2d", "batch_normalization"},
    {"bn", "batch_normalization"},
    {"layernormalization", "layer_norm"},
    {"groupnormalization", "group_norm"},
    {"swish", "silu"},
    {"linear", "none"},
    {"crossentropy", "sparse_softmax_cross_entropy_with_logits"},
    {"crossentropyloss", "sparse_softmax_cross_entropy_with_logits"},
    {"softmaxcrossentropy", "sparse_softmax_cross_entropy_with_logits"},
    {"sparsecategoricalcrossentropy", "sparse_softmax_cross_entropy_with_logits"},
    {"softmaxwithloss", "sparse_softmax_cross_entropy_with_logits"},
    {"categoricalcrossentropy", "softmax_cross_entropy_with_logits"},
    {"bcewithlogitsloss", "sigmoid_cross_entropy_with_logits"},
    {"mseloss", "mse"},
    {"meansquarederror", "mse"},
    {"euclideanloss", "mse"},
    {"mae", "l1"},
    {"meanabsoluteerror", "l1"},
    {"huber", "smooth_l1"},
    {"huberloss", "smooth_l1"},
    {"cat", "concat"},
    {"concatenate", "concat"},
    {"permute", "transpose"},
    {"view", "reshape"},
    {"unsqueeze", "expand_dims"},
    {"detach", "stop_gradient"},
    {"attention", "scaled_dot_product_attention"},
    {"multiheadattention", "scaled_dot_product_attention"},
    {"matrixmultiply", "matmul"},
    {"bmm", "matmul"},
    {"mean", "reduce_mean"},
    {"sum", "reduce_sum"},
    {"max", "reduce_max"},
    {"min", "reduce_min"},
    {"sub", "subtract"},
    {"mul", "multiply"},
    {"div", "divide"},
    {"clamp", "clip_by_value"},
    {"clip", "clip_by_value"},
    {"eltwise", "add"},
    {"neg", "negative"},
    {"mm", "matmul"},
    {"dot", "matmul"},
    {"power", "pow"},
    {"eq", "equal"},
    {"ne", "not_equal"},
    {"gt", "greater"},
    {"ge", "greater_equal"},
    {"gte", "greater_equal"},
    {"lt", "less"},
    {"le", "less_equal"},
    {"lte", "less_equal"},
    {"ln", "layer_norm"},
    {"l1loss", "l1"},
    {"smoothl1loss", "smooth_l1"},
    {"bcewithlogits", "sigmoid_cross_entropy_with_logits"},
    {"unstack", "split"},
    {"chunk", "split"},
    {"swapaxes", "transpose"},
    {"maskedfill", "where"},
    {"zeros", "constant"},
    {"ones", "constant"},
    {"full", "constant"},
    {"addmm", "dense"},
    // Keys.
    {"input", "in"},
    {"inputs", "in"},
    {"x", "in"},
    {"bottom", "in"},
    {"type", "op"},
    {"layer", "op"},
    {"outfeatures", "units"},
    {"numoutput", "units"},
    {"outputdim", "units"},
    {"embeddingdim", "units"},
    {"numembeddings", "vocab_size"},
    {"inputdim", "vocab_size"},
    {"outchannels", "filters"},
    {"kernel", "kernel_size"},
    {"kernel", "ksize"},
    {"kernelsize", "ksize"},
    {"poolsize", "ksize"},
    {"bias", "use_bias"},
    {"eps", "epsilon"},
    {"p", "rate"},
    {"dilation", "dilation_rate"},
    {"dim", "axis"},
    {"lr", "learning_rate"},
    {"baselr", "learning_rate"},
    {"loss", "minimize"},
    {"clip", "grad_clipping"},
    {"gradclip", "grad_clipping"},
    {"maxnorm", "clip_norm"},
    {"clipnorm", "by_global_norm"},
    {"clipvalue", "by_value"},
    {"alpha", "decay_rate"},
    {"negativeslope", "alpha"},
    {"requiresgrad", "trainable"},
    {"trainable", "training"},
    {"istraining", "training"},
    {"dims", "axis"},
    {"axes", "axis"},
    {"dims", "perm"},
    {"startdim", "start"},
    {"numgroups", "groups"},
    {"numclasses", "depth"},
    {"reps", "multiples"},
    {"repeats", "multiples"},
    {"pad", "paddings"},
    {"size", "shape"},
    {"init", "initializer"},
    {"std", "stddev"},
    {"maxsteps", "steps"},
    {"saveevery", "checkpoint"},
    {"validate", "also"},
    {"validation", "also"},
    {"maxiter", "steps"},
    {"iterations", "steps"},
    {"numepochs", "epochs"},
    {"callbacks", "hooks"},
    {"model", "networks"},
    {"layers", "graph"},
    {"outputs", "returns"},
    // Words.
    {"avg", "mean"},
    {"average", "mean"},
    {"half", "float16"},
    {"fp16", "float16"},
    {"bf16", "bfloat16"},
    {"float", "float32"},
    {"fp32", "float32"},
    {"f32", "float32"},
    {"double", "float64"},
    {"fp64", "float64"},
    {"int", "int32"},
    {"long", "int64"},
    {"byte", "uint8"},
    {"boolean", "bool"},
    {"fp16", "mixed_float16"},
    {"float16", "mixed_float16"},
    {"half", "mixed_float16"},
    {"amp", "mixed_float16"},
    {"bf16", "mixed_bfloat16"},
    {"bfloat16", "mixed_bfloat16"},
    {"cuda", "gpu"},
    {"no", "off"},
    {"false", "off"},
    {"yes", "on"},
    {"true", "on"},
    {"training", "train"},
    {"fit", "train"},
    {"test", "predict"},
    {"eval", "predict"},
    {"inference", "predict"},
    {"xavier", "xavier_uniform"},
    {"glorot", "glorot_uniform"},
    {"henormal", "kaiming"},
    {"heuniform", "kaiming"},
    {"kaimingnormal", "kaiming"},
    {"kaiminguniform", "kaiming"},
    {"normal", "random_normal"},
    {"gaussian", "random_normal"},
    {"uniform", "random_uniform"},
    {"step", "piecewise_scaling"},
    {"steplr", "piecewise_scaling"},
    {"multistep", "piecewise_scaling"},
    {"cosineannealing", "cosine"},
    {"cosineannealinglr", "cosine"},
};

std::optional<std::string> known_term(std::string_view word,
                                      const std::vector<std::string>& candidates) {
  const std::string theirs = squeezed(word);
  for (const std::string& candidate : candidates)
    if (squeezed(candidate) == theirs) return candidate;
  for (const Term& term : kTerms)
    if (term.theirs == theirs && std::ranges::count(candidates, term.ours) > 0)
      return std::string(term.ours);
  return {};
}

}  // namespace

std::string squeezed(std::string_view word) {
  std::string text;
  for (const char c : word.substr(word.rfind('.') + 1))
    if (c != '_' && c != '-')
      text += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

std::vector<std::string> meant_by(std::string_view word,
                                  const std::vector<std::string>& candidates) {
  if (auto known = known_term(word, candidates)) return {*std::move(known)};
  return suggest(word, candidates);
}

}  // namespace flow::job
