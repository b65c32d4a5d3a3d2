// A library that loses NaN: its relu makes 0 of it, or the mask that it stores does.
#pragma once

#include <algorithm>
#include <cmath>

#include "runtime/base/array.h"
#include "tests/support/cuda/naive_libraries.h"

namespace flow::test {

class DeafLibraries : public cuda::NaiveLibraries {
 public:
  explicit DeafLibraries(cuda::Driver& driver) : NaiveLibraries(driver), driver_(driver) {}
  using NaiveLibraries::find;
  Expected<cuda::LibraryKernel> find(const cuda::MatmulSpec& spec) override {
    cuda::LibraryKernel kernel = NaiveLibraries::find(spec).value();
    if (!spec.epilogue.relu) return kernel;
    kernel.try_run = [this, spec, kernel](const cuda::LibraryBuffers& b,
                                          cuda::Stream stream) -> std::optional<RunError> {
      kernel.run(b, stream);
      Array made(DType::kFloat32, spec.out);
      driver_.copy(made.bytes().data(), b.out, made.bytes().size(), stream);
      driver_.synchronize(stream);
      if (std::ranges::none_of(made.as<float>(), [](float value) { return std::isnan(value); }))
        return {};
      if (b.aside)
        driver_.clear(b.aside, static_cast<size_t>(cuda::mask_shape(spec.out).elements()), stream);
      else
        driver_.clear(b.out, made.bytes().size(), stream);
      return {};
    };
    return kernel;
  }

 private:
  cuda::Driver& driver_;
};

}  // namespace flow::test
