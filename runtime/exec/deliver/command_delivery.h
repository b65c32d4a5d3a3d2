// What fires, on its way to commands: as the whole that it is, not array by array.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "runtime/io/commands.h"
#include "runtime/io/sink.h"
#include "runtime/plan/model/plan.h"

namespace flow::exec {

struct Delivery;
struct SinkOptions;

class CommandDelivery {
 public:
  /// Starts the commands, where they are wanted. RunError when that fails. REQUIRES: `deliveries`
  /// outlive this.
  CommandDelivery(const plan::Job& job, const std::vector<Delivery>& deliveries,
                  const SinkOptions& options);

  bool takes(const Delivery& delivery) const;
  /// A value that fired. The last one of a return, or of the parts of ListNumpy, hands all over;
  /// until then the others stay where they are.
  void take(const Delivery& delivery, const io::Event& event);
  /// A call of the job is complete; `step`: its last one.
  void end_pass(int64_t step, int64_t epoch, const std::optional<plan::CallPlace>& call);
  bool asked_to_stop() const { return commands_.asked_to_stop(); }
  /// `status`: done, stopped or failed.
  void end(std::string_view status) { commands_.end(status); }

 private:
  /// A return, or what a hook watches: deliveries that follow one another, for the same commands.
  struct Whole {
    io::CommandEvent event;
    std::vector<size_t> places;
    size_t parts = 0;
  };
  void add(io::CommandEvent event, const std::vector<plan::Sink>& sinks);

  io::Commands commands_;
  std::vector<Whole> wholes_;
  std::map<const Delivery*, size_t> whole_of_;
};

}  // namespace flow::exec
