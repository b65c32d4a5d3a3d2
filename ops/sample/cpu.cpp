// The kernel of sample. It finds the likeliest tokens by partitioning, and the drawn token too, so
// a row costs only a few passes over its logits.
#include <algorithm>
#include <utility>

#include "ops/sample/problem.h"
#include "runtime/cpu/backend/families.h"
#include "runtime/cpu/loops/operands.h"

namespace flow::cpu::fast {
namespace {

struct Token {
  uint64_t order;   // the order of its logit
  uint64_t weight;  // 0 until it is computed
  int64_t place;
};

bool is_likelier(const Token& a, const Token& b) {
  return a.order > b.order || (a.order == b.order && a.place < b.place);
}

bool comes_first(const Token& a, const Token& b) { return a.place < b.place; }

uint64_t weight_of_all(const Token* first, const Token* end) {
  uint64_t all = 0;
  for (; first != end; ++first) all += first->weight;
  return all;
}

/// Moves to the front the fewest tokens, in the order of `before`, that together weigh `least`.
/// Returns their end; the last of these tokens is directly before it.
template <typename Before>
Token* move_up(Token* first, Token* end, uint64_t least, Before before) {
  constexpr std::ptrdiff_t kFew = 32;
  while (end - first > kFew) {
    Token* const middle = first + (end - first) / 2;
    std::nth_element(first, middle, end, before);
    const uint64_t weight = weight_of_all(first, middle);
    if (weight >= least) {
      end = middle;
    } else {
      least -= weight;
      first = middle;
    }
  }
  std::sort(first, end, before);
  for (; first != end && first->weight < least; ++first) least -= first->weight;
  return first + 1;
}

template <typename T>
int32_t likeliest(const T* logits, int64_t n) {
  int64_t best = 0;
  auto order = order_of(logits[0]);
  for (int64_t i = 1; i < n; ++i)
    if (const auto other = order_of(logits[i]); other > order) {
      best = i;
      order = other;
    }
  return static_cast<int32_t>(best);
}

/// Finds the tokens that may be drawn and computes their weights. Returns their end.
template <typename T>
Token* keep_tokens(const T* logits, int64_t n, const Sampling& sampling, Token* tokens) {
  for (int64_t i = 0; i < n; ++i) tokens[i] = {order_of(logits[i]), 0, i};
  Token* end = tokens + n;
  if (sampling.top_k > 0 && sampling.top_k < n) {
    std::nth_element(tokens, tokens + sampling.top_k - 1, end, is_likelier);
    end = tokens + sampling.top_k;
  }
  const T most = logits[std::min_element(tokens, end, is_likelier)->place];
  for (Token* token = tokens; token != end; ++token)
    token->weight = weight_of(logits[token->place], most, sampling.temperature);
  if (sampling.top_p < 1)
    end =
        move_up(tokens, end, kept_weight(weight_of_all(tokens, end), sampling.top_p), is_likelier);
  return end;
}

template <typename T>
Kernel draw_tokens(const Request& request, const SampleProblem& sizes) {
  Kernel kernel = in_pieces(request, sizes.rows, 1, [sizes](const Piece& piece) {
    const Buffers& buffers = piece.buffers;
    const int64_t row = piece.first, n = sizes.tokens;
    Token* tokens = reinterpret_cast<Token*>(buffers.workspace) + piece.worker * n;
    Token* const end = keep_tokens(input<T>(buffers, 0) + row * n, n, sizes.sampling, tokens);
    const int64_t position = integer_at(sizes.position, buffers.inputs[1], sizes.position_at(row));
    const uint64_t drawn = sizes.draw(row, position, piece.state, weight_of_all(tokens, end));
    *piece.output<int32_t>(0) =
        static_cast<int32_t>(move_up(tokens, end, drawn + 1, comes_first)[-1].place);
  });
  kernel.workspace = static_cast<size_t>(request.threads * sizes.tokens) * sizeof(Token);
  return kernel;
}

template <typename T>
Kernel take_likeliest(const Request& request, const SampleProblem& sizes) {
  return by_rows(
      request, sizes.rows, sizes.tokens, [n = sizes.tokens](const Piece& piece, int64_t row) {
        output<int32_t>(piece.buffers, 0)[row] = likeliest(input<T>(piece.buffers, 0) + row * n, n);
      });
}

Kernel prepare_sample(const Request& request) {
  const SampleProblem sizes = sample_problem(request);
  return visit_float(request.inputs[0].dtype, [&]<typename T>(T) {
    return sizes.sampling.temperature == 0 ? take_likeliest<T>(request, sizes)
                                           : draw_tokens<T>(request, sizes);
  });
}

}  // namespace

std::span<const KernelEntry> sample() {
  static constexpr KernelEntry kKernels[] = {
      {.op = "sample", .prepare = prepare_sample, .float64 = prepare_sample}};
  return kKernels;
}

}  // namespace flow::cpu::fast
