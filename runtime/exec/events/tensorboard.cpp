// Writes metrics, histograms and the graph as events.
#include "runtime/exec/events/tensorboard.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <span>
#include <system_error>

#include "ops/core/attributes.h"
#include "runtime/base/error.h"
#include "runtime/base/file_operations.h"
#include "runtime/exec/core/run_files.h"
#include "runtime/plan/model/lifetimes.h"
#include "runtime/plan/model/plan.h"
#include "runtime/plan/serialize.h"

namespace flow::exec {
namespace {

using io::Protobuf;

/// Replaces characters that TensorFlow does not allow in names: [A-Za-z0-9.][A-Za-z0-9_.\/>-]*
std::string node_name(std::string_view name) {
  std::string out(name);
  for (char& c : out)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '/' && c != '.' && c != '-') c = '_';
  return out.starts_with('_') ? "x" + out : out;
}

/// The attributes of a node, a map<string, AttrValue>.
class NodeAttributes {
 public:
  explicit NodeAttributes(Protobuf& node) : node_(node) {}

  void text(const std::string& name, const std::string& value) {
    constexpr int kText = 2;
    Protobuf held;
    held.text(kText, value);
    add(name, held);
  }

  /// Adds `_output_shapes`, with which TensorBoard labels edges.
  void shapes(const std::vector<const plan::Tensor*>& tensors) {
    constexpr int kList = 1, kShapes = 7;
    Protobuf list;
    for (const plan::Tensor* tensor : tensors) list.message(kShapes, shape_of(*tensor));
    Protobuf held;
    held.message(kList, list);
    add("_output_shapes", held);
  }

 private:
  static Protobuf shape_of(const plan::Tensor& tensor) {
    constexpr int kDimension = 2, kSize = 1;
    Protobuf shape;
    for (const int64_t extent : tensor.shape.extents()) {
      Protobuf dimension;
      dimension.integer(kSize, extent);
      shape.message(kDimension, dimension);
    }
    return shape;
  }

  void add(const std::string& name, const Protobuf& value) {
    constexpr int kAttributes = 5, kKey = 1, kValue = 2;
    Protobuf entry;
    entry.text(kKey, name);
    entry.message(kValue, value);
    node_.message(kAttributes, entry);
  }

  Protobuf& node_;
};

class GraphWriter {
 public:
  void add(const plan::Job& job) {
    makers_.assign(job.tensors.size(), "");
    for (size_t i = 0; i < job.tensors.size(); ++i)
      if (job.tensors[i].role != plan::Role::kResult) add_tensor(job, plan::TensorId(i));
    for (const plan::Step& step : job.steps) add_step(job, step);
  }

  std::string take() {
    constexpr int kVersions = 4, kProducer = 1, kNewest = 1000;
    Protobuf versions;
    versions.integer(kProducer, kNewest);
    graph_.message(kVersions, versions);
    return graph_.bytes();
  }

 private:
  enum Field { kName = 1, kOp = 2, kInput = 3, kDevice = 4 };

  void add_tensor(const plan::Job& job, plan::TensorId id) {
    const plan::Tensor& tensor = job[id];
    const std::string name = unique(job, tensor.name);
    makers_[id.index()] = name;
    Protobuf node = begin(name, tensor.role == plan::Role::kInput ? "Placeholder" : "Variable",
                          job.device_of(tensor));
    NodeAttributes attributes(node);
    attributes.shapes({&tensor});
    attributes.text("dtype", std::string(name_of(tensor.dtype)));
    graph_.message(1, node);
  }

  void add_step(const plan::Job& job, const plan::Step& step) {
    const std::string name = unique(job, step.name);
    std::string op = step.op.name();
    for (const plan::EpilogueOp& epilogue : step.epilogue) op += "+" + epilogue.op.name();
    Protobuf node;
    node.text(kName, name);
    node.text(kOp, op);
    plan::visit_operands(step, [&](plan::TensorId id) {
      if (const std::string& maker = makers_[id.index()]; !maker.empty()) node.text(kInput, maker);
    });
    node.text(kDevice, device_text(job.device_of(step)));
    NodeAttributes attributes(node);
    std::vector<const plan::Tensor*> made;
    for (size_t i = 0; i < step.outputs.size(); ++i) {
      const plan::TensorId id = step.outputs[i];
      if (!id.valid()) continue;
      makers_[id.index()] = made.empty() ? name : fmt::format("{}:{}", name, made.size());
      made.push_back(&job[id]);
    }
    attributes.shapes(made);
    for (const auto& [key, value] : step.attributes) attributes.text(key, ops::text_of(value));
    graph_.message(1, node);
  }

