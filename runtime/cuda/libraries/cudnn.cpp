// Convolutions and attention by cuDNN's graph API, through NVIDIA's C++ front end.
#include "runtime/cuda/libraries/cudnn.h"

#include <cudnn_frontend.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <map>
#include <string_view>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/cuda/libraries/cudnn_attention.h"

namespace flow::cuda {
namespace {

namespace frontend = cudnn_frontend;
namespace graph = cudnn_frontend::graph;
using Pass = ConvolutionSpec::Pass;
using TensorRef = std::shared_ptr<graph::Tensor_attributes>;

/// The format of cached plans. It changes whenever this file passes other names, notes or workspace
/// limits to cuDNN.
constexpr int kFormat = 5;

constexpr size_t kUnlimited = std::numeric_limits<size_t>::max();

/// The ids of a graph's tensors, which correspond to the members of LibraryBuffers.
enum Uid : int64_t { kFirst = 1, kSecond, kBias, kOut };

frontend::DataType_t data_type(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return frontend::DataType_t::FLOAT;
    case DType::kFloat64:
      return frontend::DataType_t::DOUBLE;
    case DType::kFloat16:
      return frontend::DataType_t::HALF;
    case DType::kBFloat16:
      return frontend::DataType_t::BFLOAT16;
    default:
      FLOW_CHECK(false, "cuDNN computes with no {}", name_of(dtype));
  }
}

/// Returns the strides of the four axes of a tensor in the spec's layout.
std::vector<int64_t> strides_of(const ConvolutionSpec& spec, const Shape& shape) {
  const int64_t pixels = shape[2] * shape[3], image = shape[1] * pixels;
  if (spec.channels_last) return {image, 1, shape[3] * shape[1], shape[1]};
  return {image, pixels, shape[3], 1};
}

TensorRef add_tensor(graph::Graph& graph, const ConvolutionSpec& spec, Uid uid,
                     const Shape& shape) {
  return graph.tensor(graph::Tensor_attributes()
                          .set_uid(uid)
                          .set_dim(shape.extents())
                          .set_stride(strides_of(spec, shape)));
}

/// Returns the attributes that all three passes share.
template <typename Attributes>
Attributes geometry(const ConvolutionSpec& spec) {
  return Attributes()
      .set_pre_padding({spec.pads[0], spec.pads[1]})
      .set_post_padding({spec.pads[2], spec.pads[3]})
      .set_stride(spec.strides)
      .set_dilation(spec.dilation);
}

/// y = relu(conv(x, w) + bias), where the epilogue determines whether there is a bias and a relu.
/// Intermediate values stay in registers.
TensorRef add_forward(graph::Graph& graph, const ConvolutionSpec& spec) {
  const auto pointwise = [](frontend::PointwiseMode_t mode) {
    return graph::Pointwise_attributes().set_mode(mode);
  };
  const auto intermediate = [&](const TensorRef& tensor) {
    tensor->set_dim(spec.y.extents()).set_stride(strides_of(spec, spec.y));
  };
  TensorRef y = graph.conv_fprop(add_tensor(graph, spec, kFirst, spec.x),
                                 add_tensor(graph, spec, kSecond, spec.w),
                                 geometry<graph::Conv_fprop_attributes>(spec));
  if (spec.epilogue.bias) {
    intermediate(y);
    y = graph.pointwise(y, add_tensor(graph, spec, kBias, {1, spec.w[0], 1, 1}),
                        pointwise(frontend::PointwiseMode_t::ADD));
  }
  if (spec.epilogue.relu) {  // it keeps NaN, because the front end requests CUDNN_PROPAGATE_NAN
    intermediate(y);
    y = graph.pointwise(y, pointwise(frontend::PointwiseMode_t::RELU_FWD));
  }
  return y;
}

void add_operations(graph::Graph& graph, const ConvolutionSpec& spec) {
  const bool weight = spec.pass == Pass::kGradWeight;
  const Shape& out = spec.pass == Pass::kForward ? spec.y : weight ? spec.w : spec.x;
  TensorRef result;
  if (spec.pass == Pass::kForward)
    result = add_forward(graph, spec);
  else if (spec.pass == Pass::kGradData)
    result = graph.conv_dgrad(add_tensor(graph, spec, kFirst, spec.y),
                              add_tensor(graph, spec, kSecond, spec.w),
                              geometry<graph::Conv_dgrad_attributes>(spec));
  else  // cuDNN expects dy before x
    result = graph.conv_wgrad(add_tensor(graph, spec, kSecond, spec.y),
                              add_tensor(graph, spec, kFirst, spec.x),
                              geometry<graph::Conv_wgrad_attributes>(spec));
  result->set_output(true)
      .set_uid(kOut)
      .set_dim(out.extents())
      .set_stride(strides_of(spec, out))
      .set_data_type(data_type(spec.dtype));
}

void add_operations(graph::Graph& graph, const AttentionSpec& spec) {
  AttentionGraph(spec).add_to(graph);
}

/// Keeps only the engines that comply with the spec's precision, its summation order and its
/// workspace limit.
template <typename Spec>
void deselect_engines(graph::Graph& graph, const Spec& spec) {
  using Note = frontend::NumericalNote_t;
  std::vector<Note> unwanted = {Note::REDUCED_PRECISION_REDUCTION};
  if (!spec.math_mode.any_order) unwanted.push_back(Note::NONDETERMINISTIC);
  // Transforms lose digits of float32.
  if (spec.dtype == DType::kFloat32 && !spec.math_mode.tf32)
    for (const Note note :
         {Note::TENSOR_CORE, Note::DOWN_CONVERT_INPUTS, Note::FFT, Note::WINOGRAD,
          Note::WINOGRAD_TILE_4x4, Note::WINOGRAD_TILE_6x6, Note::WINOGRAD_TILE_13x13})
      unwanted.push_back(note);
  graph.deselect_numeric_notes(unwanted);
  constexpr size_t kMost = std::numeric_limits<int64_t>::max();
  graph.deselect_workspace_greater_than(static_cast<int64_t>(std::min(spec.most_workspace, kMost)));
}

/// Returns the chosen engine and its knobs in cuDNN's notation, such as "eng62_k2=1, tensor cores".
/// REQUIRES: The graph already has its plan, because this function prevents it from choosing
/// another one.
std::string name_engine(graph::Graph& graph) {
  std::string chosen, name;
  if (graph.get_plan_name(chosen).is_bad()) return "an engine without a name";
  graph.deselect_numeric_notes({frontend::NumericalNote_t::TENSOR_CORE});
  for (int64_t i = 0; i < graph.get_execution_plan_count(); ++i)
    if (graph.get_plan_name_at_index(i, name).is_good() && name == chosen)
      return graph.build_plan_at_index(i).is_bad() ? chosen + ", tensor cores" : chosen;
  return chosen;
}

void check(frontend::error_t status, std::string_view what) {
  if (status.is_bad())
    throw RunError(fmt::format("cuDNN: {} failed: {}", what, status.get_message()));
}

std::string text_of(const ConvolutionSpec& spec) {
  constexpr std::string_view kNames[] = {"convolution", "data gradient of a convolution",
                                         "weight gradient of a convolution"};
  return fmt::format("{} of {} with {} to {}, {}", kNames[static_cast<size_t>(spec.pass)],
                     spec.x.str(), spec.w.str(), spec.y.str(), name_of(spec.dtype));
}

std::string details_of(const ConvolutionSpec& spec) {
  return fmt::format(
      "strides {}, dilation {}, pads {}, groups {}, channels last {}, bias {}, relu {}",
      spec.strides, spec.dilation, spec.pads, spec.groups, spec.channels_last, spec.epilogue.bias,
      spec.epilogue.relu);
}

std::string details_of(const AttentionSpec& spec) {
  return fmt::format("scale {}, logarithms of sums {}", spec.scale, spec.log_sums);
}

/// Describes everything that a plan depends on except the device.
template <typename Spec>
std::string description_of(const Spec& spec) {
  return fmt::format("{}, {}, tf32 {}, any order {}{}; format {}, cuDNN {}, front end {}",
                     text_of(spec), details_of(spec), spec.math_mode.tf32, spec.math_mode.any_order,
                     spec.most_workspace == kUnlimited
                         ? ""
                         : fmt::format(", at most {} bytes of workspace", spec.most_workspace),
                     kFormat, Cudnn::version(), CUDNN_FRONTEND_VERSION);
}

/// Writes cuDNN's JSON of an available device to `text`.
frontend::error_t serialize_device(int device, std::vector<uint8_t>& text) {
  frontend::DeviceProperties properties;
  properties.set_device_id(device);
  const frontend::error_t status = properties.build();
  return status.is_good() ? properties.serialize(text) : status;
}

/// Returns the compute capability that cuDNN's JSON of a device states, such as 90 for 9.0.
int32_t sm_version_of(const std::string& device) {
  const json properties = json::parse(device, nullptr, false);
  return properties.is_object() ? properties.value("deviceVer", 0) / 10 : 0;
}

/// Compiling an engine at run time takes a second, so convolutions use compiled engines last.
/// Attention has hardly any other engines.
constexpr bool prefers_compiled_engines(const ConvolutionSpec&) { return false; }
constexpr bool prefers_compiled_engines(const AttentionSpec&) { return true; }

RunError no_engine(const ConvolutionSpec& spec, const std::string& refusal) {
  return RunError(fmt::format("cuDNN {} has no engine for the {}: {}", Cudnn::version(),
                              text_of(spec), refusal),
                  spec.dtype == DType::kFloat32 && !spec.math_mode.tf32
                      ? "try `precision: tf32`, which allows more engines"
                      : "");
}

/// This message is shorter, because it appears next to the name of the kernel that is used instead.
RunError no_engine(const AttentionSpec&, const std::string& refusal) {
  return RunError(fmt::format("cuDNN {}: {}", Cudnn::version(), refusal));
}

void destroy_handle(cudnnHandle_t handle) { cudnnDestroy(handle); }

void set_stream(cudnnHandle_t handle, Stream stream) {
  if (cudnnSetStream(handle, static_cast<cudaStream_t>(stream.handle)) != CUDNN_STATUS_SUCCESS)
    throw RunError("cuDNN: choosing a stream failed");
}

}  // namespace

