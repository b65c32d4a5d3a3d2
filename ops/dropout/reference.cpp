// Reference kernels of dropout, which compute one Philox block per element.
#include "runtime/base/index_maps.h"
#include "runtime/base/philox.h"
#include "runtime/cpu/backend/families.h"
#include "runtime/cpu/loops/operands.h"

namespace flow::cpu::reference {
namespace {

Kernel prepare_dropout(const Request& request) {
  const plan::Attributes& attributes = request.step.attributes;
  const double rate = attributes.get<double>("rate");
  const PhiloxKey key = philox_key(request.seed, attributes.get<std::string>("consumer"));
  const TensorDesc& out = request.outputs[0];
  const WholeIndex place = whole_index(out.shape, out.batch_axis, request.shards);
  Kernel kernel;
  visit_float(request.inputs[0].dtype, [&]<typename T>(T) {
    kernel.launch = [rate, key, place, n = out.shape.elements()](const Buffers& buffers,
                                                                 const CallState& state) {
      const T* x = input<T>(buffers, 0);
      T* y = output<T>(buffers, 0);
      bool* mask = output<bool>(buffers, 1);
      for (int64_t i = 0; i < n; ++i) {
        const auto word = static_cast<uint64_t>(place.at(i, state.shard));
        const PhiloxBlock block = philox_block(key, static_cast<uint32_t>(state.step), word / 4,
                                               static_cast<uint32_t>(state.pass));
        const bool keep = block[word % 4] >= dropout_threshold(rate);
        y[i] = keep ? static_cast<T>(static_cast<double>(x[i]) * (1.0 / (1.0 - rate))) : T{0};
        if (mask) mask[i] = keep;
      }
    };
  });
  return kernel;
}

Kernel prepare_dropout_grad(const Request& request) {
  const double rate = request.step.attributes.get<double>("rate");
  Kernel kernel;
  visit_float(request.inputs[0].dtype, [&]<typename T>(T) {
    kernel.launch = [rate, n = request.outputs[0].shape.elements()](const Buffers& buffers,
                                                                    const CallState&) {
      const T* dy = input<T>(buffers, 0);
      const bool* mask = input<bool>(buffers, 1);
      T* dx = output<T>(buffers, 0);
      for (int64_t i = 0; i < n; ++i)
        dx[i] = mask[i] ? static_cast<T>(static_cast<double>(dy[i]) * (1.0 / (1.0 - rate))) : T{0};
    };
  });
  return kernel;
}

}  // namespace

std::span<const KernelEntry> dropout() {
  static constexpr KernelEntry kKernels[] = {
      {"dropout", prepare_dropout},
      {"dropout_grad", prepare_dropout_grad},
  };
  return kKernels;
}

}  // namespace flow::cpu::reference
