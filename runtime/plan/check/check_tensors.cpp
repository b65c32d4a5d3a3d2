// Each tensor by itself, and all together.
#include <set>

#include "runtime/base/names.h"
#include "runtime/base/text.h"
#include "runtime/plan/check/check_job.h"
#include "runtime/plan/model/shards.h"

namespace flow::plan {
namespace {

void check_shape(const Tensor& tensor, const Location& location) {
  const Shape& shape = tensor.shape;
  location.require(shape.rank() <= kMaxRank, "{} dimensions; expected at most {}", shape.rank(),
                   kMaxRank);
  for (const int64_t extent : shape)
    location.require(extent >= 1, "extent {} in {}; expected at least 1", extent, shape.str());
  location.require(shape.checked_elements().has_value(), "{} has too many elements to count",
                   shape.str());
  location.require(tensor.batch_axis >= kBatchReduced && tensor.batch_axis < shape.rank(),
                   "invalid row axis {} for {}", tensor.batch_axis, shape.str());
}

void check_alias(const Job& job, const Tensor& tensor, const Location& location) {
  if (!tensor.alias.valid()) return;
  const Tensor& other = job[tensor.alias];
  location.require(tensor.role == Role::kResult, "only a result can reuse memory");
  location.require(tensor.dtype == other.dtype && tensor.shape.elements() == other.shape.elements(),
                   "{} {} cannot reuse the memory of `{}`, {} {}", name_of(tensor.dtype),
                   tensor.shape.str(), other.name, name_of(other.dtype), other.shape.str());
}

}  // namespace

void check_tensors(const Job& job, const Location& location) {
  std::set<std::string_view> names;
  uint64_t bytes = 0;
  for (const Tensor& tensor : job.tensors) {
    const Location here = location.at("tensor", tensor.name);
    here.require(is_safe_name(tensor.name), "invalid name");
    here.require(names.insert(tensor.name).second, "duplicate name");
    check_shape(tensor, here);
    const auto elements = static_cast<uint64_t>(tensor.shape.elements());
    const auto parts = static_cast<uint64_t>(tensor.batch_axis < 0 ? 1 : shards_of(job));
    here.require(elements <= kMostBytes / size_of(tensor.dtype) / parts, "shape {} is too large",
                 tensor.shape.str());
    bytes += elements * parts * size_of(tensor.dtype);
    here.require(bytes <= kMostBytes, "tensors take {} up to here; expected at most {}",
                 human_bytes(bytes), human_bytes(kMostBytes));
  }
  for (const Tensor& tensor : job.tensors)
    check_alias(job, tensor, location.at("tensor", tensor.name));
}

}  // namespace flow::plan