class Cudnn::Planner {
 public:
  struct Plan {
    std::shared_ptr<graph::Graph> graph;  // already built
    std::string engine;

    size_t workspace() const { return static_cast<size_t>(graph->get_workspace_size()); }
  };

  Planner(int device, PlanCache cache) {
    // Plans are cached under the device's description. Without one, they are chosen again in every
    // run.
    if (std::vector<uint8_t> text; serialize_device(device, text).is_good()) {
      device_.assign(text.begin(), text.end());
      cache_ = std::move(cache);
    }
    cudnnHandle_t handle = nullptr;
    const cudnnStatus_t status = cudnnCreate(&handle);
    if (status != CUDNN_STATUS_SUCCESS)
      throw RunError(fmt::format("cuDNN {} failed to initialize: {}", Cudnn::version(),
                                 cudnnGetErrorString(status)),
                     "check that its libraries are complete and match the driver");
    handle_.reset(handle);
  }

  Planner(std::string description, PlanCache cache)
      : cache_(std::move(cache)),
        device_(std::move(description)),
        absent_device_(std::make_shared<frontend::DeviceProperties>()) {
    check(absent_device_->deserialize({device_.begin(), device_.end()}),
          "reading a device's description");
  }

  cudnnHandle_t handle() const { return handle_.get(); }

