// sample: the likeliest tokens are found by partition, as is the one that is drawn, so that a row
// costs a few passes over its logits.
#include <algorithm>
#include <utility>

#include "runtime/cpu/backend/families.h"
#include "runtime/cpu/loops/sampling.h"

namespace flow::cpu::fast {
namespace {

struct Token {
  uint64_t order;   // of its logit
  uint64_t weight;  // once it is known
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

/// Moves the fewest first tokens of that order that together weigh `least` to the front; returns
/// their end, before which the last of them lies.
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

/// The tokens that may be drawn, weighed; returns their end.
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
    end = move_up(tokens, end, share_of(weight_of_all(tokens, end), sampling.top_p), is_likelier);
  return end;
}

template <typename T>
Launch draw_tokens(const SampleSizes& sizes, const Sampling& sampling, int threads) {
  return [=](const Buffers& buffers, const CallState& state) {
    const T* logits = input<T>(buffers, 0);
    int32_t* out = output<int32_t>(buffers, 0);
    parallel_for(threads, sizes.rows, [&](int64_t row, int worker) {
      const T* of_row = logits + row * sizes.tokens;
      Token* tokens = reinterpret_cast<Token*>(buffers.workspace) + worker * sizes.tokens;
      Token* const end = keep_tokens(of_row, sizes.tokens, sampling, tokens);
      const uint64_t drawn =
          draw_of_row(sizes, sampling, buffers, state, row, weight_of_all(tokens, end));
      out[row] = static_cast<int32_t>(move_up(tokens, end, drawn + 1, comes_first)[-1].place);
    });
  };
}

template <typename T>
Launch take_likeliest(const SampleSizes& sizes, int threads) {
  return [=](const Buffers& buffers, const CallState&) {
    for_pieces(threads, sizes.rows, std::max<int64_t>(1, kPiece / sizes.tokens),
               [&](int64_t first, int64_t end) {
                 for (int64_t row = first; row < end; ++row)
                   output<int32_t>(buffers, 0)[row] =
                       likeliest(input<T>(buffers, 0) + row * sizes.tokens, sizes.tokens);
               });
  };
}

Kernel prepare_sample(const Request& request) {
  const SampleSizes sizes = sample_sizes(request);
  const Sampling sampling = sampling_of(request);
  const bool greedy = sampling.temperature == 0;
  Kernel kernel;
  if (!greedy)
    kernel.workspace =
        static_cast<size_t>(request.threads) * static_cast<size_t>(sizes.tokens) * sizeof(Token);
  kernel.launch = visit_float(request.inputs[0].dtype, [&]<typename T>(T) {
    return greedy ? take_likeliest<T>(sizes, request.threads)
                  : draw_tokens<T>(sizes, sampling, request.threads);
  });
  return kernel;
}

}  // namespace

std::span<const KernelEntry> sample() {
  static constexpr KernelEntry kKernels[] = {
      {.op = "sample", .prepare = prepare_sample, .float64 = prepare_sample}};
  return kKernels;
}

}  // namespace flow::cpu::fast
