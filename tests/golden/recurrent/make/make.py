#!/usr/bin/env python3
"""LSTMs, GRUs and simple recurrent networks by PyTorch in float64: results, gradients and ten updates by SGD. Writes the
.npz files beside `make`.

Usage: make.py (PyTorch, NumPy). Arrays of a file: x, lengths and initial states where there are any, a factor for each
result, of whose products with the results the loss is the sum; results; `before/NAME`, `after/NAME` and `diff/NAME` for
the variables, the input and the states; the loss of each step.
"""
import pathlib

import numpy as np
import torch
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

OUT = pathlib.Path(__file__).resolve().parent.parent
ROWS, STEPS, FEATURES, UNITS, UPDATES, RATE = 3, 5, 4, 3, 10, 0.005
LENGTHS = [3, 5, 1]
CASES = {
    "lstm": (torch.nn.LSTM, {"num_layers": 2, "bidirectional": True}, True),
    "gru": (torch.nn.GRU, {"num_layers": 2}, True),
    "gru_both": (torch.nn.GRU, {"bidirectional": True}, False),
    "rnn": (torch.nn.RNN, {"nonlinearity": "relu", "bidirectional": True}, True),
    "rnn_tanh": (torch.nn.RNN, {"bias": False}, False),
}


def joined(states):
    """(layers * directions, N, units) as (N, layers * directions * units)."""
    return states.transpose(0, 1).reshape(states.shape[1], -1)


def split(states):
    return states.reshape(states.shape[0], -1, UNITS).transpose(0, 1).contiguous()


def run(net, x, initial, lengths):
    states = tuple(split(state) for state in initial)
    states = (states if len(states) > 1 else states[0]) if states else None
    if lengths:
        packed = pack_padded_sequence(x, torch.tensor(lengths), batch_first=True, enforce_sorted=False)
        out, last = net(packed, states)
        out = pad_packed_sequence(out, batch_first=True, total_length=x.shape[1])[0]
    else:
        out, last = net(x, states)
    return [out, *(joined(state) for state in (last if isinstance(last, tuple) else (last,)))]


def make(name, kind, options, given, random):
    net = kind(FEATURES, UNITS, batch_first=True, **options).double()
    count = options.get("num_layers", 1) * (2 if options.get("bidirectional") else 1)

    def numbers(*shape):
        return torch.tensor(random.uniform(-1, 1, shape), requires_grad=True)
    with torch.no_grad():
        for variable in net.parameters():
            variable.copy_(numbers(*variable.shape))
    ports = ["out", "h", "c"][:3 if kind is torch.nn.LSTM else 2]
    x = numbers(ROWS, STEPS, FEATURES)
    initial = [numbers(ROWS, count * UNITS) for _ in ports[1:]] if given else []
    lengths = LENGTHS if given else None
    variables = dict(net.named_parameters())
    arrays = {f"before/{key}": variable.detach().numpy().copy() for key, variable in variables.items()}
    arrays |= {"x": x.detach().numpy(), **{f"initial_{port}": state.detach().numpy() for port, state in zip(ports[1:], initial)}}
    if lengths:
        arrays["lengths"] = np.array(lengths, np.int32)
    results = run(net, x, initial, lengths)
    factors = [torch.tensor(random.uniform(-1, 1, result.shape)) for result in results]
    arrays |= {port: result.detach().numpy() for port, result in zip(ports, results)}
    arrays |= {f"factor_{port}": factor.numpy() for port, factor in zip(ports, factors)}
    optimizer, losses = torch.optim.SGD(net.parameters(), lr=RATE), []
    for step in range(UPDATES):
        optimizer.zero_grad()
        loss = sum((result * factor).sum() for result, factor in zip(run(net, x, initial, lengths), factors))
        losses.append(loss.item())
        loss.backward()
        if step == 0:
            arrays |= {f"diff/{key}": variable.grad.numpy().copy() for key, variable in variables.items()}
            arrays |= {"diff/x": x.grad.numpy().copy(), **{f"diff/initial_{port}": state.grad.numpy().copy() for port, state in zip(ports[1:], initial)}}
        optimizer.step()
    arrays |= {f"after/{key}": variable.detach().numpy() for key, variable in variables.items()}
    np.savez_compressed(OUT / f"{name}.npz", losses=np.array(losses), **arrays)


def main():
    for number, (name, (kind, options, given)) in enumerate(CASES.items()):
        make(name, kind, options, given, np.random.default_rng(number))


if __name__ == "__main__":
    main()