  static std::string device_text(plan::DeviceKind device) {
    return fmt::format("/device:{}:0", device == plan::DeviceKind::kGpu ? "GPU" : "CPU");
  }

  static Protobuf begin(const std::string& name, const char* op, plan::DeviceKind device) {
    Protobuf node;
    node.text(kName, name);
    node.text(kOp, op);
    node.text(kDevice, device_text(device));
    return node;
  }

  std::string unique(const plan::Job& job, const std::string& name) {
    const std::string base = node_name(job.name + "/" + name);
    std::string found = base;
    for (int i = 1; !names_.insert(found).second; ++i) found = fmt::format("{}_{}", base, i);
    return found;
  }

  Protobuf graph_;
  std::set<std::string> names_;
  std::vector<std::string> makers_;  // indexed by tensor: "train/lenet/conv1/conv", "train/split:1"
};

/// Returns a graph as in tensorflow/core/framework/graph.proto. It has a node for each input,
/// variable and step, named below its job: "train/lenet/conv1/conv". Nodes have the shapes of their
/// results and attributes.
std::string graph_def(std::span<const plan::Job* const> jobs) {
  GraphWriter writer;
  for (const plan::Job* job : jobs) writer.add(*job);
  return writer.take();
}

/// A summary as in tensorflow/core/framework/summary.proto.
class Summary {
 public:
  void scalar(const std::string& tag, double value) {
    constexpr int kSimpleValue = 2;
    Protobuf held = tagged(tag);
    held.float32(kSimpleValue, static_cast<float>(value));
    message_.message(kValue, held);
  }

  void histogram(const std::string& tag, const io::Histogram& histogram) {
    constexpr int kHistogram = 5;
    Protobuf held = tagged(tag);
    held.message(kHistogram, message_of(histogram));
    message_.message(kValue, held);
  }

  std::string event(int64_t step) const {
    return event::holding(event::kSummary, step, message_.bytes());
  }

 private:
  static constexpr int kValue = 1;

  static Protobuf tagged(const std::string& tag) {
    constexpr int kTag = 1;
    Protobuf value;
    value.text(kTag, tag);
    return value;
  }

  /// Returns a HistogramProto. A bucket ends at its limit; the first bucket begins at the minimum.
  static Protobuf message_of(const io::Histogram& histogram) {
    enum Field { kMin = 1, kMax, kNumber, kSum, kSquares, kLimits, kCounts };
    const io::Statistics& found = histogram.statistics;
    const auto bins = static_cast<double>(histogram.bins.size());
    std::vector<double> limits, counts;
    for (size_t i = 0; i < histogram.bins.size(); ++i) {
      const double share = static_cast<double>(i + 1) / bins;
      limits.push_back(found.min * (1 - share) + found.max * share);
      counts.push_back(static_cast<double>(histogram.bins[i]));
    }
    const double number = std::accumulate(counts.begin(), counts.end(), 0.0);
    Protobuf message;
    message.float64(kMin, found.min);
    message.float64(kMax, found.max);
    message.float64(kNumber, number);
    message.float64(kSum, found.mean * number);
    message.float64(kSquares, (found.std * found.std + found.mean * found.mean) * number);
    message.float64s(kLimits, limits);
    message.float64s(kCounts, counts);
    return message;
  }

