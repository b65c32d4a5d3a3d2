// Each tensor by itself, and all together.
#include <set>

#include "runtime/base/text.h"
#include "runtime/plan/check_job.h"
#include "runtime/plan/names.h"

namespace flow::plan {
namespace {

void check_shape(const Tensor& tensor, const Site& site) {
  const Shape& shape = tensor.shape;
  site.require(shape.rank() <= kMaxRank, "{} dimensions, at most {} are possible", shape.rank(),
               kMaxRank);
  for (const int64_t extent : shape)
    site.require(extent >= 1, "the extent {} of {}", extent, shape.str());
  site.require(shape.checked_elements().has_value(), "{} has more elements than can be counted",
               shape.str());
  site.require(tensor.rows >= kMixedRows && tensor.rows < shape.rank(), "rows on axis {} of {}",
               tensor.rows, shape.str());
}

void check_alias(const Job& job, const Tensor& tensor, const Site& site) {
  if (!tensor.alias.valid()) return;
  const Tensor& other = job[tensor.alias];
  site.require(tensor.role == Role::kResult, "only results may take over memory");
  site.require(tensor.dtype == other.dtype && tensor.shape.elements() == other.shape.elements(),
               "{} {} cannot lie where `{}` does, {} {}", name_of(tensor.dtype), tensor.shape.str(),
               other.name, name_of(other.dtype), other.shape.str());
}

}  // namespace

void check_tensors(const Job& job, const Site& site) {
  std::set<std::string_view> names;
  uint64_t bytes = 0;
  for (const Tensor& tensor : job.tensors) {
    const Site here = site.at("tensor", tensor.name);
    here.require(is_safe_name(tensor.name), "this cannot be a name");
    here.require(names.insert(tensor.name).second, "there are two of this name");
    check_shape(tensor, here);
    const auto elements = static_cast<uint64_t>(tensor.shape.elements());
    here.require(elements <= kMostBytes / size_of(tensor.dtype), "{} is too large",
                 tensor.shape.str());
    bytes += elements * size_of(tensor.dtype);
    here.require(bytes <= kMostBytes, "with this one all tensors take {}, at most {} are possible",
                 human_bytes(bytes), human_bytes(kMostBytes));
  }
  for (const Tensor& tensor : job.tensors) check_alias(job, tensor, site.at("tensor", tensor.name));
}

}  // namespace flow::plan
