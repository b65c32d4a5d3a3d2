// The mean of all elements that one tensor has had, or a metric of them, for the run itself.
#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "runtime/io/accumulator.h"
#include "runtime/io/sink.h"

namespace flow::io {

class MeanSink : public Sink {
 public:
  explicit MeanSink(std::unique_ptr<Accumulator> sums) : sums_(std::move(sums)) {}

  void deliver(const Event& event) override { sums_->add(event.value); }
  bool absorbs(bool) const override { return true; }
  std::vector<uint64_t> held() const override {
    return sums_->is_empty() ? std::vector<uint64_t>() : sums_->held();
  }
  void resume(std::span<const uint64_t> held) override { sums_->resume(held); }

  /// The value since the last call, in float64; nothing where there was no element.
  std::optional<double> take() {
    if (sums_->is_empty()) return {};
    const double value = sums_->value();
    sums_->clear();
    return value;
  }

 private:
  std::unique_ptr<Accumulator> sums_;
};

}  // namespace flow::io