  Protobuf message_;
};

/// Parses a number, a bool or null in JSON.
double number_of(std::string_view json) {
  if (json == "true") return 1;
  if (json == "false") return 0;
  double value = 0;
  const auto [end, error] = std::from_chars(json.data(), json.data() + json.size(), value);
  return error == std::errc() ? value : std::numeric_limits<double>::quiet_NaN();
}

/// Returns the tag "train/accuracy" for the label "accuracy", and for "train.accuracy", the form
/// that a followed value has.
std::string tag_of(const plan::ReducedMetrics& metrics) {
  const std::string& job = metrics.place.job;
  std::string_view label = metrics.label.empty() ? metrics.name : metrics.label;
  if (label.starts_with(job + ".")) label.remove_prefix(job.size() + 1);
  return fmt::format("{}/{}", job, label);
}

}  // namespace

void check_events(const RunRequest& request, int64_t first) {
  const fs::path directory = *request.tensorboard;
  if (directory.empty())
    throw RequestError("--tensorboard: empty directory name", "name a directory");
  // The directory must not contain the run directory either, because everything in it would count
  // as part of the run.
  if (!request.directory.empty() &&
      (lies_in(request.directory, directory) || is_written(directory, request.directory)))
    throw RequestError(
        fmt::format("--tensorboard {}: the run writes other files there", directory.string()),
        "name another directory");
  const EventFiles found = find_event_files(request, first);
  if (first > 0 && found.kept.empty() && request.say)
    request.say(fmt::format("--tensorboard {}: no events of the steps before {}; they begin there",
                            directory.string(), first));
}

TensorBoard::TensorBoard(const RunRequest& request, int64_t first,
                         const std::vector<const plan::Job*>& jobs)
    : job_(request.job.name) {
  const EventFiles files = find_event_files(request, first);
  std::string start = files.kept;
  if (start.empty()) {  // written one after another, so that their times are in order
    start = io::framed(event::version());
    start += io::framed(event::start(plan::resume_hash(request.plan, request.job)));
    start += io::framed(event::holding(event::kGraph, 0, graph_def(jobs)));
  }
  make_folders(*request.tensorboard);
  file_.emplace(files.path, start);
  for (const auto* old : {&files.earlier, &files.temporaries})
    for (const fs::path& path : *old)
      if (const std::error_code error = remove_path(path))
        throw cannot("remove", path, error.value());
}

void TensorBoard::add(const plan::Metrics& metrics) {
  Summary summary;
  summary.scalar(job_ + "/loss", metrics.loss);
  summary.scalar(job_ + "/learning_rate", metrics.learning_rate);
  if (metrics.gradient_norm) summary.scalar(job_ + "/gradient_norm", *metrics.gradient_norm);
  if (metrics.loss_scale) summary.scalar(job_ + "/loss_scale", *metrics.loss_scale);
  file_->append(summary.event(metrics.step));
}

void TensorBoard::add(const plan::ReducedMetrics& metrics) {
  // The steps of a train job have values with these labels, too.
  const bool taken = std::ranges::count(plan::kStepNumbers, metrics.label) > 0;
  add(metrics, taken ? " (reduced)" : "");
}

void TensorBoard::add_followed(const plan::ReducedMetrics& metrics) {
  add(metrics, " (monitored)");
}

void TensorBoard::add(const plan::ReducedMetrics& metrics, std::string_view suffix) {
  if (metrics.value.starts_with('[')) return;  // the value is a matrix, not a scalar
  Summary summary;
  summary.scalar(fmt::format("{}{}", tag_of(metrics), suffix), number_of(metrics.value));
  const plan::MetricsPlace& place = metrics.place;
  file_->append(
      summary.event(metrics.each_step ? place.job_step.value_or(place.step) : place.step));
}

void TensorBoard::add(const plan::CalledMetrics& metrics) {
  Summary summary;
  summary.scalar(metrics.place.job + "/loss", metrics.loss);
  summary.scalar(metrics.place.job + "/learning_rate", metrics.learning_rate);
  file_->append(summary.event(metrics.place.job_step.value_or(metrics.place.step)));
}

void TensorBoard::add(const std::string& job, const io::Histogram& histogram) {
  if (!std::isfinite(histogram.statistics.min)) return;  // no element is finite
  Summary summary;
  summary.histogram(job + "/" + histogram.label, histogram);
  file_->append(summary.event(histogram.step));
}

}  // namespace flow::exec
