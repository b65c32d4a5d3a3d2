// Convolutions by cuDNN's graph API, through NVIDIA's C++ front end, which this file alone
// includes.
#include "runtime/cuda/libraries/cudnn.h"

#include <cudnn_frontend.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <string_view>
#include <vector>

#include "runtime/base/check.h"
#include "runtime/base/error.h"

namespace flow::cuda {
namespace {

namespace frontend = cudnn_frontend;
namespace graph = cudnn_frontend::graph;
using Pass = ConvolutionSpec::Pass;
using TensorRef = std::shared_ptr<graph::Tensor_attributes>;

/// Of kept plans. It changes with what this file tells cuDNN: names, notes, workspaces.
constexpr int kFormat = 4;

constexpr size_t kUnlimited = std::numeric_limits<size_t>::max();

/// The names of a graph's tensors: LibraryBuffers' members.
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
      FLOW_CHECK(false, "cuDNN convolves no {}", name_of(dtype));
  }
}

/// Of the four axes of a tensor, in the spec's layout.
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

/// What all three passes are told.
template <typename Attributes>
Attributes geometry(const ConvolutionSpec& spec) {
  return Attributes()
      .set_pre_padding({spec.pads[0], spec.pads[1]})
      .set_post_padding({spec.pads[2], spec.pads[3]})
      .set_stride(spec.strides)
      .set_dilation(spec.dilation);
}

/// y = relu(conv(x, w) + bias), as the epilogue asks; intermediate values stay in registers.
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
  if (spec.epilogue.relu) {  // it keeps NaN: the front end asks for CUDNN_PROPAGATE_NAN
    intermediate(y);
    y = graph.pointwise(y, pointwise(frontend::PointwiseMode_t::RELU_FWD));
  }
  return y;
}

void add_convolution(graph::Graph& graph, const ConvolutionSpec& spec) {
  const bool weight = spec.pass == Pass::kGradWeight;
  const Shape& out = spec.pass == Pass::kForward ? spec.y : weight ? spec.w : spec.x;
  TensorRef result;
  if (spec.pass == Pass::kForward)
    result = add_forward(graph, spec);
  else if (spec.pass == Pass::kGradData)
    result = graph.conv_dgrad(add_tensor(graph, spec, kFirst, spec.y),
                              add_tensor(graph, spec, kSecond, spec.w),
                              geometry<graph::Conv_dgrad_attributes>(spec));
  else  // cuDNN takes dy before x
    result = graph.conv_wgrad(add_tensor(graph, spec, kSecond, spec.y),
                              add_tensor(graph, spec, kFirst, spec.x),
                              geometry<graph::Conv_wgrad_attributes>(spec));
  result->set_output(true)
      .set_uid(kOut)
      .set_dim(out.extents())
      .set_stride(strides_of(spec, out))
      .set_data_type(data_type(spec.dtype));
}

/// Leaves the engines that compute in the spec's precision, in its order and in its workspace.
void deselect_engines(graph::Graph& graph, const ConvolutionSpec& spec) {
  using Note = frontend::NumericalNote_t;
  std::vector<Note> unwanted = {Note::REDUCED_PRECISION_REDUCTION};
  if (!spec.math_mode.any_order) unwanted.push_back(Note::NONDETERMINISTIC);
  // Transforms of large tiles lose digits of float32.
  if (spec.dtype == DType::kFloat32 && !spec.math_mode.tf32)
    for (const Note note : {Note::TENSOR_CORE, Note::DOWN_CONVERT_INPUTS, Note::FFT,
                            Note::WINOGRAD_TILE_6x6, Note::WINOGRAD_TILE_13x13})
      unwanted.push_back(note);
  graph.deselect_numeric_notes(unwanted);
  constexpr size_t kMost = std::numeric_limits<int64_t>::max();
  graph.deselect_workspace_greater_than(static_cast<int64_t>(std::min(spec.most_workspace, kMost)));
}

/// The engine that was chosen and its knobs, as cuDNN names them: "eng62_k2=1, tensor cores". The
/// graph has its plan; from now on it chooses no other.
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

/// All that a plan depends on but the device.
std::string description_of(const ConvolutionSpec& spec) {
  return fmt::format(
      "{}, strides {}, dilation {}, pads {}, groups {}, channels last {}, bias {}, relu {}, "
      "tf32 {}, any order {}{}; format {}, cuDNN {}, front end {}",
      text_of(spec), spec.strides, spec.dilation, spec.pads, spec.groups, spec.channels_last,
      spec.epilogue.bias, spec.epilogue.relu, spec.math_mode.tf32, spec.math_mode.any_order,
      spec.most_workspace == kUnlimited
          ? ""
          : fmt::format(", at most {} bytes of workspace", spec.most_workspace),
      kFormat, Cudnn::version(), CUDNN_FRONTEND_VERSION);
}

/// cuDNN's JSON of a device that is here.
frontend::error_t serialize_device(int device, std::vector<uint8_t>& text) {
  frontend::DeviceProperties properties;
  properties.set_device_id(device);
  const frontend::error_t status = properties.build();
  return status.is_good() ? properties.serialize(text) : status;
}

void destroy_handle(cudnnHandle_t handle) { cudnnDestroy(handle); }

}  // namespace

