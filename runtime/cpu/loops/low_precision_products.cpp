// Products of bfloat16 matrices by oneDNN's own matrix multiplication.
#include "runtime/cpu/loops/low_precision_products.h"

#include <algorithm>
#include <string_view>

#include "runtime/base/error.h"
#include "runtime/cpu/loops/onednn_status.h"

namespace flow::cpu {

using dnnl::memory;

LowPrecisionProducts::LowPrecisionProducts(int workers, bool transpose_a, bool transpose_b,
                                           Strides strides)
    : workers_(workers),
      transpose_a_(transpose_a),
      transpose_b_(transpose_b),
      strides_(strides),
      engine_(dnnl::engine::kind::cpu, 0),
      stream_(engine_) {}

namespace {

memory::desc matrix(int64_t rows, int64_t columns, memory::data_type type, int64_t stride,
                    bool transposed) {
  return {{rows, columns}, type, transposed ? memory::dims{1, stride} : memory::dims{stride, 1}};
}

/// Returns the implementation based on the library's matrix multiplication, or an empty primitive
/// if there is none. Other implementations ask the CPU for the size of its tiles, and crash on
/// virtual machines that have tiles but do not report it. The C++ interface is not used because its
/// iterator ends after the first implementation.
dnnl::primitive make_product(const dnnl::matmul::desc& description,
                             const dnnl::primitive_attr& attributes, const dnnl::engine& engine) {
  dnnl_primitive_desc_iterator_t all = nullptr;
  dnnl_status_t status = dnnl_primitive_desc_iterator_create(
      &all, &description.data, attributes.get(), engine.get(), nullptr);
  dnnl_primitive_t made = nullptr;
  while (status == dnnl_success && !made) {
    const dnnl_primitive_desc_t one = dnnl_primitive_desc_iterator_fetch(all);
    const char* name = "";
    dnnl_primitive_desc_query(one, dnnl_query_impl_info_str, 0, &name);
    if (std::string_view(name).starts_with("gemm")) dnnl_primitive_create(&made, one);
    dnnl_primitive_desc_destroy(one);
    status = dnnl_primitive_desc_iterator_next(all);
  }
  dnnl_primitive_desc_iterator_destroy(all);
  return made ? dnnl::primitive(made) : dnnl::primitive();
}

}  // namespace

bool LowPrecisionProducts::add(int64_t m, int64_t n, int64_t k, bool accumulate) {
  const Size size{m, n, k, accumulate};
  if (std::ranges::find(products_, size, &Product::size) != products_.end()) return true;
  constexpr auto kLowPrecision = memory::data_type::bf16, kWide = memory::data_type::f32;
  const memory::desc a = matrix(m, k, kLowPrecision, strides_.a, transpose_a_),
                     b = matrix(k, n, kLowPrecision, strides_.b, transpose_b_),
                     out = matrix(m, n, kWide, strides_.out, false);
  try {
    dnnl::primitive_attr attributes;
    dnnl::post_ops epilogue;
    if (accumulate) epilogue.append_sum(1.0f);
    attributes.set_post_ops(epilogue);
    Product product{size, make_product({a, b, out}, attributes, engine_), {}};
    if (!product.primitive) return false;
    for (int worker = 0; worker < workers_; ++worker) {
      Arguments arguments{{a, engine_, DNNL_MEMORY_NONE},
                          {b, engine_, DNNL_MEMORY_NONE},
                          {out, engine_, DNNL_MEMORY_NONE},
                          {}};
      arguments.list = {{DNNL_ARG_SRC, arguments.a.get()},
                        {DNNL_ARG_WEIGHTS, arguments.b.get()},
                        {DNNL_ARG_DST, arguments.out.get()}};
      product.of_worker.push_back(std::move(arguments));
    }
    products_.push_back(std::move(product));
  } catch (const dnnl::error&) {
    return false;
  }
  return true;
}

void LowPrecisionProducts::run(int worker, int64_t m, int64_t n, int64_t k, const uint16_t* a,
                               const uint16_t* b, float* out, bool accumulate) {
  const auto product = std::ranges::find(products_, Size{m, n, k, accumulate}, &Product::size);
  FLOW_CHECK(product != products_.end(), "{} {} {}", m, n, k);
  Arguments& arguments = product->of_worker[static_cast<size_t>(worker)];
  arguments.a.set_data_handle(const_cast<uint16_t*>(a));
  arguments.b.set_data_handle(const_cast<uint16_t*>(b));
  arguments.out.set_data_handle(out);
  must_succeed([&] {
    return dnnl_primitive_execute(product->primitive.get(), stream_.get(),
                                  static_cast<int>(arguments.list.size()), arguments.list.data());
  });
}

}  // namespace flow::cpu
