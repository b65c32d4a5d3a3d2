// The sink of any variety.
#include "runtime/io/sink.h"

namespace flow::io {

std::unique_ptr<Sink> make_sink(const plan::Sink& options, const SinkContext& context,
                                std::FILE* out, bool json) {
  if (const auto* npy = std::get_if<plan::NpySink>(&options)) return make_npy_sink(*npy, context);
  if (const auto* print = std::get_if<plan::PrintSink>(&options))
    return make_print_sink(*print, context, out, json);
  if (const auto* stats = std::get_if<plan::StatsSink>(&options))
    return make_stats_sink(*stats, context);
  return nullptr;
}

}  // namespace flow::io
