// The records of rotary position embedding and of its gradient, which rotates in the opposite
// direction. Frequencies can be scaled for contexts longer than those of the training.
#include "ops/rope/frequencies.h"

#include <cmath>
#include <numbers>
#include <string>

#include "ops/core/families.h"

namespace flow::ops {
namespace {

/// The scaling of Llama 3 (Grattafiori et al., 2024): short wavelengths are kept, long ones are
/// scaled, and those in between are interpolated.
double scaled_by_wavelength(double frequency, double scaled, double context,
                            const Attributes& attributes) {
  const auto low = attributes.get<double>("low_frequency_factor");
  const auto high = attributes.get<double>("high_frequency_factor");
  const double turns = context * frequency / (2 * std::numbers::pi);  // turns in the context
  if (turns < low) return scaled;
  if (turns > high) return frequency;
  const double kept = (turns - low) / (high - low);
  return (1 - kept) * scaled + kept * frequency;
}

constexpr double kLargest = 1e30;

/// Sets `dims` to all features if it is missing. `infer` rejects a tensor without features.
void normalize_rope(Call& call, Attributes& attributes) {
  const Shape& x = call.shape(0);
  if (x.rank() > 0 && !attributes.find("dims")) attributes.set("dims", x[x.rank() - 1]);
}

bool dims_fit(Call& call) {
  const Shape& x = call.shape(0);
  const auto dims = call.attribute<int64_t>("dims");
  const int64_t depth = x[x.rank() - 1];
  if (dims <= depth && dims % 2 == 0) return true;
  if (dims > depth)
    call.bad_attribute(
        "dims", Reason::kOutOfRange,
        fmt::format("`dims` is {}; expected at most the depth of {}: {}", dims, x.str(), depth));
  else
    call.bad_attribute("dims", Reason::kOutOfRange,
                       fmt::format("`dims` is {}; expected an even number, since features are "
                                   "rotated in pairs",
                                   dims));
  return false;
}

bool scaling_fits(Call& call) {
  if (!call.attributes().find("original_context")) return true;
  const auto low = call.attribute<double>("low_frequency_factor");
  const auto high = call.attribute<double>("high_frequency_factor");
  if (low < high) return true;
  call.bad_attribute("high_frequency_factor", Reason::kOutOfRange,
                     fmt::format("`high_frequency_factor` is {}; expected more than "
                                 "`low_frequency_factor`: {}",
                                 high, low));
  return false;
}

/// Returns true if the positions are (T), or (N, T) where N is the first axis of x; otherwise
/// reports an error.
bool positions_fit(Call& call) {
  if (call.operands() < 2) return true;
  const Shape &x = call.shape(0), &positions = call.shape(1);
  const int64_t length = x[x.rank() - 2];
  if (positions == Shape{length}) return true;
  if (x.rank() > 2 && positions == Shape{x[0], length}) return true;
  call.bad_operand(1, Reason::kShapeMismatch,
                   x.rank() > 2
                       ? fmt::format("`positions` is {}; expected {} or {} for {}", positions.str(),
                                     Shape{length}.str(), Shape{x[0], length}.str(), x.str())
                       : fmt::format("`positions` is {}; expected {} for {}", positions.str(),
                                     Shape{length}.str(), x.str()));
  return false;
}

/// Returns the batch axis of the result. Without the operand `positions`, a shard does not know its
/// first position, so the axis of positions cannot be divided among shards.
int batch_of_rotated(const Call& call) {
  const Operand& x = call.operand(0);
  const int length = x.shape.rank() - 2;
  const int batch_axis = batch_before(x.batch_axis, length + 1);
  if (call.operands() < 2)
    return call.job().shards > 1 ? batch_beside(batch_axis, length) : batch_axis;
  const Operand& positions = call.operand(1);
  const int last = positions.shape.rank() - 1;
  return common_batch(batch_axis, positions.batch_axis == last ? length : positions.batch_axis);
}

void infer_rope(Call& call) {
  const Operand& x = call.operand(0);
  if (x.shape.rank() < 2) {
    call.bad_operand(0, Reason::kRankMismatch,
                     fmt::format("{} has too few dimensions; expected (..., positions, features)",
                                 x.shape.str()));
    return;
  }
  if (!dims_fit(call) || !scaling_fits(call) || !positions_fit(call)) return;
  call.result(x.dtype, x.shape, batch_of_rotated(call));
}

AttributeSpec positive(std::string_view name, std::string_view fallback, std::string_view doc) {
  return number_attribute(name, fallback, doc, 1e-30, kLargest);
}

std::vector<AttributeSpec> rope_attributes() {
  return {choice_attribute(
              "layout", "halves",
              "which features are a pair: halves: i and i + dims / 2 (Llama); pairs: 2 i and "
              "2 i + 1 (GPT-J)",
              {"halves", "pairs"}),
          positive("theta", "10000", "base: pair i turns by theta^(-2 i / dims) a position"),
          count_attribute("dims", "number of features to rotate, from the first on; default: all",
                          "none"),
          positive("scaling_factor", "1", "divides the angles, for contexts that are longer"),
          count_attribute(
              "original_context",
              "scale as Llama 3 does: the context, in positions, that the model was trained "
              "with; default: divide all angles alike",
              "none"),
          positive("low_frequency_factor", "1",
                   "with original_context: scale pairs that turn less often in it"),
          positive("high_frequency_factor", "4",
                   "with original_context: keep pairs that turn more often in it")};
}

/// If job files omit `dims`, plans contain the number of all features.
PlanAttribute dims_in_plans() { return {"dims", Kind::kCount}; }

OperandSpec positions_operand() {
  return optional_integers("positions",
                           "(T) or (N, T), where N is the first dimension; default: 0 to T - 1");
}

}  // namespace

std::vector<double> rope_frequencies(const Attributes& attributes) {
  const auto dims = attributes.get<int64_t>("dims");
  const auto theta = attributes.get<double>("theta");
  const auto factor = attributes.get<double>("scaling_factor");
  const Attribute* context = attributes.find("original_context");
  std::vector<double> frequencies;
  for (int64_t i = 0; i < dims; i += 2) {
    const double frequency = std::pow(theta, -static_cast<double>(i) / static_cast<double>(dims));
    const double scaled = frequency / factor;
    frequencies.push_back(
        context ? scaled_by_wavelength(frequency, scaled,
                                       static_cast<double>(std::get<int64_t>(*context)), attributes)
                : scaled);
  }
  return frequencies;
}

bool rope_splits_halves(const Attributes& attributes) {
  return attributes.get<std::string>("layout") == "halves";
}

std::vector<OpSpec> rope() {
  return {
      {.name = "rope",
       .doc = "Rotary position embedding (Su et al., 2021): turns pairs of features by angles "
              "that grow with the position.",
       .formula = "(a, b) -> (a cos t - b sin t, b cos t + a sin t), t = position "
                  "theta^(-2 i / dims)",
       .operands = {{"in", "(..., T, D)"}, positions_operand()},
       .attributes = rope_attributes(),
       .plan_attributes = {dims_in_plans()},
       .normalize = normalize_rope,
       .infer = infer_rope,
       .in_place = {0},
       .linear = {0},
       .flops = {3},
       .examples = {"rope(f32[5,4])", "rope(f32[2,3,5,8]) layout=pairs theta=100",
                    "rope(f32[3,4,6], i32[4]) dims=4",
                    "rope(f32[2,3,4,6], i64[2,4]) layout=pairs dims=2",
                    "rope(f32[40,16]) theta=500 scaling_factor=8 original_context=16",
                    "rope(f32[2,3,4], u8[2,3]) scaling_factor=2"}},
      {.name = "rope_grad",
       .doc = "Gradient of rope: turns the other way.",
       .formula = "(a, b) -> (a cos t + b sin t, b cos t - a sin t)",
       .operands = {{"dy", "(..., T, D)"}, positions_operand()},
       .attributes = rope_attributes(),
       .plan_attributes = {dims_in_plans()},
       .normalize = normalize_rope,
       .infer = infer_rope,
       .in_place = {0},
       .linear = {0},
       .flops = {3},
       .internal = true},
  };
}

}  // namespace flow::ops
