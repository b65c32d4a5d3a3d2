"""Golden paths of optimizers as PyTorch computes them, in float64. Usage: python3 make_torch.py (PyTorch 2.9 or later, NumPy).

Start values and gradients are the arrays of make.py, learning rates are the same. PyTorch's Muon rounds to bfloat16 before its
products; here it does not. Variables other than matrices use PyTorch's AdamW.
"""
import contextlib
import pathlib
import unittest.mock

import numpy as np
import torch

HERE = pathlib.Path(__file__).parent
START, GRADIENTS = ({key: torch.tensor(np.load(HERE / f"{name}_{key}.npy")) for key in "wb"} for name in ("start", "gradients"))


def rate(s):
    return 0.1 if s <= 20 else 0.05


def adafactor(**options):
    return lambda w, b: [torch.optim.Adafactor([w, b], foreach=False, **options)]


def muon(weight_decay=0.1, betas=(0.9, 0.999), eps=1e-8, norm_eps=1e-7, **options):
    return lambda w, b: [torch.optim.Muon([w], weight_decay=weight_decay, eps=norm_eps, **options),
                         torch.optim.AdamW([b], weight_decay=weight_decay, betas=betas, eps=eps)]


CASES = {
    "adafactor": adafactor(),
    "adafactor_decay": adafactor(beta2_decay=-0.5, eps=(0.3, 0.7), d=1.25, weight_decay=0.01),
    "muon": muon(),
    "muon_rms": muon(weight_decay=0.01, betas=(0.8, 0.9), eps=1e-3, norm_eps=1.5, momentum=0.8, nesterov=False, ns_steps=3,
                     adjust_lr_fn="match_rms_adamw"),
}


@contextlib.contextmanager
def unrounded():
    """Tensors that are to become bfloat16 stay float64."""
    to = torch.Tensor.to

    def keep(tensor, *args, dtype=None, copy=False, **options):
        return to(tensor, *args, dtype=torch.float64 if dtype == torch.bfloat16 else dtype, copy=copy, **options)
    with unittest.mock.patch.object(torch.Tensor, "to", keep):
        yield


def path(make):
    values = {key: start.clone().requires_grad_() for key, start in START.items()}
    optimizers, out = make(**values), {key: [] for key in values}
    for s in range(len(GRADIENTS["w"])):
        for key, value in values.items():
            value.grad = GRADIENTS[key][s].clone()
        for optimizer in optimizers:
            optimizer.param_groups[0]["lr"] = rate(s)
            optimizer.step()
        for key, value in values.items():
            out[key].append(value.detach().numpy().copy())
    return out


with unrounded():
    for case, make in CASES.items():
        for key, values in path(make).items():
            np.save(HERE / f"{case}_{key}.npy", np.array(values))
