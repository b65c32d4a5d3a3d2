"""Golden paths of optimizers as PyTorch computes them, in float64. Usage: python3 make_torch.py (PyTorch 2.9 or later, NumPy).

Start values and gradients are the arrays of make.py, learning rates are the same. PyTorch's Muon rounds to bfloat16 before its
products; here it does not. Variables other than matrices use PyTorch's AdamW.
"""
import contextlib
import pathlib
import unittest.mock

import numpy as np
import torch

ARRAYS = pathlib.Path(__file__).with_name("optimizers.npz")
with np.load(ARRAYS) as file:
    arrays = dict(file)
START, GRADIENTS = ({key: torch.tensor(arrays[f"{name}_{key}"]) for key in "wb"} for name in ("start", "gradients"))


def rate(s):
    return 0.1 if s <= 20 else 0.05


def adafactor(**options):
    return lambda w, b: [torch.optim.Adafactor([w, b], foreach=False, **options)]


def muon(weight_decay=0.1, betas=(0.9, 0.999), eps=1e-8, norm_eps=1e-7, **options):
    return lambda w, b: [torch.optim.Muon([w], weight_decay=weight_decay, eps=norm_eps, **options),
                         torch.optim.AdamW([b], weight_decay=weight_decay, betas=betas, eps=eps)]


def plain(name, **options):
    return lambda w, b: [getattr(torch.optim, name)([w, b], **options)]


CASES = {
    "sgd_decay_clip2": plain("SGD", weight_decay=0.02),
    "sgd_nesterov_decay": plain("SGD", momentum=0.9, nesterov=True, weight_decay=0.02),
    "adam_amsgrad_decay": plain("Adam", betas=(0.8, 0.9), amsgrad=True, weight_decay=0.02),
    "adamw_amsgrad": plain("AdamW", betas=(0.8, 0.9), amsgrad=True, weight_decay=0.01),
    "rmsprop_torch": plain("RMSprop", eps=1e-3),
    "rmsprop_momentum": plain("RMSprop", alpha=0.9, eps=1e-3, momentum=0.9),
    "rmsprop_all": plain("RMSprop", alpha=0.9, eps=1e-3, momentum=0.8, centered=True, weight_decay=0.02),
    "adagrad_decay": plain("Adagrad", eps=1e-3, initial_accumulator_value=0.1, weight_decay=0.02),
    "adadelta_decay": plain("Adadelta", rho=0.8, eps=1e-3, weight_decay=0.02),
    "nadam_l2": plain("NAdam", momentum_decay=1.0, weight_decay=0.02),
    "radam_l2": plain("RAdam", betas=(0.9, 0.9), weight_decay=0.02),
    "adafactor": adafactor(),
    "adafactor_decay": adafactor(beta2_decay=-0.5, eps=(0.3, 0.7), d=1.25, weight_decay=0.01),
    "muon": muon(),
    "muon_rms": muon(weight_decay=0.01, betas=(0.8, 0.9), eps=1e-3, norm_eps=1.5, momentum=0.8, nesterov=False, ns_steps=3,
                     adjust_lr_fn="match_rms_adamw"),
}


torch.set_default_dtype(torch.float64)  # NAdam keeps a product of momenta in it
CLIP_NORMS = {"sgd_decay_clip2": 2.0}


@contextlib.contextmanager
def unrounded():
    """Tensors that are to become bfloat16 stay float64."""
    to = torch.Tensor.to

    def keep(tensor, *args, dtype=None, copy=False, **options):
        return to(tensor, *args, dtype=torch.float64 if dtype == torch.bfloat16 else dtype, copy=copy, **options)
    with unittest.mock.patch.object(torch.Tensor, "to", keep):
        yield


def path(make, clip_norm):
    values = {key: start.clone().requires_grad_() for key, start in START.items()}
    optimizers, out = make(**values), {key: [] for key in values}
    for s in range(len(GRADIENTS["w"])):
        for key, value in values.items():
            value.grad = GRADIENTS[key][s].clone()
        if clip_norm:
            torch.nn.utils.clip_grad_norm_(values.values(), clip_norm)
        for optimizer in optimizers:
            optimizer.param_groups[0]["lr"] = rate(s)
            optimizer.step()
        for key, value in values.items():
            out[key].append(value.detach().numpy().copy())
    return out


with unrounded():
    for case, make in CASES.items():
        for key, values in path(make, CLIP_NORMS.get(case)).items():
            arrays[f"{case}_{key}"] = np.array(values)
np.savez(ARRAYS, **arrays)
