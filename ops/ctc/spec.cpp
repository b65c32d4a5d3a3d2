// Connectionist temporal classification: labels along frames without an alignment.
#include <fmt/format.h>

#include "ops/core/axes.h"
#include "ops/core/families.h"

namespace flow::ops {
namespace {

int64_t classes_of_ctc(std::span<const Shape> operands, const Attributes&) {
  return operands[1][2];
}
int64_t most_labels(std::span<const Shape> operands, const Attributes&) {
  return operands[0][1] + 1;
}
int64_t most_frames(std::span<const Shape> operands, const Attributes&) {
  return operands[1][1] + 1;
}

bool is_of_rank(Call& call, size_t i, int rank, std::string_view what) {
  if (call.shape(i).rank() == rank) return true;
  call.bad_operand(
      i, Reason::kRankMismatch,
      fmt::format("{} of rank {}; expected {}", call.shape(i).str(), call.shape(i).rank(), what));
  return false;
}

/// Of operands from `first` on, one number for each sample.
void check_lengths(Call& call, size_t first) {
  const Shape expected{call.shape(1)[0]};
  for (size_t i = first; i < call.operands(); ++i)
    if (call.shape(i) != expected)
      call.bad_operand(i, Reason::kShapeMismatch,
                       fmt::format("{} for log-probabilities {}; expected {}", call.shape(i).str(),
                                   call.shape(1).str(), expected.str()));
}

bool ctc_operands_fit(Call& call) {
  if (!is_of_rank(call, 1, 3, "(N, T, C)") || !is_of_rank(call, 0, 2, "(N, S)")) return false;
  const Shape &labels = call.shape(0), &log_probs = call.shape(1);
  if (labels[0] != log_probs[0])
    call.bad_operand(
        0, Reason::kShapeMismatch,
        fmt::format("labels of {} samples for log-probabilities of {}", labels[0], log_probs[0]));
  check_lengths(call, 2);
  if (const auto blank = call.attribute<int64_t>("blank"); blank < 0 || blank >= log_probs[2])
    call.bad_attribute(
        "blank", Reason::kOutOfRange,
        fmt::format("`blank` is {}; expected a class from 0 to {}", blank, log_probs[2] - 1));
  // What kernels keep of each sample: a number for each frame and state, and some more.
  if (!Shape{labels[0], log_probs[1] + 3, 2 * labels[1] + 1}.checked_elements())
    call.bad_operand(0, Reason::kTensorTooLarge,
                     fmt::format("labels {} are too large for {} frames; the product of both "
                                 "extents is limited",
                                 labels.str(), log_probs[1]));
  return !call.failed();
}

/// Each sample is computed from its own row of all operands.
int batch_of_samples(const Call& call) {
  int batch = kNoBatch;
  for (size_t i = 0; i < call.operands(); ++i)
    batch = common_batch(batch, batch_along(call.operand(i).batch_axis, 0));
  return batch;
}

void infer_ctc(Call& call) {
  if (!ctc_operands_fit(call)) return;
  call.result(call.dtype(1), Shape{call.shape(1)[0]}, batch_of_samples(call));
}

void infer_ctc_grad(Call& call) {
  if (!ctc_operands_fit(call)) return;
  call.result(call.dtype(1), call.shape(1), batch_of_samples(call));
}

std::vector<OperandSpec> ctc_operands() {
  return {{.name = "labels",
           .doc = "(N, S), each in [0, C), padding too",
           .accepts = Accepts::kInteger,
           .limit = classes_of_ctc},
          {"log_probs", "(N, T, C)"},
          {.name = "label_lengths",
           .doc = "(N), each in [0, S]",
           .accepts = Accepts::kInteger,
           .limit = most_labels},
          {.name = "input_lengths",
           .doc = "(N), each in [0, T]",
           .accepts = Accepts::kInteger,
           .limit = most_frames}};
}

AttributeSpec blank_attribute() {
  return {"blank", AttributeType::kInteger, "0", "class of no label"};
}

}  // namespace

std::span<const OpSpec> ctc() {
  static const std::vector<OpSpec> kOps = [] {
    std::vector<OperandSpec> with_gradient = ctc_operands();
    with_gradient.push_back({"dy", "(N)"});
    return std::vector<OpSpec>{
        {
            .name = "ctc",
            .doc = "Connectionist temporal classification (Graves et al., 2006); one loss per "
                   "sample.",
            .formula = "loss = -log(sum of the probabilities of all paths of the frames that give "
                       "the labels when repeated classes are merged and blanks removed)",
            .operands = ctc_operands(),
            .attributes = {blank_attribute(),
                           {"zero_infinity", AttributeType::kBool, "false",
                            "0 instead of infinity where no path gives the labels"}},
            .plan_attributes = {{"blank", Kind::kOffset}, {"zero_infinity", Kind::kFlag}},
            .infer = infer_ctc,
            .flops = {20, Flops::Each::kSecond},
            .examples = {"ctc(i32[2,3], f32[2,8,11], u8[2], u8[2])"},
        },
        {
            .name = "ctc_grad",
            .doc = "Gradient of ctc; 0 for samples whose loss is infinite.",
            .formula = "dlog_probs[t, c] = -dy p(c at t | labels)",
            .operands = std::move(with_gradient),
            .attributes = {blank_attribute()},
            .plan_attributes = {{"blank", Kind::kOffset}},
            .infer = infer_ctc_grad,
            .linear = {4},
            .flops = {40},
            .internal = true,
        }};
  }();
  return kOps;
}

}  // namespace flow::ops
