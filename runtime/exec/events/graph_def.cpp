// Nodes of a GraphDef from the steps of a plan.
#include "runtime/exec/events/graph_def.h"

#include <fmt/format.h>

#include <cctype>
#include <map>
#include <set>
#include <vector>

#include "ops/core/attribute_text.h"
#include "runtime/io/events/protobuf.h"
#include "runtime/plan/model/operands.h"

namespace flow::exec {
namespace {

using io::Protobuf;

/// TensorFlow's rule for names: [A-Za-z0-9.][A-Za-z0-9_.\/>-]*
std::string node_name(std::string_view name) {
  std::string out(name);
  for (char& c : out)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '/' && c != '.' && c != '-') c = '_';
  return out.starts_with('_') ? "x" + out : out;
}

/// A node's map<string, AttrValue>.
class NodeAttributes {
 public:
  explicit NodeAttributes(Protobuf& node) : node_(node) {}

  void text(const std::string& name, const std::string& value) {
    constexpr int kText = 2;
    Protobuf held;
    held.text(kText, value);
    add(name, held);
  }

  /// `_output_shapes`, by which TensorBoard labels edges.
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
  std::vector<std::string> makers_;  // by tensor: "train/lenet/conv1/conv", "train/split:1"
};

}  // namespace

std::string graph_def(std::span<const plan::Job* const> jobs) {
  GraphWriter writer;
  for (const plan::Job* job : jobs) writer.add(*job);
  return writer.take();
}

}  // namespace flow::exec
