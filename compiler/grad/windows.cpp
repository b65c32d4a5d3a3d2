// Lengths as images of height 1, over which windows slide.
#include "compiler/grad/windows.h"

#include <utility>
#include <vector>

#include "compiler/ir/builder.h"

namespace flow {

ir::ValueId with_height(const LayerContext& context, std::string_view part, ir::ValueId x) {
  if (!x.valid()) return {};
  std::vector<int64_t> shape = context.builder.graph()[x].shape.extents();
  shape.insert(shape.end() - 1, 1);
  return context.add("reshape", part, {x}, {{"shape", std::move(shape)}});
}

ir::ValueId without_height(const LayerContext& context, std::string_view part, ir::ValueId y) {
  if (!y.valid()) return {};
  std::vector<int64_t> shape = context.builder.graph()[y].shape.extents();
  shape.erase(shape.end() - 2);
  return context.add("reshape", part, {y}, {{"shape", std::move(shape)}});
}

}  // namespace flow