  template <typename Found, typename Spec>
  Expected<Found> find(const Spec& spec) const {
    const Expected<Plan> found = plan(spec);
    if (!found) return found.error();
    return kernel_of(spec, *found);
  }

  template <typename Found, typename Spec>
  std::vector<Found> candidates(const Spec& spec, size_t most) const {
    std::vector<Found> kernels;
    for (const Plan& plan : first_plans(spec, most)) {
      kernels.push_back(kernel_of(spec, plan));
      kernels.back().plan = text_of(plan);
    }
    return kernels;
  }

  template <typename Found, typename Spec>
  std::optional<Found> restore(const Spec& spec, std::span<const uint8_t> text) const {
    const std::optional<Plan> plan = reload(text);
    return plan ? std::optional(kernel_of(spec, *plan)) : std::nullopt;
  }

 private:
  LibraryKernel kernel_of(const ConvolutionSpec& spec, const Plan& plan) const;
  AttentionKernel kernel_of(const AttentionSpec& spec, const Plan& plan) const;

  /// Returns the first plans in cuDNN's order. Each occurs once and has a separate graph.
  template <typename Spec>
  std::vector<Plan> first_plans(const Spec& spec, size_t most) const {
    std::vector<Plan> plans;
    for (const bool compiled : {false, true}) {
      if (!compiled && prefers_compiled_engines(spec)) continue;
      int64_t count = 1;
      for (int64_t i = 0; i < count && plans.size() < most; ++i) {
        auto graph = describe(spec);
        if (!query_allowed(*graph, spec, compiled).is_good()) break;
        count = graph->get_execution_plan_count();
        if (i >= count || graph->build_plan_at_index(i).is_bad()) continue;
        const std::string engine = name_engine(*graph);  // both lists may contain it
        if (std::ranges::find(plans, engine, &Plan::engine) == plans.end())
          plans.push_back(Plan{graph, engine});
      }
      if (!plans.empty()) break;
    }
    return plans;
  }

