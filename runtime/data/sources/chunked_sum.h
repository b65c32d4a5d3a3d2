// Sums in float64 that depend only on the numbers and their order.
#pragma once

namespace flow::data {

/// Adds numbers in float64: chunks of 2048 from left to right, and then the sums of the chunks in
/// their order.
class ChunkedSum {
 public:
  void add(double number) {
    chunk_ += number;
    if (++count_ < kChunk) return;
    total_ += chunk_;
    chunk_ = 0;
    count_ = 0;
  }
  double total() const { return total_ + chunk_; }

 private:
  static constexpr int kChunk = 2048;
  double total_ = 0, chunk_ = 0;
  int count_ = 0;
};

}  // namespace flow::data
