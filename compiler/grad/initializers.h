// Initializers that ask for fans, turned into those that the runtime knows.
#pragma once

#include <string_view>

#include "runtime/base/shape.h"
#include "runtime/plan/model/plan.h"

namespace flow {

/// How many inputs an element of a kernel's result has, and how many results an input has.
struct Fans {
  double in = 1, out = 1;
};

/// Of a weight [out, in / groups, kernel...]. Of less than two dimensions: the elements, both.
Fans fans_of(const Shape& weight);

/// What an op's table says: "zeros", or a normal with its deviation, "random_normal(0.02)".
plan::Initializer default_initializer(std::string_view text);

/// glorot_uniform (xavier_uniform), glorot_normal (xavier_normal), variance_scaling and kaiming
/// become random_uniform, random_normal or truncated_normal with plain numbers; others are returned
/// as they are. The words that they take (fan_out, random_uniform, linear) are keys of `values`.
plan::Initializer resolve_initializer(const plan::Initializer& asked, Fans fans);

}  // namespace flow
