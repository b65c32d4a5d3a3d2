// The records of random numbers in graphs: functions of (seed, entry, step, element), like the
// masks of dropout.
#include <cmath>

#include "ops/core/families.h"
#include "runtime/base/array.h"
#include "runtime/base/text.h"

namespace flow::ops {
namespace {

/// Names a draw "draw" if no entry of a job file has named it.
void name_draw(Call& /*call*/, Attributes& attributes) {
  if (!attributes.has("consumer")) attributes.set("consumer", std::string("draw"));
}

/// Removes an empty attribute `shape` from a draw that has the shape of its operand.
void normalize_draw(Call& call, Attributes& attributes) {
  name_draw(call, attributes);
  if (call.operands() == 0) return;
  const auto* shape = std::get_if<std::vector<int64_t>>(attributes.find("shape"));
  if (shape && shape->empty()) attributes.erase("shape");
}

/// Adds the result. It has rows of the batch only if the draw has the shape of an operand.
void infer_draw(Call& call) {
  const bool given = call.attributes().has("shape");
  if (call.operands() == 1 && given)
    call.bad_attribute("shape", Reason::kBadAttribute,
                       "found `like` and `shape`; expected one of them")
        .with_hint("remove `shape`");
  else if (call.operands() == 1)
    call.result(call.compute_dtype(), call.shape(0), call.operand(0).batch_axis);
  else if (!given)
    call.bad_call(Reason::kMissingAttribute,
                  "found neither `like` nor `shape`; expected one of them");
  else
    call.result(call.compute_dtype(), Shape(call.integers("shape")), kNoBatch);
}

/// Returns true if a parameter is a finite number of the result's dtype; otherwise reports it.
bool is_held(Call& call, std::string_view attribute) {
  const auto value = call.attribute<double>(attribute);
  if (std::isfinite(value) && can_hold(call.compute_dtype(), value)) return true;
  call.bad_attribute(
      attribute, Reason::kBadAttribute,
      fmt::format("cannot store {} as {}", shortest(value), name_of(call.compute_dtype())));
  return false;
}

void infer_random_normal(Call& call) {
  if (is_held(call, "mean") && is_held(call, "stddev")) infer_draw(call);
}

void infer_random_uniform(Call& call) {
  if (!is_held(call, "minimum") || !is_held(call, "maximum")) return;
  const auto least = call.attribute<double>("minimum"), most = call.attribute<double>("maximum");
  if (least > most || !std::isfinite(most - least))
    call.bad_attribute("maximum", Reason::kBadAttribute,
                       fmt::format("no range from {} to {}", shortest(least), shortest(most)));
  else
    infer_draw(call);
}

void infer_bernoulli(Call& call) {
  call.result(call.attribute<DType>("dtype"), call.shape(0), call.operand(0).batch_axis);
}

void infer_draw_indices(Call& call) {
  const Operand& weights = call.operand(0);
  const int last = weights.shape.rank() - 1;
  if (last < 0)
    return (void)call.bad_operand(0, Reason::kRankMismatch,
                                  "a scalar has no axis of weights; expected (..., C)");
  const Shape samples{call.attribute<int64_t>("samples")};
  call.result(DType::kInt64, replaced_axes(weights.shape, last, 1, samples),
              batch_beside(weights.batch_axis, last));
}

/// Returns an op that draws from a distribution with these parameters.
OpSpec draw_spec(std::string_view name, std::string_view doc, std::string_view formula,
                 std::vector<AttributeSpec> parameters, InferRule infer, std::string_view numpy,
                 std::vector<std::string_view> examples) {
  parameters.push_back(extents_attribute("shape", "[]", "shape of the result, without `like`"));
  return {.name = name,
          .doc = doc,
          .formula = formula,
          .operands = {{.name = "like",
                        .doc = "a tensor of the shape of the result; its rows are those of the "
                               "batch",
                        .accepts = Accepts::kAny,
                        .optional = true}},
          .attributes = std::move(parameters),
          .plan_attributes = {{"consumer", Kind::kText},
                              {.name = "shape", .kind = Kind::kShape, .optional = true}},
          .normalize = normalize_draw,
          .infer = infer,
          .numpy = numpy,
          .examples = std::move(examples)};
}

}  // namespace

std::vector<OpSpec> random_draws() {
  return {
      draw_spec("random_normal", "Random numbers of a normal distribution, new ones in each step.",
                "y = mean + stddev z, z of the standard normal distribution",
                {number_attribute("mean", "0", "mean of the numbers"),
                 number_attribute("stddev", "1", "standard deviation of the numbers", 0)},
                infer_random_normal, "mean + stddev * normals(entry, np.shape(like) or shape)",
                {"random_normal() shape=[5,7]", "random_normal() shape=[3] mean=2 stddev=0.5",
                 "random_normal(f32[30,41])", "random_normal(i32[2,3]) mean=-1 stddev=3"}),
      draw_spec("random_uniform",
                "Random numbers of a uniform distribution, new ones in each step.",
                "y = minimum + (maximum - minimum) u, u in [0, 1)",
                {number_attribute("minimum", "0", "least number"),
                 number_attribute("maximum", "1", "end of the numbers")},
                infer_random_uniform,
                "minimum + (maximum - minimum) * uniforms(entry, np.shape(like) or shape)",
                {"random_uniform() shape=[5,7]", "random_uniform() minimum=-2 maximum=3",
                 "random_uniform(f32[30,41])", "random_uniform(bool[6]) minimum=1 maximum=1.5"}),
      draw_spec("gumbel",
                "Random numbers of the standard Gumbel distribution, new ones in each step.",
                "y = -log(-log(u)), u in (0, 1)", {}, infer_draw,
                "-np.log(-np.log(uniforms(entry, np.shape(like) or shape)"
                " + 2.0**-25))",
                {"gumbel() shape=[5,7]", "gumbel(f32[30,41])"}),
      {.name = "bernoulli",
       .doc = "Ones with given probabilities, else zeros, new ones in each step. A number of 0 "
              "or less, or NaN, is never 1; one of 1 or more always is.",
       .formula = "y = u < p ? 1 : 0, u in [0, 1)",
       .operands = {{"in", "probabilities"}},
       .attributes = {{"dtype", AttributeType::kDType, "float32", "dtype of the result"}},
       .plan_attributes = {{"consumer", Kind::kText}},
       .normalize = name_draw,
       .infer = infer_bernoulli,
       .in_place = {0},
       .elementwise = true,
       .numpy = "(words(entry, x.shape) < x * 2.0**32).astype(dtype)",
       .examples = {"bernoulli(f32[30,41])", "bernoulli(f32[7]) dtype=bool",
                    "bernoulli(f32[2,3,5]) dtype=int64"}},
      {.name = "multinomial",
       .doc = "Indices drawn with replacement, new ones in each step. Weights below 0 and NaN "
              "count as 0; an index is -1 where no weight remains or their sum is infinite.",
       .formula = "y[..., j] = i with probability softmax(x)[..., i]",
       .operands = {{"in", "(..., C), logits or weights"}},
       .attributes = {count_attribute("samples", "indices of each row", "1"),
                      {"logits", AttributeType::kBool, "true",
                       "the operand holds logits; false: weights, of any sum"}},
       .domain = Domain::kPositive,
       .numpy = "indices(entry, x, samples, logits)",
       .examples = {"multinomial(f32[6,5]) samples=3", "multinomial(f32[3,2,130]) samples=2",
                    "multinomial(f32[4,7]) samples=9 logits=false"}},
      {.name = "draw_indices",
       .doc = "Indices drawn with replacement, in proportion to weights.",
       .formula = "y[..., j] = i with probability x[..., i] / sum of x[..., k] over k",
       .operands = {{"in", "(..., C), weights"}},
       .attributes = {count_attribute("samples", "indices of each row", "1")},
       .plan_attributes = {{"consumer", Kind::kText}},
       .normalize = name_draw,
       .infer = infer_draw_indices,
       .internal = true,
       .domain = Domain::kPositive,
       .examples = {"draw_indices(f32[6,5]) samples=3", "draw_indices(f32[2,3,200])",
                    "draw_indices(f32[700]) samples=40"}},
  };
}

}  // namespace flow::ops
