// Prints values as lines of text or as JSON objects.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <optional>
#include <system_error>

#include "runtime/base/display.h"
#include "runtime/base/host_device.h"
#include "runtime/base/text.h"
#include "runtime/io/elements.h"
#include "runtime/io/numpy_text.h"
#include "runtime/io/reduction.h"
#include "runtime/io/sink.h"
#include "runtime/plan/json/json.h"

namespace flow::io {

namespace {

Array copy_of(const ArrayView& value) {
  Array copy(value.dtype, value.shape);
  std::copy(value.data, value.data + value.bytes(), copy.bytes().begin());
  return copy;
}

/// Returns an element as JSON: NumPy's text, except that bools are true or false, and NaN and
/// infinity are null.
std::string json_element(const ArrayView& array, int64_t index) {
  std::string text = format_element(array, index);
  if (text == "nan" || text.ends_with("inf")) return "null";
  if (array.dtype == DType::kBool) return text == "True" ? "true" : "false";
  return text;
}

/// Appends nested lists of the elements, starting with flat index `first`.
void append_json(const ArrayView& array, int axis, int64_t first, std::string& text) {
  if (axis == array.shape.rank()) {
    text += json_element(array, first);
    return;
  }
  const int64_t stride = array.shape.elements(axis + 1, array.shape.rank());
  text += '[';
  for (int64_t i = 0; i < array.shape[axis]; ++i) {
    if (i > 0) text += ',';
    append_json(array, axis + 1, first + i * stride, text);
  }
  text += ']';
}

std::string quoted(const std::string& text) {
  return escaped(Json(text).dump(-1, ' ', false, Json::error_handler_t::replace));
}

/// Escapes the control characters of a format, so that they do not affect the terminal. Tabs are
/// kept, because tables use them.
std::string printable(const std::string& format) {
  std::vector<std::string> columns = split(format, '\t');
  for (std::string& column : columns) column = escaped(column);
  return join(columns, "\t");
}

class PrintSink : public Sink {
 public:
  PrintSink(const plan::PrintSink& options, const SinkContext& context, std::FILE* out, bool json)
      : options_(options),
        context_(context),
        label_(options.label.value_or(context.label)),
        steps_(options.step.value_or(context.print_steps && options.over != plan::Over::kRun)),
        json_(json),
        out_(out),
        printable_(options.over == plan::Over::kEpoch ? context.epochs_before
                   : options.over == plan::Over::kRun ? context.calls_before
                                                      : context.delivered_before) {
    if (options.format != "numpy" && !is_number_format(options.format))
      throw RequestError(
          fmt::format("invalid format `{}` in the print sink of `{}`; expected one number",
                      options.format, context_.name),
          "use numpy or one printf conversion of a double, such as %.6g");
    options_.format = printable(options.format);
    sums_ = make_sums(options.metric, options.reduce, context);
  }

  void deliver(const Event& event) override {
    step_ = event.step;
    epoch_ = event.epoch;
    call_ = event.call;
    pending_ = true;
    if (sums_) sums_->add(event.value);
    const bool now = options_.over == plan::Over::kStep ||
                     (options_.over == plan::Over::kEpoch && event.last_of_epoch);
    if (!sums_ && now) return take_turn() ? print(event.value) : void();
    if (!sums_) last_ = copy_of(event.value);
    if (now) flush();
  }

  bool absorbs(bool last_of_epoch) const override {
    if (!sums_) return false;
    switch (options_.over) {
      case plan::Over::kStep:
        return printable_ % options_.every != 0;
      case plan::Over::kEpoch:
        return !last_of_epoch;
      case plan::Over::kRun:
        break;
    }
    return true;
  }

  std::vector<uint64_t> held() const override {
    if (!pending_) return {};
    std::vector<uint64_t> words = {kind(), static_cast<uint64_t>(options_.over),
                                   static_cast<uint64_t>(step_), static_cast<uint64_t>(epoch_)};
    const std::vector<uint64_t> rest = sums_ ? sums_->held() : words_of(last_);
    words.insert(words.end(), rest.begin(), rest.end());
    return words;
  }

  void resume(std::span<const uint64_t> held) override {
    constexpr size_t kBefore = 4;  // words before the sums or the value
    const bool own = held.size() >= kBefore && held[0] == kind() &&
                     held[1] == static_cast<uint64_t>(options_.over);
    if (!own) return;  // The hook has changed, so its old state is dropped.
    step_ = static_cast<int64_t>(held[2]);
    epoch_ = static_cast<int64_t>(held[3]);
    if (sums_)
      sums_->resume(held.subspan(kBefore));
    else
      last_ = array_of(held.subspan(kBefore));
    pending_ = true;
  }

  /// Prints here too, because a hook may not fire in the last step of an epoch.
  void end_epoch() override {
    if (pending_ && options_.over == plan::Over::kEpoch) flush();
  }

  void end_call() override {
    if (pending_) flush();
  }

 private:
  /// Returns a number that identifies the reduction or metric.
  uint64_t kind() const {
    constexpr uint64_t kMetrics = 64;  // larger than every plan::Reduce
    return options_.metric ? kMetrics + static_cast<uint64_t>(options_.metric->type)
                           : static_cast<uint64_t>(options_.reduce);
  }

