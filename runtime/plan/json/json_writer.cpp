// Structs to JSON text.
#include "runtime/plan/json/json_writer.h"

#include <cmath>

#include "runtime/base/check.h"
#include "runtime/base/text.h"
#include "runtime/plan/json/json_text.h"

namespace flow::plan {

void JsonWriter::begin(char bracket, bool spread) {
  out_ += bracket;
  open_.push_back({spread});
}

void JsonWriter::end(char bracket) {
  const bool on_own_line = open_.back().spread && !open_.back().empty;
  open_.pop_back();
  if (on_own_line) {
    out_ += '\n';
    out_.append(2 * open_.size(), ' ');
  }
  out_ += bracket;
}

void JsonWriter::begin_element() {
  Open& open = open_.back();
  if (!open.empty) out_ += ',';
  if (open.spread) {
    out_ += '\n';
    out_.append(2 * open_.size(), ' ');
  }
  open.empty = false;
}

void JsonWriter::begin_key(std::string_view key) {
  FLOW_CHECK(open_.back().empty || open_.back().last_key < key, "`{}` is not in order", key);
  begin_element();
  open_.back().last_key = key;
  put(key);
  out_ += open_.back().spread ? ": " : ":";
}

void JsonWriter::put(bool value) { out_ += value ? "true" : "false"; }

void JsonWriter::put(double value) { out_ += json_number(value); }

void JsonWriter::put(std::string_view text) { out_ += json_string(text); }

void JsonWriter::put(TensorId id) {
  if (id.valid())
    put((*job_)[id].name);
  else
    out_ += "null";
}

void JsonWriter::put(StepId id) {
  if (id.valid())
    put(job_->steps[id.index()].name);
  else
    out_ += "null";
}

void JsonWriter::put(const Attributes& attributes) {
  begin('{', false);
  for (const auto& [name, value] : attributes) {
    // Texts and dtypes look alike; the name tells them apart.
    FLOW_CHECK((name == kDTypeAttribute) == std::holds_alternative<DType>(value), "`{}`", name);
    begin_key(name);
    std::visit([this](const auto& one) { this->put(one); }, value);
  }
  end('}');
}

}  // namespace flow::plan
