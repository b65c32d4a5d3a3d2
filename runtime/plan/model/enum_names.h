// The names of the plan's enumerators and of the alternatives of its variants, in their order.
#pragma once

#include <array>
#include <string_view>
#include <variant>

#include "runtime/plan/model/plan.h"

namespace flow::plan {

template <>
struct EnumNames<Role> {
  static constexpr std::array<std::string_view, 3> words = {"input", "variable", "result"};
};
template <>
struct EnumNames<Reduce> {
  static constexpr std::array<std::string_view, 6> words = {"none", "mean", "sum",
                                                            "min",  "max",  "norm"};
};
template <>
struct EnumNames<Over> {
  static constexpr std::array<std::string_view, 3> words = {"step", "epoch", "run"};
};
template <>
struct EnumNames<CommandSink::Mode> {
  static constexpr std::array<std::string_view, 2> words = {"stream", "spawn"};
};
template <>
struct EnumNames<CommandSink::Format> {
  static constexpr std::array<std::string_view, 2> words = {"npy", "text"};
};
template <>
struct EnumNames<CommandSink::OnError> {
  static constexpr std::array<std::string_view, 2> words = {"fail", "warn"};
};
template <>
struct EnumNames<ReturnValue::Kind> {
  static constexpr std::array<std::string_view, 5> words = {"numpy", "list_numpy", "list", "tuple",
                                                            "dict"};
};
template <>
struct EnumNames<Hook::Kind> {
  static constexpr std::array<std::string_view, 2> words = {"watch", "watch_diff"};
};
template <>
struct EnumNames<DeviceKind> {
  static constexpr std::array<std::string_view, 2> words = {"cpu", "gpu"};
};
template <>
struct EnumNames<Combine> {
  static constexpr std::array<std::string_view, 5> words = {"none", "sum", "mean", "max", "min"};
};
/// For a variant, the words name its alternatives. It is written as an object with one key: {"npy":
/// {...}}.
template <>
struct EnumNames<InputSource> {
  static constexpr std::array<std::string_view, 4> words = {"command_line", "dataset", "npy",
                                                            "generator"};
};
/// The words are the names of the records.
template <typename... T>
constexpr std::array<std::string_view, sizeof...(T)> record_types(const std::variant<T...>*) {
  return {T::record().type...};
}
template <>
struct EnumNames<Augment> {
  static constexpr auto words = record_types(static_cast<const Augment*>(nullptr));
};
template <>
struct EnumNames<Sink> {
  static constexpr std::array<std::string_view, 6> words = {"npy",   "print", "command",
                                                            "stats", "none",  "mean"};
};

}  // namespace flow::plan
