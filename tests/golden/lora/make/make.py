#!/usr/bin/env python3
"""A tiny GPT-2 and a tiny Llama of `transformers` with LoRA adapters of `peft`, in float64: logits, gradients of the adapters,
ten updates by Adam, and generated tokens. Writes gpt2.npz and llama.npz beside `make`.

Usage: make.py (PyTorch, transformers, peft, NumPy). Arrays: `window` (N, context + 1); `base/NAME`, numbers that bfloat16
has, in float32; `before/NAME`, `diff/NAME` (of the mean loss) and `after/NAME` of each adapter, under the names of the
files that peft saves; logits and the loss of each step; `prompt`, padded on the left, `lengths` and the `tokens` that follow.
"""
import pathlib

import numpy as np
import torch

# transformers computes angles, root mean squares and weights of attention in float32, whatever the dtype of a model.
torch.float = torch.float32 = torch.float64
torch.Tensor.float = torch.Tensor.double

from peft import LoraConfig, get_peft_model, get_peft_model_state_dict  # noqa: E402
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM  # noqa: E402

OUT = pathlib.Path(__file__).resolve().parent.parent
VOCABULARY, CONTEXT, WIDTH, LAYERS, BATCH = 30, 6, 8, 2, 3
RANK, ALPHA, UPDATES, RATE = 2, 6, 10, 0.01
COMMON = {"vocab_size": VOCABULARY, "initializer_range": 0.3, "attn_implementation": "eager", "bos_token_id": 0, "eos_token_id": None, "pad_token_id": 0}
# The model, what differs from the defaults of its adapters, and the numbers of tokens of a prompt and behind it.
MODELS = {
    "gpt2": (lambda: GPT2LMHeadModel(GPT2Config(n_positions=CONTEXT, n_embd=WIDTH, n_layer=LAYERS, n_head=2, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, **COMMON)),
             {"target_modules": ["c_attn"], "fan_in_fan_out": True}, 3, 3),
    "llama": (lambda: LlamaForCausalLM(LlamaConfig(hidden_size=WIDTH, intermediate_size=12, num_hidden_layers=LAYERS, num_attention_heads=4,
                                                   num_key_value_heads=2, max_position_embeddings=16, rms_norm_eps=1e-5, **COMMON)), {}, 4, 6),
}


def build(make, settings):
    torch.manual_seed(5)
    model = make()
    with torch.no_grad():
        for parameter in model.parameters():      # biases start at zero; numbers of bfloat16 are numbers of float64
            parameter.add_(0.1 * torch.randn_like(parameter))
            parameter.copy_(parameter.to(torch.bfloat16))
    tied = ("lm_head.weight",) if model.config.tie_word_embeddings else ()
    base = {name: array.numpy().astype(np.float32) for name, array in model.state_dict().items() if name not in tied and not name.endswith((".attn.bias", ".masked_bias"))}
    adapted = get_peft_model(model.double(), LoraConfig(r=RANK, lora_alpha=ALPHA, lora_dropout=0, task_type="CAUSAL_LM", **settings)).double()
    with torch.no_grad():
        for name, parameter in adapted.named_parameters():
            if "lora_B" in name:                  # zeros else, and then A has no gradient
                parameter.copy_(0.2 * torch.randn_like(parameter))
    return base, adapted


def generated(model, size, new):
    """Prompts of different lengths, at most `size`, and the likeliest tokens after them."""
    lengths = np.array([size - 1, 1, size], np.int32)
    prompt = np.zeros((len(lengths), size), np.int32)
    for row, length in enumerate(lengths):
        prompt[row, size - length:] = 1 + (5 * row + np.arange(length)) % (VOCABULARY - 1)
    mask = np.arange(size) >= size - lengths[:, None]
    made = model.generate(input_ids=torch.tensor(prompt).long(), attention_mask=torch.tensor(mask).long(), do_sample=False, max_new_tokens=new)
    return {"prompt": prompt, "lengths": lengths, "tokens": made[:, size:].numpy().astype(np.int32)}


def write(kind):
    make, settings, *sizes = MODELS[kind]
    base, model = build(make, settings)
    window = torch.randint(0, VOCABULARY, (BATCH, CONTEXT + 1))
    arrays = {"window": window.numpy().astype(np.int32)} | {f"base/{name}": array for name, array in base.items()}
    arrays |= generated(model, *sizes)

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
    np.savez_compressed(OUT / f"{kind}.npz", **arrays)


def main():
    for kind in MODELS:
        write(kind)


if __name__ == "__main__":
    main()
