// Sums over shards on the device, against the CPU's.
#include "runtime/cuda/loops/shard_sums.h"

#include <catch2/catch.hpp>

#include "runtime/base/element_types.h"
#include "runtime/cpu/backend/shard_sums.h"
#include "tests/property/kernel_case.h"
#include "tests/support/cuda/test_device.h"
#include "tests/support/job_builder.h"

namespace flow::test {
namespace {

using plan::Combine;
using Shards = std::vector<std::vector<Array>>;  // what each makes of each tensor

/// Tensors that shards make parts of.
plan::Job job_of(const std::vector<plan::Tensor>& tensors, int64_t shards) {
  JobBuilder b;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const plan::Tensor& tensor = tensors[i];
    b.combined(b.step("fill", std::to_string(i), {}, {}, tensor.shape, tensor.dtype),
               *tensor.combine);
  }
  b.end_shards(shards);
  return b.build();
}

std::vector<Array> sums_on_cpu(const plan::Job& job, Shards shards) {
  std::vector<plan::TensorId> owners;
  for (size_t i = 0; i < job.tensors.size(); ++i) owners.emplace_back(i);
  cpu::ShardSums sums(job, owners);
  std::vector<double> memory(sums.bytes() / sizeof(double));
  sums.use(reinterpret_cast<std::byte*>(memory.data()));
  for (size_t shard = 0; shard < shards.size(); ++shard)
    for (size_t i = 0; i < sums.entries().size(); ++i)
      sums.add(1, i, static_cast<int64_t>(shard), shards[shard][i].bytes().data());
  return shards.back();
}

std::vector<Array> sums_on_device(const plan::Job& job, Shards shards, LaneOrder lanes) {
  const auto device = open_test_device(lanes);
  cuda::Driver& driver = device->driver();
  const cuda::Stream stream = driver.create_stream();
  const auto count = std::ssize(shards);
  std::vector<cuda::ShardPart> parts;
  for (const plan::Tensor& tensor : job.tensors) {
    const bool scalar = tensor.shape.rank() == 0;
    const int64_t n = tensor.shape.elements();
    const size_t stride = cuda::level_bytes(tensor.dtype, scalar, n);
    parts.push_back({tensor.dtype, scalar, *tensor.combine, n,
                     driver.allocate(static_cast<size_t>(n) * size_of(tensor.dtype)),
                     driver.allocate(stride * shards.size()), stride});
  }
  for (int64_t shard = 0; shard < count; ++shard) {
    for (size_t i = 0; i < parts.size(); ++i) {
      const auto bytes = shards[static_cast<size_t>(shard)][i].bytes();
      driver.copy(parts[i].part, bytes.data(), bytes.size(), stream);
    }
    cuda::join_parts(parts, shard, count, {driver, stream, nullptr, nullptr});
  }
  for (size_t i = 0; i < parts.size(); ++i) {
    const auto bytes = shards.back()[i].bytes();
    driver.copy(bytes.data(), parts[i].part, bytes.size(), stream);
  }
  driver.synchronize(stream);
  for (const cuda::ShardPart& part : parts) {
    driver.release(part.part);
    driver.release(part.levels);
  }
  driver.destroy(stream);
  device->finish();
  return shards.back();
}

/// The totals of ranks, joined on the CPU and on the device.
void require_totals_alike(const plan::Tensor& tensor, const std::vector<Array>& totals) {
  const auto ranks = std::ssize(totals);
  const plan::Job job = job_of({tensor}, 2 * ranks);
  const std::vector<plan::TensorId> owners = {plan::TensorId(size_t{0})};
  Array expected(tensor.dtype, tensor.shape);
  std::vector<const std::byte*> addresses;
  for (const Array& total : totals) addresses.push_back(total.bytes().data());
  cpu::ShardSums(job, owners, ranks)
      .join_ranks(1, 0, 0, tensor.shape.elements(), addresses, expected.bytes().data());

  const auto device = open_test_device(LaneOrder::kForward);
  cuda::Driver& driver = device->driver();
  const cuda::Stream stream = driver.create_stream();
  const size_t stride = totals[0].bytes().size() + 256;
  const cuda::RankPart part{tensor.dtype,
                            tensor.shape.rank() == 0,
                            *tensor.combine,
                            tensor.shape.elements(),
                            driver.allocate(totals.size() * stride),
                            stride,
                            driver.allocate(expected.bytes().size())};
  for (size_t rank = 0; rank < totals.size(); ++rank)
    driver.copy(part.totals + rank * stride, totals[rank].bytes().data(),
                totals[rank].bytes().size(), stream);
  cuda::join_ranks({&part, 1}, static_cast<int>(ranks), 2 * ranks,
                   {driver, stream, nullptr, nullptr});
  Array got(tensor.dtype, tensor.shape);
  driver.copy(got.bytes().data(), part.whole, got.bytes().size(), stream);
  driver.synchronize(stream);
  driver.release(part.totals);
  driver.release(part.whole);
  driver.destroy(stream);
  device->finish();
  INFO(name_of(tensor.dtype) << tensor.shape.str() << " of " << ranks);
  CHECK(std::ranges::equal(got.bytes(), expected.bytes()));
}

Array random_part(Random& random, const plan::Tensor& tensor) {
  std::uniform_real_distribution<double> uniform(-200, 200);
  Array array(tensor.dtype, tensor.shape);
  visit_dtype(tensor.dtype, [&]<typename T>(T) {
    for (T& element : array.as<T>()) element = convert<T>(uniform(random));
  });
  return array;
}

void require_sums_alike(const std::vector<plan::Tensor>& tensors, const Shards& shards) {
  const plan::Job job = job_of(tensors, std::ssize(shards));
  const std::vector<Array> expected = sums_on_cpu(job, shards);
  for (const LaneOrder lanes : kLaneOrders) {
    const std::vector<Array> got = sums_on_device(job, shards, lanes);
    for (size_t i = 0; i < tensors.size(); ++i) {
      INFO(name_of(tensors[i].dtype) << tensors[i].shape.str() << " of " << shards.size());
      CHECK(std::ranges::equal(got[i].bytes(), expected[i].bytes()));
    }
  }
}

plan::Tensor tensor_of(DType dtype, Shape shape, Combine combine) {
  plan::Tensor tensor;
  tensor.dtype = dtype;
  tensor.shape = std::move(shape);
  tensor.combine = combine;
  return tensor;
}

}  // namespace

