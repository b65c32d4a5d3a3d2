// Threads take the next index under a lock. Each index is an image to decode, which takes long
// compared with taking the lock.
#include "runtime/data/dataset/decode_pool.h"

#include <system_error>
#include <utility>

namespace flow::data {

DecodePool::DecodePool(int threads) {
  for (int i = 1; i < threads; ++i) {
    try {
      threads_.emplace_back([this, i] { serve(i); });
    } catch (const std::system_error&) {
      return;
    }
  }
}

DecodePool::~DecodePool() {
  {
    const std::scoped_lock lock(mutex_);
    stops_ = true;
  }
  begun_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void DecodePool::serve(int thread) {
  uint64_t seen = 0;
  while (true) {
    {
      std::unique_lock lock(mutex_);
      begun_.wait(lock, [&] { return stops_ || round_ != seen; });
      if (stops_) return;
      seen = round_;
    }
    run(thread);
    const std::scoped_lock lock(mutex_);
    if (--busy_ == 0) ended_.notify_one();
  }
}

void DecodePool::run(int thread) {
  while (true) {
    int64_t i = 0;
    {
      const std::scoped_lock lock(mutex_);
      if (next_ == n_) return;
      i = next_++;
    }
    try {
      (*work_)(i, thread);
    } catch (...) {
      const std::scoped_lock lock(mutex_);
      if (!error_ || i < failed_) {
        error_ = std::current_exception();
        failed_ = i;
      }
      n_ = next_;  // all smaller indices have been taken; larger ones are not needed
    }
  }
}

void DecodePool::for_each(int64_t n, const std::function<void(int64_t, int)>& work) {
  {
    const std::scoped_lock lock(mutex_);
    work_ = &work;
    n_ = n;
    next_ = 0;
    busy_ = static_cast<int>(threads_.size());
    ++round_;
  }
  begun_.notify_all();
  run(0);
  std::unique_lock lock(mutex_);
  ended_.wait(lock, [&] { return busy_ == 0; });
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

}  // namespace flow::data
