// The record of sample, which draws tokens from logits.
#include "ops/core/families.h"
#include "ops/sample/problem.h"

namespace flow::ops {
namespace {

/// Names a draw after the op if no layer has named it.
void normalize_sample(Call& /*call*/, Attributes& attributes) {
  if (!attributes.has("consumer")) attributes.set("consumer", std::string("sample"));
}

void check_attributes(Call& call) {
  const auto top_p = call.attribute<double>("top_p");
  if (!(top_p > 0 && top_p <= 1))
    call.bad_attribute("top_p", Reason::kBadAttribute,
                       fmt::format("`top_p` is {}; expected more than 0, at most 1", top_p));
  if (call.attribute<int64_t>("top_k") < 0)
    call.bad_attribute("top_k", Reason::kBadAttribute, "`top_k` is negative");
  if (call.operands() < 2 && call.attribute<double>("temperature") > 0)
    call.bad_call(Reason::kOperandCount, "missing operand `position`: the draws need it")
        .with_hint("pass the number of the token in its row, or write `temperature: 0`");
}

void infer_sample(Call& call) {
  const Operand& logits = call.operand(0);
  const int last = logits.shape.rank() - 1;
  if (last < 0) {
    call.bad_operand(0, Reason::kRankMismatch,
                     "the logits are a scalar; expected an axis of tokens");
    return;
  }
  if (logits.shape[last] > kMostTokens)
    call.bad_operand(
        0, Reason::kTensorTooLarge,
        fmt::format("{} tokens; at most {} are supported", logits.shape[last], kMostTokens));
  check_attributes(call);
  const Shape rows = logits.shape.first(last);
  if (call.operands() > 1 && call.shape(1).rank() > 0 && call.shape(1) != rows)
    call.bad_operand(1, Reason::kShapeMismatch,
                     fmt::format("`position` is {}; expected a scalar, or {}: one for each row",
                                 call.shape(1).str(), rows.str()));
  if (!call.failed()) call.result(DType::kInt32, rows, batch_beside(logits.batch_axis, last));
}

}  // namespace

std::vector<OpSpec> sample() {
  return {
      {.name = "sample",
       .doc = "Draws a token from logits by temperature, then top_k, then top_p; with temperature "
              "0, the largest logit. On ties, the first. The draw depends on the seed, the entry, "
              "the position and the row in the data. In a loop whose passes have one position, it "
              "depends on the pass, too.",
       .formula = "y[...] = i with probability softmax(x[...] / temperature)[i]",
       .operands = {{"in", "logits: (..., tokens)"},
                    optional_integers(
                        "position",
                        "number of the token in its row: integer, a scalar or one for each row")},
       .attributes = {number_attribute("temperature", "1",
                                       "divides the logits; 0 takes the largest", 0),
                      integer_attribute("top_k", "0",
                                        "keep this many of the largest logits; 0 keeps all", 0),
                      {.name = "top_p",
                       .type = AttributeType::kNumber,
                       .fallback = "1",
                       .doc = "keep the fewest likeliest tokens whose probabilities reach this sum",
                       .max = 1,
                       .kind = Kind::kMagnitude}},
       .plan_attributes = {{.name = "by_pass", .kind = Kind::kFlag, .optional = true},
                           {"consumer", Kind::kText}},
       .normalize = normalize_sample,
       .infer = infer_sample,
       .draws_by_position = true,
       .flops = {2, Flops::Each::kFirst},
       .domain = Domain::kWide,
       .examples = {"sample(f32[5,40], i32[])", "sample(f32[3,7], i64[3]) top_k=3",
                    "sample(f32[2,3,50], i32[2,3]) temperature=0.7 top_p=0.8",
                    "sample(f32[4,100], i32[]) temperature=2 top_k=20 top_p=0.5",
                    "sample(f32[30]) temperature=0", "sample(f32[6,9]) temperature=0 top_k=2"}}};
}

}  // namespace flow::ops
