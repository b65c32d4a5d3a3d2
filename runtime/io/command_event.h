// What a command is told: a line of JSON, then the arrays that the line counts.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/array.h"
#include "runtime/io/elements.h"
#include "runtime/plan/json/records.h"
#include "runtime/plan/model/plan.h"

namespace flow::io {

struct NamedArray {
  std::string name;
  ArrayView value;
};

/// What fired in a step, or the end of a pass.
struct CommandEvent {
  std::string kind = {};   // return, watch, watch_diff, pass_end
  std::string name = {};   // the tensor's, or `returns` where a return holds several
  std::string where = {};  // "lenet.yaml:14:11"
  int64_t step = 0, epoch = 0;
  std::optional<plan::CallPlace> call = {};  // of a job that another one calls
  std::string value = "0";                   // nested, with indices into the arrays: [0,{"a":1}]
  std::string scope = {}, op = {}, placement = {};  // of what `watch_scope` watches
  std::vector<NamedArray> arrays = {};
};

/// The nested value of a return with indices in the place of tensors, counted from 0; of ListNumpy
/// a list of `devices` of them.
std::string structure_of(const plan::ReturnValue& value, int64_t devices = 1);

/// An array as it goes into the pipe: `head`, then `body`.
struct Encoded {
  Encoded(const NamedArray& array, plan::CommandSink::Format format);
  Encoded(Encoded&&) = default;  // a copy's body would be the original's
  size_t bytes() const { return head.size() + (body.data ? body.bytes() : 0); }

  std::string name;
  DType dtype;
  Shape shape;
  std::string head;  // the header of a .npy, or the whole text: a row a line
  ArrayView body;    // without data: there is none

 private:
  Delivered delivered_;
};

/// {"flow":1,"event":"watch","job":...}, with a newline.
std::string event_line(const std::string& job, const CommandEvent& event,
                       const std::vector<Encoded>& arrays);
/// A call of the job is complete. `event`: of its last step.
std::string pass_end_line(const std::string& job, const CommandEvent& event);
/// The first event of a stream. `names`: of what may come.
std::string start_line(const std::string& job, const std::string& plan_hash,
                       const std::vector<std::string>& names, std::optional<int64_t> resumed_from);
/// The last one. `status`: done, stopped or failed.
std::string end_line(const std::string& job, std::string_view status);

/// FLOW_EVENT, FLOW_SHAPE and so on.
std::map<std::string, std::string> event_environment(const std::string& job,
                                                     const CommandEvent& event,
                                                     const std::vector<Encoded>& arrays);

}  // namespace flow::io
