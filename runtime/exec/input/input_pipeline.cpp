// Opens the sources of a job's inputs, checks that they fit together, and fills batches.
#include "runtime/exec/input/input_pipeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <set>
#include <thread>

#include "runtime/base/display.h"
#include "runtime/base/element_types.h"
#include "runtime/base/error.h"
#include "runtime/base/host_device.h"
#include "runtime/base/philox.h"
#include "runtime/base/text.h"
#include "runtime/io/convert.h"

namespace flow::exec {

namespace {

constexpr const char* kSlices =
    "an extra leading axis means one slice per step; without it, each step reads the whole array";

class ColumnSource : public Source {
 public:
  ColumnSource(data::Column& column, DType dtype) : column_(column), dtype_(dtype) {}
  bool fill(const Reading& reading, std::span<std::byte> out) override {
    column_.read({reading.rows, reading.epoch, reading.attempts}, dtype_, out);
    return true;
  }

 private:
  data::Column& column_;
  DType dtype_;
};

/// The placeholder for a stream on ranks other than 0. Rank 0 reads the stream and sends it as part
/// of the call.
class StreamElsewhere : public Source {
 public:
  bool fill(const Reading&, std::span<std::byte>) override { return true; }
};

constexpr const char* kOneRecordEach =
    "check the programs that write them; each step reads a record of each input";

using Given = std::vector<std::pair<std::string, std::string>>;

std::vector<std::string> input_names(const plan::Job& job) {
  std::vector<std::string> names;
  for (const plan::Input& input : job.inputs) names.push_back(job[input.tensor].name);
  return names;
}

void check_given_names(const plan::Job& job, const Given& given) {
  const std::vector<std::string> names = input_names(job);
  std::set<std::string> seen;
  for (const auto& [name, text] : given) {
    if (!seen.insert(name).second) throw RequestError(fmt::format("duplicate --input {}", name));
    if (std::ranges::find(names, name) != names.end()) continue;
    const std::vector<std::string> near = suggest(name, names);
    throw RequestError(fmt::format("--input {}: job `{}` has no such input", name, job.name),
                       near.empty() ? fmt::format("use one of {}", join(names, ", "))
                                    : fmt::format("did you mean {}?", quoted_alternatives(near)));
  }
}

const std::string* find_given(const Given& given, const std::string& name) {
  for (const auto& [given_name, text] : given)
    if (given_name == name) return &text;
  return nullptr;
}

const plan::Input* find_input(const plan::Job& job, std::string_view name) {
  const auto found = std::ranges::find_if(
      job.inputs, [&](const plan::Input& input) { return job[input.tensor].name == name; });
  return found == job.inputs.end() ? nullptr : &*found;
}

/// Returns the first element that is outside the range, with its index.
std::optional<std::pair<int64_t, int64_t>> first_outside(const std::pair<int64_t, int64_t>& range,
                                                         DType dtype,
                                                         std::span<const std::byte> values) {
  return visit_integer(dtype, [&]<typename T>(T value) {
    std::optional<std::pair<int64_t, int64_t>> found;
    for (size_t i = 0; i < values.size() / sizeof value && !found; ++i) {
      std::memcpy(&value, values.data() + i * sizeof value, sizeof value);
      if (value < range.first || value > range.second)
        found = {static_cast<int64_t>(i), static_cast<int64_t>(value)};
    }
    return found;
  });
}

/// Returns the column by which a job samples rows, if there is one.
std::optional<plan::FromDataset> weights_of(const plan::Job& job) {
  const auto& sampling = job.run.sampling;
  if (!sampling || sampling->kind == plan::Sampling::Kind::kUniform) return {};
  return plan::FromDataset{sampling->dataset, sampling->part, sampling->column};
}

}  // namespace

bool has_input(const plan::Job& job, std::string_view name) { return find_input(job, name); }

bool wants_input(const plan::Job& job, std::string_view name) {
  const plan::Input* input = find_input(job, name);
  return input && std::holds_alternative<plan::FromCommandLine>(input->source);
}

InputPipeline::InputPipeline(const plan::Job& job, const fs::path& root, const Given& given,
                             std::string draws, BatchShare share, Misreading misread,
                             const data::Learned& learned)
    : job_(job),
      draws_(std::move(draws)),
      share_(std::move(share)),
      misread_(misread),
      given_learned_(learned) {
  check_given_names(job, given);
  for (const plan::Input& input : job.inputs) {
    const std::string& name = job[input.tensor].name;
    if (const std::string* text = find_given(given, name)) {
      add(input, parse_input_source(name, *text), "--input " + name, {});
    } else if (std::holds_alternative<plan::FromCommandLine>(input.source)) {
      throw RequestError(
          fmt::format("{}: input `{}` has no source", input.where, name),
          fmt::format("add --input {0}=@FILE.npy or --input {0}=random_uniform:-1:1", name));
    } else {
      add(input, input.source, input.from_where.empty() ? input.where : input.from_where, root);
    }
  }
  open_mixes();
  // `--input` can replace all inputs that read the dataset of the weights.
  if (const auto weights = weights_of(job); weights && !datasets_.empty())
    weights_ = &open_dataset(*weights, root);
  agree_on_length();
  for (Channel& channel : channels_)
    channel.checked_when_read =
        channel.column && !is_float(channel.spec.dtype) && channel.column->is_long();
  if (!share_.checks) return;
  for (const auto& dataset : datasets_)
    remarks_.insert(remarks_.end(), dataset->remarks().begin(), dataset->remarks().end());
  read_integers_once();
  look_for_nonfinite();
}

void InputPipeline::add(const plan::Input& input, const plan::InputSource& source,
                        const std::string& where, const fs::path& root) {
  const plan::Tensor& tensor = job_[input.tensor];
  Channel channel{input.tensor, {tensor.name, tensor.dtype, tensor.shape, where}, nullptr};
  const bool elsewhere = std::ranges::count(share_.streamed, tensor.name) > 0;
  if (!elsewhere) channel.range = input.range;
  if (elsewhere) {
    channel.source = std::make_unique<StreamElsewhere>();
  } else if (const auto* from = std::get_if<plan::FromDataset>(&source)) {
    channel.column = &open_column(*from, channel.spec, root);
    channel.source = std::make_unique<ColumnSource>(*channel.column, channel.spec.dtype);
  } else if (const auto* npy = std::get_if<plan::FromNpy>(&source)) {
    channel.source = make_array_source((root / npy->path).lexically_normal(), channel.spec);
  } else {
    InputSpec drawn = channel.spec;
    drawn.name = draws_ + drawn.name;
    channel.source = make_generator(std::get<plan::FromGenerator>(source), drawn, seed());
  }
  channels_.push_back(std::move(channel));
}

/// Returns the columns of a dataset or part that the job reads.
std::vector<std::string> columns_read(const plan::Job& job, const plan::FromDataset& from) {
  std::vector<std::string> columns;
  for (const plan::Input& input : job.inputs)
    if (const auto* other = std::get_if<plan::FromDataset>(&input.source))
      if (other->rows_name() == from.rows_name()) columns.push_back(other->column);
  if (const auto weights = weights_of(job); weights && weights->rows_name() == from.rows_name())
    columns.push_back(weights->column);
  return columns;
}

data::ReadOptions InputPipeline::read_options(const plan::Dataset& dataset) {
  const bool decodes = std::ranges::any_of(
      dataset.columns, [](const plan::Column& column) { return column.image.has_value(); });
  const int half = std::max(1, static_cast<int>(std::thread::hardware_concurrency()) / 2);
  if (decodes && !pool_)
    pool_ =
        std::make_unique<data::DecodePool>(static_cast<int>(job_.run.data_threads.value_or(half)));
  return {.seed = seed(), .draws = draws_, .training = job_.train, .pool = pool_.get()};
}

data::Dataset& InputPipeline::open_dataset(const plan::FromDataset& from, const fs::path& root) {
  for (const auto& dataset : datasets_)
    if (dataset->name() == from.rows_name()) return *dataset;
  const auto found = std::ranges::find(job_.datasets, from.dataset, &plan::Dataset::name);
  FLOW_CHECK(found != job_.datasets.end(), "dataset {}", from.dataset);
  data::Learned known = given_learned_;
  known.merge(learned());
  datasets_.push_back(
      std::make_unique<data::Dataset>(data::DatasetRequest{.dataset = &*found,
                                                           .part = from.part,
                                                           .columns = columns_read(job_, from),
                                                           .root = root,
                                                           .learned = &known,
                                                           .may_learn = job_.train,
                                                           .options = read_options(*found)}));
  return *datasets_.back();
}

data::Column& InputPipeline::open_column(const plan::FromDataset& from, const InputSpec& spec,
                                         const fs::path& root) {
  data::Column& column = open_dataset(from, root).column(from.column);
  FLOW_CHECK(spec.shape.from(1) == column.row_shape() && (batch_ == 0 || batch_ == spec.shape[0]),
             "input {}", spec.name);
  batch_ = spec.shape[0];
  return column;
}

/// Prepares the inputs whose rows a train job mixes.
void InputPipeline::open_mixes() {
  if (!job_.train) return;
  for (const plan::Input& input : job_.inputs) {
    const auto* from = std::get_if<plan::FromDataset>(&input.source);
    if (!from) continue;
    const auto& mix = std::ranges::find(job_.datasets, from->dataset, &plan::Dataset::name)->mix;
    if (!mix || std::ranges::count(mix->columns, from->column) == 0) continue;
    const auto channel = std::ranges::find(channels_, input.tensor, &Channel::tensor);
    if (channel->column)
      channel->mixed = std::make_unique<MixedRows>(
          *mix, *channel->column, draws_ + from->rows_name(), seed(),
          from->column == mix->columns.front(), image_size(*mix, *from));
  }
}

/// Returns the size of the images of the first column of `mix`, if it has images.
std::optional<data::ImageSize> InputPipeline::image_size(const plan::Mix& mix,
                                                         const plan::FromDataset& of) const {
  for (const plan::Input& input : job_.inputs) {
    const auto* from = std::get_if<plan::FromDataset>(&input.source);
    if (!from || from->rows_name() != of.rows_name() || from->column != mix.columns.front())
      continue;
    const Shape& shape = job_[input.tensor].shape;
    if (shape.rank() == 4) return data::ImageSize{shape[2], shape[3]};
  }
  return {};
}

void InputPipeline::agree_on_length() {
  if (!datasets_.empty()) {
    const data::Dataset& first = *datasets_.front();
    for (const auto& dataset : datasets_)
      if (dataset->rows() != first.rows())
        throw RequestError(
            fmt::format("{}: dataset `{}` has {} rows, `{}` has {}", job_.where, first.name(),
                        first.rows(), dataset->name(), dataset->rows()),
            "use equal lengths: `rows: 0..7` on a column selects rows, `rows: [0..7, 0..3]` also "
            "repeats some");
    order_.emplace(job_.run, *datasets_.front(), seed(), draws_, weights_);
    step_index_ = StepIndex(order_->rows(), batch_, job_.train);
    if (step_index_.steps_per_epoch() == 0)
      throw RequestError(fmt::format("{}: dataset `{}` has {} rows, fewer than a batch of {}",
                                     job_.where, first.name(), first.rows(), batch_),
                         "use a smaller batch, the leading extent of the input shapes");
    rows_.resize(static_cast<size_t>(batch_));
    attempts_.resize(rows_.size());
  }
  const Channel* sliced = nullptr;
  for (const Channel& channel : channels_) {
    const std::optional<int64_t> slices = channel.source->slices();
    if (!slices) continue;
    if (sliced && *slices != *slices_)
      throw RequestError(
          fmt::format("{}: input `{}` has {} slices, `{}` has {}", channel.spec.where,
                      channel.spec.name, *slices, sliced->spec.name, *slices_),
          kSlices);
    if (step_index_.has_rows() && *slices != step_index_.steps_per_epoch())
      throw RequestError(
          fmt::format("{}: input `{}` has {} slices, but an epoch has {} steps", channel.spec.where,
                      channel.spec.name, *slices, step_index_.steps_per_epoch()),
          kSlices);
    slices_ = *slices;
    sliced = &channel;
  }
}

/// Checks all integers before the first step, except those of columns that take long to read, which
/// are checked as they are read. Only integers can fail to fit: floats accept everything that files
/// contain, and lengths are checked elsewhere.
void InputPipeline::read_integers_once() {
  std::vector<std::byte> scratch;
  for (Channel& channel : channels_) {
    if (is_float(channel.spec.dtype)) continue;
    if (channel.checked_when_read) continue;
    const int64_t steps = channel.column             ? ceil_div(channel.column->rows(), batch_)
                          : channel.source->varies() ? channel.source->slices().value_or(0)
                                                     : 1;
    scratch.resize(channel.spec.bytes());
    for (int64_t step = 0; step < steps; ++step) {
      for (size_t i = 0; i < rows_.size(); ++i)
        rows_[i] = std::min(step * batch_ + static_cast<int64_t>(i), datasets_.front()->rows() - 1);
      channel.source->fill({step, rows_}, scratch);
      check_range(channel, scratch, step);
    }
  }
}

void InputPipeline::check_range(const Channel& channel, std::span<const std::byte> values,
                                int64_t step) const {
  if (!channel.range) return;
  const auto found = first_outside(*channel.range, channel.spec.dtype, values);
  if (!found) return;
  const Shape& shape = channel.spec.shape;
  const size_t first = channel.checked_when_read ? first_row_of_part() : 0;
  const std::string place =
      channel.column
          ? "in " + channel.column->row_text(
                        rows_[first +
                              static_cast<size_t>(found->first / shape.elements(1, shape.rank()))])
          : fmt::format("at {} of step {}", shape.index_str(found->first), step);
  throw RunError(fmt::format("{}: input `{}` contains {} {}; expected {} to {}", channel.spec.where,
                             channel.spec.name, found->second, place, channel.range->first,
                             channel.range->second),
                 "correct the data, or the `range` of the input");
}

/// Reads whole files of floats to find values that are not finite, because the effect of NaN on a
/// layer may not be visible.
void InputPipeline::look_for_nonfinite() {
  for (const Channel& channel : channels_) {
    if (!channel.column) continue;
    const data::Nonfinite found = channel.column->nonfinite();
    if (found.count == 0) continue;
    const auto& from = std::get<plan::FromDataset>(
        std::ranges::find(job_.inputs, channel.tensor, &plan::Input::tensor)->source);
    remarks_.push_back(fmt::format("{}: column `{}` of dataset `{}`: {}", channel.column->where(),
                                   from.column, from.rows_name(),
                                   channel.column->nonfinite_text(found)));
  }
  note_nonfinite_sources();
}

void InputPipeline::note_nonfinite_sources() {
  for (Channel& channel : channels_) {
    if (channel.column || channel.noted) continue;
    const std::string found = channel.source->nonfinite();
    if (found.empty()) continue;
    channel.noted = true;
    remarks_.push_back(
        fmt::format("{}: input `{}`: {}", channel.spec.where, channel.spec.name, found));
  }
}

std::vector<std::string> InputPipeline::remarks_of_streams() {
  if (!is_seen_reading()) return {};
  const auto before = static_cast<ptrdiff_t>(remarks_.size());
  note_nonfinite_sources();
  return {remarks_.begin() + before, remarks_.end()};
}

std::vector<ColumnInput> InputPipeline::columns() const {
  std::vector<ColumnInput> columns;
  for (const Channel& channel : channels_) {
    if (!channel.column) continue;
    // Rows that stay on a device are read once, so they must be equal in each epoch.
    const bool varies = channel.mixed || channel.column->is_decoded();
    if (varies || (channel.checked_when_read && channel.range)) return {};
    columns.push_back({channel.tensor, channel.column});
  }
  return columns;
}

bool InputPipeline::is_seen_reading() const {
  return std::ranges::any_of(
      channels_, [](const Channel& channel) { return channel.source->is_seen_reading(); });
}

bool InputPipeline::varies() const {
  return std::ranges::any_of(channels_,
                             [](const Channel& channel) { return channel.source->varies(); });
}

void InputPipeline::prime(Program& program, size_t slot) {
  for (Channel& channel : channels_)
    if (!channel.source->varies()) channel.source->fill({}, program.input(channel.tensor, slot));
}

int64_t InputPipeline::data_row(int64_t step, int64_t row) const {
  const Position position = step_index_.at(step);
  const int64_t at = position.row + std::min(row, position.rows - 1);
  return order_->row_of(position.epoch, at);
}

/// Returns a column whose rows have names, which is one that reads a folder of images or tar files.
/// Returns null if there is none.
const data::Column* InputPipeline::named_column() const {
  for (const plan::Input& input : job_.inputs) {
    const auto* from = std::get_if<plan::FromDataset>(&input.source);
    const auto channel = std::ranges::find(channels_, input.tensor, &Channel::tensor);
    if (!from || channel == channels_.end() || !channel->column) continue;
    const auto dataset = std::ranges::find(job_.datasets, from->dataset, &plan::Dataset::name);
    const auto column = std::ranges::find(dataset->columns, from->column, &plan::Column::name);
    if (column->source == plan::SourceKind::kImages || column->source == plan::SourceKind::kTar)
      return channel->column;
  }
  return nullptr;
}

std::string InputPipeline::names_of_rows(int64_t first, int64_t end) {
  std::string names;
  const data::Column* column = named_column();
  for (int64_t step = first; column && step < end; ++step) {
    const Position position = step_index_.at(step);
    order_->begin(position.epoch);
    for (int64_t i = 0; i < position.rows; ++i)
      names += escaped(column->row_text(order_->row(position.row + i))) + '\n';
  }
  return names;
}

std::string InputPipeline::row_text(const std::string& input, int64_t step, int64_t row) const {
  const int64_t of_data = data_row(step, row);
  for (const Channel& channel : channels_)
    if (channel.column && channel.spec.name == input) return channel.column->row_text(of_data);
  return fmt::format("row {} of the data", of_data);
}

void InputPipeline::find_rows(const Position& position) {
  order_->begin(position.epoch);
  for (int64_t i = 0; i < batch_; ++i) {
    // An incomplete batch repeats its last real row, so that no label is out of range.
    const int64_t at = position.row + std::min(i, position.rows - 1);
    rows_[static_cast<size_t>(i)] = order_->row(at);
    attempts_[static_cast<size_t>(i)] = order_->earlier_uses(at);
  }
}

bool InputPipeline::fill(Program& program, int64_t step, size_t slot,
                         const std::function<bool()>& give_up) {
  step += misread_.steps;
  const Position position = step_index_.at(step);
  if (step_index_.has_rows()) find_rows(position);
  const std::span<int64_t> kept = program.rows(slot);
  if (!kept.empty()) std::ranges::copy(rows_, kept.begin());
  for (Channel& channel : channels_) channel.source->open();
  for (Channel& channel : channels_) {
    if (!channel.source->varies() || (channel.column && !kept.empty())) continue;
    const std::span<std::byte> values = program.input(channel.tensor, slot);
    const Reading reading{step,      rows_,
                          &give_up,  static_cast<uint32_t>(position.epoch),
                          attempts_, batch_ > 0 ? position.row / batch_ : 0};
    if (!fill_in_step(channel, reading, values)) return false;
    const bool checked_before = channel.column || channel.source->slices();
    if (!checked_before || channel.checked_when_read)
      check_range(channel, channel.column ? part_of(values) : values, step);
  }
  return true;
}

/// Fills an input. If it is a pipe, also detects that another pipe ended early: the programs that
/// write the pipes may wait for each other, or may be one program.
bool InputPipeline::fill_in_step(Channel& channel, const Reading& reading,
                                 std::span<std::byte> out) const {
  if (!channel.source->is_seen_reading()) return fill(channel, reading, out);
  const auto gives_up = [&] { return *reading.give_up && (*reading.give_up)(); };
  const auto looks_around = [&] {
    require_writers(channel);
    return gives_up();
  };
  const std::function<bool()> give_up = std::ref(looks_around);
  try {
    if (fill(channel, {reading.step, {}, &give_up}, out)) return true;
  } catch (const StreamEnded& error) {
    throw RunError(error.what() + other_streams(channel), error.hint());
  }
  if (!gives_up()) require_end_of_all(channel, reading.step);
  return false;
}

/// Throws RunError if another stream ended before its first record: a program that ended before it
/// opened all of its pipes never writes to the remaining ones. Whether `waiting` still has no
/// writer is checked last, because a writer that opened it in the meantime may have written to it.
void InputPipeline::require_writers(const Channel& waiting) const {
  for (const Channel& channel : channels_) {
    const std::optional<StreamState> other = channel.source->stream();
    if (!other || !other->ended || other->records > 0) continue;
    if (!waiting.source->stream()->awaits_writer) return;
    throw RunError(fmt::format("{}: {} ended before its first record{}", channel.spec.where,
                               other->path, other_streams(channel)),
                   kOneRecordEach);
  }
}

void InputPipeline::require_end_of_all(const Channel& ended, int64_t step) const {
  for (const Channel& channel : channels_) {
    const std::optional<StreamState> other = channel.source->stream();
    if (&channel == &ended || !other || (other->records <= step && !other->has_more)) continue;
    throw RunError(
        fmt::format("{}: {} ended after {}, but {} of input `{}` has more", ended.spec.where,
                    ended.source->stream()->path, counted(static_cast<uint64_t>(step), "record"),
                    other->path, channel.spec.name),
        kOneRecordEach);
  }
}

/// Describes the progress of the other streams, for a message.
std::string InputPipeline::other_streams(const Channel& channel) const {
  std::string text;
  for (const Channel& one : channels_)
    if (const auto other = one.source->stream(); other && &one != &channel)
      text += fmt::format("; {} of input `{}` is at record {}", other->path, one.spec.name,
                          other->records);
  return text;
}

bool InputPipeline::fill(Channel& channel, const Reading& reading, std::span<std::byte> out) const {
  if (!channel.column) return channel.source->fill(reading, out);
  const size_t first = first_row_of_part();
  const size_t rows = reading.rows.size() / static_cast<size_t>(share_.ranks);
  if (channel.mixed) {
    fill_mixed(channel, reading, first, rows, part_of(out));
    return true;
  }
  Reading mine = reading;
  mine.rows = reading.rows.subspan(first, rows);
  mine.attempts = reading.attempts.subspan(first, rows);
  return channel.source->fill(mine, part_of(out));
}

size_t InputPipeline::first_row_of_part() const {
  return rows_.size() / static_cast<size_t>(share_.ranks) * static_cast<size_t>(share_.rank);
}

std::span<std::byte> InputPipeline::part_of(std::span<std::byte> batch) const {
  const size_t bytes = batch.size() / static_cast<size_t>(share_.ranks);
  return batch.subspan(bytes * static_cast<size_t>(share_.rank), bytes);
}

/// Fills rows [first, first + count) of a batch, each mixed with the row after it.
void InputPipeline::fill_mixed(Channel& channel, const Reading& reading, size_t first, size_t count,
                               std::span<std::byte> out) const {
  std::vector<int64_t>& rows = channel.mixed_rows;
  std::vector<uint32_t>& attempts = channel.mixed_attempts;
  rows.clear();
  attempts.clear();
  for (size_t i = first; i <= first + count; ++i) {
    rows.push_back(reading.rows[i % reading.rows.size()]);
    attempts.push_back(reading.attempts[i % reading.rows.size()]);
  }
  channel.mixed->fill({rows, reading.epoch, attempts}, reading.batch, channel.spec.dtype, out);
}

data::Learned InputPipeline::learned() const {
  data::Learned learned;
  for (const auto& dataset : datasets_)
    learned.insert(dataset->learned().begin(), dataset->learned().end());
  return learned;
}

}  // namespace flow::exec