TEST_CASE("parts of shards are joined on the device to the CPU's bits", "[cuda]") {
  const size_t count = GENERATE(size_t{2}, size_t{4}, size_t{8}, size_t{32});
  std::vector<plan::Tensor> tensors;
  for (const DType dtype : all_dtypes())
    for (const Combine combine : {Combine::kSum, Combine::kMean, Combine::kMax, Combine::kMin})
      for (const Shape& shape : {Shape{}, Shape{3}, Shape{5, 1031}})
        if (combine != Combine::kMean || is_float(dtype))
          tensors.push_back(tensor_of(dtype, shape, combine));
  Random random(3);
  Shards shards(count);
  for (std::vector<Array>& parts : shards)
    for (const plan::Tensor& tensor : tensors) parts.push_back(random_part(random, tensor));
  require_sums_alike(tensors, shards);
}

TEST_CASE("NaN wins among the extremes of shards on the device", "[cuda]") {
  const std::vector<plan::Tensor> tensors = {tensor_of(DType::kFloat32, {2}, Combine::kMax),
                                             tensor_of(DType::kFloat32, {2}, Combine::kMin)};
  for (size_t with_nan = 0; with_nan < 4; ++with_nan) {
    Shards shards;
    for (size_t i = 0; i < 4; ++i) {
      const Array part =
          array_of<float>({2}, {static_cast<float>(i % 3), i == with_nan ? kNan : 1});
      shards.push_back({part, part});
    }
    require_sums_alike(tensors, shards);
  }
}

TEST_CASE("totals of ranks are joined on the device to the CPU's bits", "[cuda]") {
  struct Summed {
    DType dtype, total;
    Shape shape;
  };
  const Summed summed = GENERATE(
      Summed{DType::kFloat32, DType::kFloat32, {3, 1031}},
      Summed{DType::kFloat16, DType::kFloat32, {70}}, Summed{DType::kFloat32, DType::kFloat64, {}},
      Summed{DType::kFloat64, DType::kFloat64, {5}}, Summed{DType::kInt32, DType::kInt32, {9}});
  Random random(5);
  for (const size_t ranks : {1, 2, 4, 16})
    for (const Combine combine : {Combine::kSum, Combine::kMean, Combine::kMax, Combine::kMin}) {
      if (combine == Combine::kMean && !is_float(summed.dtype)) continue;
      std::vector<Array> totals;
      for (size_t rank = 0; rank < ranks; ++rank)
        totals.push_back(random_part(random, tensor_of(summed.total, summed.shape, combine)));
      require_totals_alike(tensor_of(summed.dtype, summed.shape, combine), totals);
    }
}

}  // namespace flow::test