  /// Returns the engine, a zero byte and cuDNN's text of the plan, or nothing if cuDNN does not
  /// provide the text.
  static std::vector<uint8_t> text_of(const Plan& plan) {
    std::vector<uint8_t> text(plan.engine.begin(), plan.engine.end()), graph;
    try {
      if (plan.graph->serialize(graph, false).is_bad()) return {};
    } catch (const std::exception&) {  // thrown by its JSON library
      return {};
    }
    text.push_back(0);
    text.insert(text.end(), graph.begin(), graph.end());
    return text;
  }

  /// Returns the best plan if its workspace is not too large. Most jobs can therefore share a
  /// cached plan, regardless of how much memory they leave for workspaces.
  template <typename Spec>
  Expected<Plan> plan(const Spec& spec) const {
    Spec unlimited = spec;
    unlimited.most_workspace = kUnlimited;
    Expected<Plan> best = kept_or_chosen(unlimited);
    if (!best || best->workspace() <= spec.most_workspace) return best;
    const Expected<Plan> limited = kept_or_chosen(spec);
    if (!limited) return limited;
    return Plan{limited->graph, limited->engine + ", limited workspace"};
  }

  template <typename Spec>
  Expected<Plan> kept_or_chosen(const Spec& spec) const {
    const std::string key = description_of(spec) + "; " + device_;
    if (const auto known = plans_.find(key); known != plans_.end()) return known->second;
    return plans_.emplace(key, kept_or_chosen(spec, key)).first->second;
  }

  template <typename Spec>
  Expected<Plan> kept_or_chosen(const Spec& spec, const std::string& key) const {
    if (const auto kept = cache_.find(key))
      if (auto plan = reload(*kept)) return *plan;
    Expected<Plan> chosen = choose(spec);
    if (chosen) keep(*chosen, key);
    return chosen;
  }

  template <typename Spec>
  Expected<Plan> choose(const Spec& spec) const {
    std::string refusal;
    for (const bool compiled : {false, true}) {
      if (!compiled && prefers_compiled_engines(spec)) continue;
      auto graph = describe(spec);
      frontend::error_t status = query_allowed(*graph, spec, compiled);
      if (status.is_good()) status = graph->build_plans();
      if (status.is_good()) return Plan{graph, name_engine(*graph)};
      refusal = status.get_message().substr(0, status.get_message().find('\n'));
    }
    return no_engine(spec, refusal);
  }

  void keep(const Plan& plan, const std::string& key) const {
    const std::vector<uint8_t> text = text_of(plan);
    if (!text.empty()) cache_.store(key, text);
  }

  /// Queries the engines of the graph that a spec allows. `compiled` also allows those that are
  /// compiled at run time.
  template <typename Spec>
  frontend::error_t query_allowed(graph::Graph& graph, const Spec& spec, bool compiled) const {
    const frontend::error_t status = query(graph);
    if (status.is_bad()) return status;
    deselect_engines(graph, spec);
    if (!compiled) graph.deselect_behavior_notes({frontend::BehaviorNote_t::RUNTIME_COMPILATION});
    return status;
  }

  /// Returns nothing if cuDNN does not accept the text, which may come from another build.
  std::optional<Plan> reload(std::span<const uint8_t> kept) const {
    const auto end = std::ranges::find(kept, 0);
    if (end == kept.end()) return {};
    const std::vector<uint8_t> text(end + 1, kept.end());
    auto graph = std::make_shared<graph::Graph>();
    if (absent_device_) graph->set_device_properties(absent_device_);
    try {
      const frontend::error_t status = absent_device_
                                           ? graph->deserialize(text)
                                           : graph->deserialize(handle(), text, false, false);
      if (status.is_good()) return Plan{graph, std::string(kept.begin(), end)};
    } catch (const std::exception&) {  // thrown by its JSON library
    }
    return {};
  }

  template <typename Spec>
  std::shared_ptr<graph::Graph> describe(const Spec& spec) const {
    const auto compute = data_type(sum_of(spec.dtype));
    auto graph = std::make_shared<graph::Graph>();
    graph->set_io_data_type(data_type(spec.dtype))
        .set_intermediate_data_type(compute)
        .set_compute_data_type(compute);
    if (absent_device_) graph->set_device_properties(absent_device_);
    if (const int32_t version = sm_version_of(device_)) graph->set_sm_version(version);
    add_operations(*graph, spec);
    return graph;
  }

