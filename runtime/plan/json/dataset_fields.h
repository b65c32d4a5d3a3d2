// The keys of records and datasets in the JSON of plans, for writing and reading (see fields.h).
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include "runtime/plan/model/dataset.h"
#include "runtime/plan/model/record.h"

namespace flow::plan {

/// True if `Given` is a `T` to be read or a `const T` to be written.
template <typename Given, typename T>
concept Is = std::same_as<std::remove_const_t<Given>, T>;

template <typename T>
constexpr auto field_names() {
  return std::apply(
      [](const auto&... field) {
        return std::array<std::string_view, sizeof...(field)>{field.name...};
      },
      T::record().fields);
}

/// Returns the positions of the fields of a record, in the order of their names.
template <typename T>
constexpr auto sorted_fields() {
  constexpr auto kNames = field_names<T>();
  std::array<size_t, kNames.size()> order{};
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::sort(order, {}, [&](size_t i) { return kNames[i]; });
  return order;
}

/// A struct whose members are written as its record names them.
template <typename T>
concept IsRecord =
    HasRecord<std::remove_const_t<T>> && !Is<T, Column> && !Is<T, Dataset> && !Is<T, Split>;

template <typename T>
concept CanBeEmpty = std::constructible_from<bool, const T&> || requires(const T& value) {
  value.empty();
};

/// A member that can be absent is only written if it has a value.
void field(auto& text, auto& record, const auto& field) {
  if constexpr (CanBeEmpty<typename std::remove_cvref_t<decltype(field)>::Value>)
    if (field.fallback == kNoDefault) return text.given(field.name, record.*field.member);
  text(field.name, record.*field.member);
}

void fields(auto& text, IsRecord auto& record) {
  using T = std::remove_const_t<std::remove_reference_t<decltype(record)>>;
  constexpr auto kOrder = sorted_fields<T>();
  [&]<size_t... I>(std::index_sequence<I...>) {
    (field(text, record, std::get<kOrder[I]>(T::record().fields)), ...);
  }
  (std::make_index_sequence<kOrder.size()>());
}

void fields(auto& text, Is<Replacement> auto& replacement) {
  text.given("category", replacement.category);
  text("kind", replacement.kind);
  text("number", replacement.number);
}

void fields(auto& text, Is<Categories> auto& categories) {
  text.given("file", categories.file);
  text("kind", categories.kind);
  text.given("names", categories.names);
}

void fields(auto& text, Is<Tokenizer> auto& tokenizer) {
  text.given("characters", tokenizer.characters);
  text.given("json", tokenizer.json);
  text("kind", tokenizer.kind);
  text.given("merges", tokenizer.merges);
  text.given("special", tokenizer.special);
  text.given("vocab", tokenizer.vocab);
}

void fields(auto& text, Is<ImageSize> auto& size) {
  text("height", size.height);
  text("shorter", size.shorter);
  text("width", size.width);
}

void fields(auto& text, Is<Column> auto& column) {
  text("array", column.array);
  text.given("bin", column.bin);
  text.given("cell", column.cell);
  text.given("csv", column.csv);
  text.one_or_more("files", column.files);
  text("format", column.source);
  text.given("image", column.image);
  text.given("learn_mean", column.mean.learn);
  text.given("learn_std", column.std.learn);
  text.given("learned_from", column.learned_from);
  text("mean", column.mean.values);
  text("name", column.name);
  text("row_shape", column.row_shape);
  text("rows", column.rows);
  text("scale", column.scale);
  text("std", column.std.values);
  text.given("tar", column.tar);
  text.given("text", column.text);
  text.remark("where", column.where);
  text.given("window", column.window);
}

void fields(auto& text, Is<SplitPart> auto& part) {
  text("fraction", part.fraction);
  text("name", part.name);
}

void fields(auto& text, Is<Split> auto& split) {
  text.given("by", split.by);
  text.given("group", split.group);
  text("parts", split.parts);
  text("seed", split.seed);
  text("take", split.take);
}

void fields(auto& text, Is<Dataset> auto& dataset) {
  text.given("cache", dataset.cache);
  text("columns", dataset.columns);
  text.given("max_bad_rows", dataset.max_bad_rows);
  text.given("mix", dataset.mix);
  text("name", dataset.name);
  text.given("on_bad_row", dataset.on_bad_row);
  text.given("split", dataset.split);
  text.remark("where", dataset.where);
}

void fields(auto& text, Is<Sampling> auto& sampling) {
  text.given("column", sampling.column);
  text.given("dataset", sampling.dataset);
  text("epoch_rows", sampling.epoch_rows);
  text("kind", sampling.kind);
  text.given("part", sampling.part);
}

}  // namespace flow::plan
