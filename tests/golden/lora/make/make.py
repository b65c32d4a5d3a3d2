#!/usr/bin/env python3
"""A tiny GPT-2 of `transformers` with LoRA adapters of `peft`, in float64: logits, gradients of the adapters and ten updates
by Adam. Writes lora.npz beside `make`.

Usage: make.py (PyTorch, transformers, peft, NumPy). Arrays: `window` (N, context + 1); `base/NAME`, numbers that bfloat16
has, in float32; `before/NAME`, `diff/NAME` (of the mean loss) and `after/NAME` of each adapter, under the names of the
files that peft saves; logits and the loss of each step.
"""
import pathlib

import numpy as np
import torch
from peft import LoraConfig, get_peft_model, get_peft_model_state_dict
from transformers import GPT2Config, GPT2LMHeadModel

OUT = pathlib.Path(__file__).resolve().parent.parent
VOCABULARY, CONTEXT, WIDTH, LAYERS, HEADS, BATCH = 30, 6, 8, 2, 2, 3
RANK, ALPHA, UPDATES, RATE = 2, 6, 10, 0.01


def build():
    torch.manual_seed(5)
    config = GPT2Config(vocab_size=VOCABULARY, n_positions=CONTEXT, n_embd=WIDTH, n_layer=LAYERS, n_head=HEADS, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0,
                        initializer_range=0.3, attn_implementation="eager")
    model = GPT2LMHeadModel(config)
    with torch.no_grad():
        for parameter in model.parameters():      # biases start at zero; numbers of bfloat16 are numbers of float64
            parameter.add_(0.1 * torch.randn_like(parameter))
            parameter.copy_(parameter.to(torch.bfloat16))
    base = {name: array.float().numpy() for name, array in model.state_dict().items() if name != "lm_head.weight" and not name.endswith((".attn.bias", ".masked_bias"))}
    config = LoraConfig(r=RANK, lora_alpha=ALPHA, target_modules=["c_attn"], fan_in_fan_out=True, lora_dropout=0, task_type="CAUSAL_LM")
    adapted = get_peft_model(model.double(), config).double()
    with torch.no_grad():
        for name, parameter in adapted.named_parameters():
            if "lora_B" in name:                  # zeros else, and then A has no gradient
                parameter.copy_(0.2 * torch.randn_like(parameter))
    return base, adapted


def main():
    base, model = build()
    window = torch.randint(0, VOCABULARY, (BATCH, CONTEXT + 1))
    arrays = {"window": window.numpy().astype(np.int32)} | {f"base/{name}": array for name, array in base.items()}

    def adapters(kind):
        return {f"{kind}/{name}": value.detach().numpy().copy() for name, value in get_peft_model_state_dict(model).items()}
    arrays |= adapters("before")
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.Adam(trained, lr=RATE)
    losses = []
    for step in range(UPDATES):
        logits = model(window[:, :-1]).logits
        loss = torch.nn.functional.cross_entropy(logits.reshape(-1, VOCABULARY), window[:, 1:].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        losses.append(loss.item())
        if step == 0:
            arrays["logits"] = logits.detach().numpy()
            gradients = {name.replace(".default", ""): parameter.grad.numpy().copy() for name, parameter in model.named_parameters() if parameter.requires_grad}
            arrays |= {f"diff/{name}": value for name, value in gradients.items()}
        optimizer.step()
    arrays |= adapters("after")
    arrays["losses"] = np.array(losses)
    np.savez_compressed(OUT / "lora.npz", **arrays)


if __name__ == "__main__":
    main()