  /// Queries the engines: the best ones first, then those that always work.
  frontend::error_t query(graph::Graph& graph) const {
    frontend::error_t status = graph.validate();
    if (status.is_good())
      status =
          absent_device_ ? graph.build_operation_graph() : graph.build_operation_graph(handle());
    if (status.is_good())
      status =
          graph.create_execution_plans({frontend::HeurMode_t::A, frontend::HeurMode_t::FALLBACK});
    return status;
  }

  PlanCache cache_;
  std::string device_;  // cuDNN's JSON of the device
  std::unique_ptr<cudnnContext, decltype(&destroy_handle)> handle_{nullptr, &destroy_handle};
  std::shared_ptr<frontend::DeviceProperties> absent_device_;
  mutable std::map<std::string, Expected<Plan>> plans_;  // plans by key, shared by equal steps
};

Cudnn::Cudnn(int device, PlanCache cache)
    : planner_(std::make_unique<Planner>(device, std::move(cache))) {}

Cudnn::Cudnn(std::string description, PlanCache cache)
    : planner_(std::make_unique<Planner>(std::move(description), std::move(cache))) {}

Cudnn::~Cudnn() = default;

LibraryKernel Cudnn::Planner::kernel_of(const ConvolutionSpec& spec, const Plan& plan) const {
  LibraryKernel kernel{{}, plan.workspace(), "cuDNN " + plan.engine};
  kernel.try_run = [graph = plan.graph, handle = handle(), bias = spec.epilogue.bias](
                       const LibraryBuffers& buffers, Stream stream) {
    const auto address = [](const std::byte* memory) {
      return static_cast<void*>(const_cast<std::byte*>(memory));
    };
    std::unordered_map<int64_t, void*> addresses = {
        {kFirst, address(buffers.first)}, {kSecond, address(buffers.second)}, {kOut, buffers.out}};
    if (bias) addresses[kBias] = address(buffers.bias);
    set_stream(handle, stream);
    check(graph->execute(handle, addresses, buffers.workspace), "a convolution");
    return std::nullopt;
  };
  return kernel;
}

AttentionKernel Cudnn::Planner::kernel_of(const AttentionSpec&, const Plan& plan) const {
  AttentionKernel kernel{{}, plan.workspace(), "cuDNN " + plan.engine};
  kernel.try_run = [graph = plan.graph, handle = handle()](const AttentionBuffers& buffers,
                                                           Stream stream) {
    std::unordered_map<int64_t, void*> addresses = AttentionGraph::addresses(buffers);
    set_stream(handle, stream);
    check(graph->execute(handle, addresses, buffers.workspace), "attention");
    return std::nullopt;
  };
  return kernel;
}

Expected<LibraryKernel> Cudnn::find(const ConvolutionSpec& spec) {
  return planner_->find<LibraryKernel>(spec);
}
Expected<AttentionKernel> Cudnn::find(const AttentionSpec& spec) {
  return planner_->find<AttentionKernel>(spec);
}

std::vector<LibraryKernel> Cudnn::candidates(const ConvolutionSpec& spec, size_t most) {
  return planner_->candidates<LibraryKernel>(spec, most);
}
std::vector<AttentionKernel> Cudnn::candidates(const AttentionSpec& spec, size_t most) {
  return planner_->candidates<AttentionKernel>(spec, most);
}

std::optional<LibraryKernel> Cudnn::restore(const ConvolutionSpec& spec,
                                            std::span<const uint8_t> plan) {
  return planner_->restore<LibraryKernel>(spec, plan);
}
std::optional<AttentionKernel> Cudnn::restore(const AttentionSpec& spec,
                                              std::span<const uint8_t> plan) {
  return planner_->restore<AttentionKernel>(spec, plan);
}

std::string Cudnn::describe(const ConvolutionSpec& spec) { return description_of(spec); }
std::string Cudnn::describe(const AttentionSpec& spec) { return description_of(spec); }

std::string Cudnn::describe(int device) {
  std::vector<uint8_t> text;
  check(serialize_device(device, text), "describing a device");
  return {text.begin(), text.end()};
}

std::string Cudnn::version() {
  const size_t version = cudnnGetVersion();
  return fmt::format("{}.{}.{}", version / 10000, version % 10000 / 100, version % 100);
}

}  // namespace flow::cuda
