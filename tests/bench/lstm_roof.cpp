// What oneDNN's own LSTM reaches; op_bench measures that of flow. Prints the milliseconds of a
// forward pass for training, and of one with its gradients: the best of several. Weights are packed
// in each pass, since a training step changes them.
// Usage: lstm_roof THREADS ROWS STEPS FEATURES UNITS DIRECTIONS
#include <omp.h>
#include <dnnl.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unordered_map>

namespace {

using dnnl::memory;
using Arguments = std::unordered_map<int, memory>;

struct Extents {
  memory::dim rows, steps, features, units, directions;
};

class Lstm {
 public:
  explicit Lstm(const Extents& n)
      : x_({n.steps, n.rows, n.features}, kType, memory::format_tag::ntc),
        y_({n.steps, n.rows, n.directions * n.units}, kType, memory::format_tag::ntc),
        state_({1, n.directions, n.rows, n.units}, kType, memory::format_tag::ldnc),
        bias_({1, n.directions, 4, n.units}, kType, memory::format_tag::ldgo),
        input_weights_({1, n.directions, n.features, 4, n.units}, kType, memory::format_tag::any),
        state_weights_({1, n.directions, n.units, 4, n.units}, kType, memory::format_tag::any),
        forward_({dnnl::prop_kind::forward_training, direction(n), x_, state_, state_,
                  input_weights_, state_weights_, bias_, y_, state_, state_},
                 engine_),
        backward_({dnnl::prop_kind::backward,
                   direction(n),
                   x_,
                   state_,
                   state_,
                   input_weights_,
                   state_weights_,
                   bias_,
                   y_,
                   state_,
                   state_,
                   x_,
                   state_,
                   state_,
                   input_weights_,
                   state_weights_,
                   bias_,
                   y_,
                   state_,
                   state_},
                  engine_, forward_),
        run_forward_(forward_),
        run_backward_(backward_),
        given_input_weights_(filled(plain(n, n.features))),
        given_state_weights_(filled(plain(n, n.units))) {
    forward_arguments_ = {{DNNL_ARG_SRC_LAYER, filled(x_)},
                          {DNNL_ARG_SRC_ITER, filled(state_)},
                          {DNNL_ARG_SRC_ITER_C, filled(state_)},
                          {DNNL_ARG_WEIGHTS_LAYER, filled(forward_.weights_layer_desc())},
                          {DNNL_ARG_WEIGHTS_ITER, filled(forward_.weights_iter_desc())},
                          {DNNL_ARG_BIAS, filled(bias_)},
                          {DNNL_ARG_DST_LAYER, filled(y_)},
                          {DNNL_ARG_DST_ITER, filled(state_)},
                          {DNNL_ARG_DST_ITER_C, filled(state_)},
                          {DNNL_ARG_WORKSPACE, filled(forward_.workspace_desc())}};
    backward_arguments_ = forward_arguments_;
    backward_arguments_[DNNL_ARG_WEIGHTS_LAYER] = filled(backward_.weights_layer_desc());
    backward_arguments_[DNNL_ARG_WEIGHTS_ITER] = filled(backward_.weights_iter_desc());
    backward_arguments_.insert(
        {{DNNL_ARG_DIFF_SRC_LAYER, filled(x_)},
         {DNNL_ARG_DIFF_SRC_ITER, filled(state_)},
         {DNNL_ARG_DIFF_SRC_ITER_C, filled(state_)},
         {DNNL_ARG_DIFF_WEIGHTS_LAYER, filled(backward_.diff_weights_layer_desc())},
         {DNNL_ARG_DIFF_WEIGHTS_ITER, filled(backward_.diff_weights_iter_desc())},
         {DNNL_ARG_DIFF_BIAS, filled(bias_)},
         {DNNL_ARG_DIFF_DST_LAYER, filled(y_)},
         {DNNL_ARG_DIFF_DST_ITER, filled(state_)},
         {DNNL_ARG_DIFF_DST_ITER_C, filled(state_)}});
  }

  void forward() {
    pack(forward_arguments_);
    run_forward_.execute(stream_, forward_arguments_);
    stream_.wait();
  }

  /// After forward().
  void backward() {
    pack(backward_arguments_);
    // oneDNN adds to these.
    for (const int sum :
         {DNNL_ARG_DIFF_WEIGHTS_LAYER, DNNL_ARG_DIFF_WEIGHTS_ITER, DNNL_ARG_DIFF_BIAS})
      fill(backward_arguments_.at(sum), 0);
    run_backward_.execute(stream_, backward_arguments_);
    unpack(DNNL_ARG_DIFF_WEIGHTS_LAYER, given_input_weights_);
    unpack(DNNL_ARG_DIFF_WEIGHTS_ITER, given_state_weights_);
    stream_.wait();
  }

 private:
  static constexpr memory::data_type kType = memory::data_type::f32;

  static dnnl::rnn_direction direction(const Extents& n) {
    return n.directions == 2 ? dnnl::rnn_direction::bidirectional_concat
                             : dnnl::rnn_direction::unidirectional_left2right;
  }

  /// Weights as PyTorch stores them: (4 units, inputs) of each direction.
  static memory::desc plain(const Extents& n, memory::dim inputs) {
    return {{1, n.directions, inputs, 4, n.units}, kType, memory::format_tag::ldgoi};
  }

  static void fill(const memory& made, float value) {
    auto* to = static_cast<float*>(made.get_data_handle());
    std::fill_n(to, made.get_desc().get_size() / sizeof(float), value);
  }
  memory filled(const memory::desc& desc) {
    memory made(desc, engine_);
    fill(made, 0.01F);
    return made;
  }

  void pack(const Arguments& to) {
    for (const auto& [argument, from] : {std::pair{DNNL_ARG_WEIGHTS_LAYER, &given_input_weights_},
                                         {DNNL_ARG_WEIGHTS_ITER, &given_state_weights_}}) {
      memory packed = to.at(argument);
      dnnl::reorder(*from, packed).execute(stream_, *from, packed);
    }
  }

  void unpack(int argument, const memory& like) {
    memory packed = backward_arguments_.at(argument), gradient(like.get_desc(), engine_);
    dnnl::reorder(packed, gradient).execute(stream_, packed, gradient);
  }

  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  memory::desc x_, y_, state_, bias_, input_weights_, state_weights_;
  dnnl::lstm_forward::primitive_desc forward_;
  dnnl::lstm_backward::primitive_desc backward_;
  dnnl::lstm_forward run_forward_;
  dnnl::lstm_backward run_backward_;
  memory given_input_weights_, given_state_weights_;
  Arguments forward_arguments_, backward_arguments_;
};

template <typename Run>
double milliseconds(Run run) {
  const auto start = std::chrono::steady_clock::now();
  run();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 7) {
    std::fprintf(stderr, "usage: lstm_roof THREADS ROWS STEPS FEATURES UNITS DIRECTIONS\n");
    return 2;
  }
  omp_set_num_threads(std::atoi(argv[1]));
  const auto extent = [&](int i) { return memory::dim{std::atoi(argv[i])}; };
  Lstm lstm({extent(2), extent(3), extent(4), extent(5), extent(6)});
  double forward = 1e9, both = 1e9;
  const auto start = std::chrono::steady_clock::now();
  const auto seconds = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  for (int run = 0; run < 5 || seconds() < 1; ++run) {
    const double first = milliseconds([&] { lstm.forward(); });
    const double second = milliseconds([&] { lstm.backward(); });
    forward = std::min(forward, first);
    both = std::min(both, first + second);
  }
  std::printf("%.3f %.3f\n", forward, both);
}
