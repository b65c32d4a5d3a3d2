// Values for the tests of sinks, and how they are handed over.
#pragma once

#include <algorithm>
#include <vector>

#include "runtime/io/sink.h"

namespace flow::io {

template <typename T>
Array array_of(Shape shape, const std::vector<T>& values) {
  Array array(DTypeOf<T>::value, std::move(shape));
  std::copy(values.begin(), values.end(), array.as<T>().begin());
  return array;
}

inline Array floats(const std::vector<float>& values) {
  return array_of<float>({static_cast<int64_t>(values.size())}, values);
}

inline SinkContext context_of(const Array& array, const fs::path& directory = {}) {
  SinkContext context;
  context.job = "train";
  context.name = context.label = "lenet/x";
  context.dtype = array.dtype();
  context.shape = array.shape();
  context.directory = directory;
  return context;
}

inline void deliver(Sink& sink, int64_t step, const Array& value, int64_t epoch = 0,
                    bool last_of_epoch = false) {
  sink.deliver({step, epoch, last_of_epoch, value.view()});
}

}  // namespace flow::io