class Cudnn::Planner {
 public:
  struct Plan {
    std::shared_ptr<graph::Graph> graph;  // built
    std::string engine;

    size_t workspace() const { return static_cast<size_t>(graph->get_workspace_size()); }
  };

  Planner(int device, PlanCache cache) {
    // Plans are kept by what a device is; without that they are chosen anew in every run.
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

  /// The best plan, where its workspace is not too large. So most jobs share a kept one, however
  /// much memory they leave.
  Expected<Plan> plan(const ConvolutionSpec& spec) const {
    ConvolutionSpec unlimited = spec;
    unlimited.most_workspace = kUnlimited;
    Expected<Plan> best = kept_or_chosen(unlimited);
    if (!best || best->workspace() <= spec.most_workspace) return best;
    const Expected<Plan> limited = kept_or_chosen(spec);
    if (!limited) return limited;
    return Plan{limited->graph, limited->engine + ", limited workspace"};
  }

 private:
  Expected<Plan> kept_or_chosen(const ConvolutionSpec& spec) const {
    const std::string key = description_of(spec) + "; " + device_;
    if (const auto kept = cache_.find(key))
      if (auto plan = reload(*kept)) return *plan;
    Expected<Plan> chosen = choose(spec);
    if (chosen) keep(*chosen, key);
    return chosen;
  }

  /// Engines compiled at run time cost a second, so they come last.
  Expected<Plan> choose(const ConvolutionSpec& spec) const {
    std::string refusal;
    for (const bool compiled : {false, true}) {
      auto graph = describe(spec);
      frontend::error_t status = query(*graph);
      if (status.is_good()) {
        deselect_engines(*graph, spec);
        if (!compiled)
          graph->deselect_behavior_notes({frontend::BehaviorNote_t::RUNTIME_COMPILATION});
        status = graph->build_plans();
      }
      if (status.is_good()) return Plan{graph, name_engine(*graph)};
      refusal = status.get_message().substr(0, status.get_message().find('\n'));
    }
    return RunError(fmt::format("cuDNN {} has no engine for the {}: {}", Cudnn::version(),
                                text_of(spec), refusal),
                    spec.dtype == DType::kFloat32 && !spec.math_mode.tf32
                        ? "try `precision: tf32`, which allows more engines"
                        : "");
  }

  /// The engine, a zero, cuDNN's text.
  void keep(const Plan& plan, const std::string& key) const {
    try {
      std::vector<uint8_t> text;
      if (plan.graph->serialize(text, false).is_bad()) return;
      std::vector<uint8_t> kept(plan.engine.begin(), plan.engine.end());
      kept.push_back(0);
      kept.insert(kept.end(), text.begin(), text.end());
      cache_.store(key, kept);
    } catch (const std::exception&) {  // of its JSON
    }
  }

  /// None where cuDNN does not take the text: it may be another build's.
  std::optional<Plan> reload(const std::vector<uint8_t>& kept) const {
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
    } catch (const std::exception&) {  // of its JSON
    }
    return {};
  }

  std::shared_ptr<graph::Graph> describe(const ConvolutionSpec& spec) const {
    const auto compute = data_type(sum_of(spec.dtype));
    auto graph = std::make_shared<graph::Graph>();
    graph->set_io_data_type(data_type(spec.dtype))
        .set_intermediate_data_type(compute)
        .set_compute_data_type(compute);
    if (absent_device_) graph->set_device_properties(absent_device_);
    add_convolution(*graph, spec);
    return graph;
  }

  /// Asks for the engines, best first, then those that always work.
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
  std::string device_;  // cuDNN's JSON of it
  std::unique_ptr<cudnnContext, decltype(&destroy_handle)> handle_{nullptr, &destroy_handle};
  std::shared_ptr<frontend::DeviceProperties> absent_device_;
};

Cudnn::Cudnn(int device, PlanCache cache)
    : planner_(std::make_unique<Planner>(device, std::move(cache))) {}

Cudnn::Cudnn(std::string description, PlanCache cache)
    : planner_(std::make_unique<Planner>(std::move(description), std::move(cache))) {}

Cudnn::~Cudnn() = default;

Expected<LibraryKernel> Cudnn::find(const ConvolutionSpec& spec) {
  const auto plan = planner_->plan(spec);
  if (!plan) return plan.error();
  LibraryKernel kernel;
  kernel.workspace = plan->workspace();
  kernel.name = "cuDNN " + plan->engine;
  kernel.try_run = [graph = plan->graph, handle = planner_->handle(), bias = spec.epilogue.bias](
                       const LibraryBuffers& buffers, Stream stream) {
    const auto address = [](const std::byte* memory) {
      return static_cast<void*>(const_cast<std::byte*>(memory));
    };
    std::unordered_map<int64_t, void*> addresses = {
        {kFirst, address(buffers.first)}, {kSecond, address(buffers.second)}, {kOut, buffers.out}};
    if (bias) addresses[kBias] = address(buffers.bias);
    if (cudnnSetStream(handle, static_cast<cudaStream_t>(stream.handle)) != CUDNN_STATUS_SUCCESS)
      throw RunError("cuDNN: choosing a stream failed");
    check(graph->execute(handle, addresses, buffers.workspace), "a convolution");
    return std::nullopt;
  };
  return kernel;
}

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
