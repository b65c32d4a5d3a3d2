// The mean of all elements that one tensor has had, for the run itself.
#pragma once

#include <optional>

#include "runtime/io/reduction.h"
#include "runtime/io/sink.h"

namespace flow::io {

class MeanSink : public Sink {
 public:
  explicit MeanSink(DType dtype) : mean_(plan::Reduce::kMean, dtype) {}

  void deliver(const Event& event) override { mean_.add(event.value); }
  bool absorbs(bool) const override { return true; }
  std::vector<uint64_t> held() const override {
    return mean_.is_empty() ? std::vector<uint64_t>() : mean_.held();
  }
  void resume(std::span<const uint64_t> held) override { mean_.resume(held); }

  /// The mean since the last call, in float64; nothing where there was no element.
  std::optional<double> take() {
    if (mean_.is_empty()) return {};
    const double mean = mean_.value();
    mean_.clear();
    return mean;
  }

 private:
  Reduction mean_;
};

}  // namespace flow::io
