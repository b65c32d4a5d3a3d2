// Threads that decode the rows of a batch.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace flow::data {

/// A fixed number of threads, one of which is the caller's.
class DecodePool {
 public:
  /// `threads` includes the caller. If the system creates fewer threads, the pool is smaller.
  /// REQUIRES: threads > 0.
  explicit DecodePool(int threads);
  ~DecodePool();
  DecodePool(const DecodePool&) = delete;
  DecodePool& operator=(const DecodePool&) = delete;

  int size() const { return static_cast<int>(threads_.size()) + 1; }
  /// Calls work(i, thread) for each i in [0, n), where `thread` is in [0, size()). Returns when all
  /// calls have returned. If calls throw, rethrows the exception of the smallest i, so that the
  /// error does not depend on timing. Called by one thread at a time. Allocates nothing.
  void for_each(int64_t n, const std::function<void(int64_t i, int thread)>& work);

 private:
  void serve(int thread);
  void run(int thread);

  std::mutex mutex_;
  std::condition_variable begun_, ended_;
  const std::function<void(int64_t, int)>* work_ = nullptr;
  int64_t n_ = 0, next_ = 0, failed_ = 0;
  std::exception_ptr error_;
  uint64_t round_ = 0;
  int busy_ = 0;
  bool stops_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace flow::data