  /// Returns the number of rows (the last batch has fewer), then the elements.
  static std::vector<uint64_t> words_of(const Array& value) {
    const std::span<const std::byte> bytes = value.bytes();
    std::vector<uint64_t> words(1 + ceil_div(bytes.size(), sizeof(uint64_t)));
    if (value.shape().rank() > 0) words[0] = static_cast<uint64_t>(value.shape()[0]);
    std::ranges::copy(bytes, std::as_writable_bytes(std::span(words).subspan(1)).begin());
    return words;
  }

  Array array_of(std::span<const uint64_t> words) const {
    Shape shape = context_.shape;
    if (shape.rank() > 0 && !words.empty() && words[0] < static_cast<uint64_t>(shape[0]))
      shape[0] = static_cast<int64_t>(words[0]);
    Array value(context_.dtype, std::move(shape));
    const std::span<std::byte> bytes = value.bytes();
    if (words.size() != 1 + ceil_div(bytes.size(), sizeof(uint64_t)))
      throw RequestError(
          fmt::format("{} numbers do not match the value of `{}`", words.size(), context_.name));
    std::ranges::copy_n(std::as_bytes(words.subspan(1)).begin(),
                        static_cast<std::ptrdiff_t>(bytes.size()), bytes.begin());
    return value;
  }

  /// Returns true if the result that is now complete is printed. Called once for each result.
  bool take_turn() {
    pending_ = false;
    return printable_++ % options_.every == 0;
  }

  void flush() {
    const bool prints = take_turn();
    if (!sums_) return prints ? print(last_.view()) : void();
    if (prints) {
      const Array result = sums_->result(options_.scale);
      if (context_.keep_reduced) {
        std::string text;
        append_json(result.view(), 0, 0, text);
        context_.keep_reduced({plan::metrics_place(context_.job, step_, epoch_, call_),
                               context_.name, label_, text, options_.over == plan::Over::kStep});
      }
      write(result.view());
    }
    sums_->clear();
  }

  void print(const ArrayView& value) {
    write(options_.scale == 1 ? value : scaled(value, options_.scale).view());
  }

  void write(const ArrayView& value) {
    if (closed_) return;
    const std::string line = json_ ? json_line(value) : text_line(value);
    if (std::fwrite(line.data(), 1, line.size(), out_) == line.size() && std::fflush(out_) == 0)
      return;
    closed_ = errno == EPIPE;
    if (!closed_)
      throw RunError(fmt::format("cannot print `{}`: {}", context_.name,
                                 std::generic_category().message(errno)));
  }

  std::string text_line(const ArrayView& value) const {
    std::vector<std::string> words;
    if (call_) words.push_back(called_text(*call_));
    if (steps_)
      words.push_back(options_.over == plan::Over::kEpoch ? fmt::format("epoch {}", epoch_ + 1)
                                                          : fmt::format("step {}", step_));
    if (!label_.empty()) words.push_back(label_);
    std::string line = escaped(join(words, " "));
    if (!line.empty()) line += ": ";
    line += value_text(value);
    if ((context_.gradient || context_.in_scope) && !sums_) {
      line += fmt::format(" {} {}", shape_tuple(value.shape),
                          name_of(Delivered::dtype_of(value.dtype)));
    }
    return line + '\n';
  }

  std::string called_text(const plan::CallPlace& call) const {
    return fmt::format("{} {} {}", context_.job, call.by_epochs ? "epoch" : "step",
                       call.by_epochs ? call.epoch : call.step);
  }

  std::string value_text(const ArrayView& value) const {
    if (options_.format == "numpy") return format_numpy(value);
    return visit_elements(value, [&](auto elements) {
      return format_numpy(value.shape, [&](int64_t i) {
        return format_number(options_.format,
                             static_cast<double>(elements[static_cast<size_t>(i)]));
      });
    });
  }

  std::string json_line(const ArrayView& value) const {
    std::string line =
        fmt::format(R"({{"event":"print","job":{},"name":{},"label":{},"step":{},"epoch":{},)",
                    quoted(context_.job), quoted(context_.name), quoted(label_), step_, epoch_);
    if (call_) line += fmt::format(R"("main_step":{},"main_epoch":{},)", call_->step, call_->epoch);
    if (context_.gradient) line += R"("gradient":true,)";
    line += R"("value":)";
    append_json(value, 0, 0, line);
    return line + "}\n";
  }

  plan::PrintSink options_;
  const SinkContext context_;
  std::string label_;
  bool steps_, json_;
  std::FILE* out_;
  std::unique_ptr<Accumulator> sums_;  // null if `reduce` is none
  // The last value if `reduce` is none and a result spans several steps.
  Array last_;
  int64_t step_ = 0, epoch_ = 0;
  std::optional<plan::CallPlace> call_;
  bool pending_ = false;  // true if a delivered value is neither printed nor skipped yet
  // True if the reader has closed the pipe, such as `| head`, while the run continues.
  bool closed_ = false;
  int64_t printable_;  // number of lines that could have been printed
};

}  // namespace

std::unique_ptr<Sink> make_print_sink(const plan::PrintSink& options, const SinkContext& context,
                                      std::FILE* out, bool json) {
  FLOW_CHECK(options.every > 0, "every {}", options.every);
  return std::make_unique<PrintSink>(options, context, out, json);
}

}  // namespace flow::io
