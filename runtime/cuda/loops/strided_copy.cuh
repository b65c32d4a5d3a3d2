// Elements copied between an array and a part of another, converted where they differ in type. Else
// bits alone matter: one kernel for each size of an element.
#pragma once

#include "runtime/base/element_types.h"
#include "runtime/cuda/loops/kernel.h"
#include "runtime/cuda/loops/loops.h"
#include "runtime/cuda/loops/threads.cuh"

namespace flow::cuda {

/// to[loops] = from[loops], n elements; the loops run over `from`, then over `to`.
template <typename From, typename To>
__global__ void copy_strided(Loops<2> loops, const From* from, To* to, int64_t n) {
  for (int64_t i = first_index(); i < n; i += index_step()) {
    const Offsets<2> at = loops.at(i);
    to[at.of[1]] = convert<To>(from[at.of[0]]);
  }
}

template <typename From, typename To>
void launch_copy(const LaunchState& state, const char* name, const Loops<2>& loops,
                 const From* from, To* to) {
  const int64_t n = loops.elements();
  launch(state.driver, state.stream, name, shape_for(n), copy_strided<From, To>, loops, from, to,
         n);
}

/// A part of an array as loops over the part, and where it begins in the whole.
struct ArrayPart {
  Loops<2> loops;
  int64_t begin;
};

}  // namespace flow::cuda
