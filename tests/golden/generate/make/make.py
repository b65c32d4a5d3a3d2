#!/usr/bin/env python3
"""Greedy generation by Hugging Face's GPT-2 with random weights in float64, from prompts of different lengths. Writes
gpt2.npz beside `make`.

Usage: make.py (PyTorch, transformers, NumPy). Arrays: the model's state_dict; prompt, padded on the left; lengths;
tokens and logits of each step. Rows that have ended repeat the end token, END.
"""
import pathlib

import numpy as np
import torch
from transformers import GPT2Config, GPT2LMHeadModel

OUT = pathlib.Path(__file__).resolve().parent.parent
LENGTHS, PROMPT, NEW, END = [5, 2, 6, 4], 6, 9, 11

torch.manual_seed(34)
random = np.random.default_rng(34)
config = GPT2Config(vocab_size=40, n_positions=16, n_embd=12, n_layer=2, n_head=3, attn_implementation="eager",
                    bos_token_id=END, eos_token_id=END, pad_token_id=END)
model = GPT2LMHeadModel(config).double().eval()
with torch.no_grad():
    for name, parameter in model.named_parameters():
        if "ln_" not in name:
            parameter.normal_(0, 0.5)
prompt = np.full((len(LENGTHS), PROMPT), END, np.int32)
mask = np.zeros_like(prompt)
for row, length in enumerate(LENGTHS):
    prompt[row, PROMPT - length:] = random.integers(12, 40, length)
    mask[row, PROMPT - length:] = 1
made = model.generate(torch.tensor(prompt).long(), attention_mask=torch.tensor(mask).long(), do_sample=False, max_new_tokens=NEW)
tokens = made[:, PROMPT:].numpy().astype(np.int32)
tokens = np.pad(tokens, [(0, 0), (0, NEW - tokens.shape[1])], constant_values=END)
print(tokens)
# `generate` gives logits in float32 alone.
mask = torch.tensor(np.pad(mask, [(0, 0), (0, made.shape[1] - PROMPT)], constant_values=1)).long()
with torch.no_grad():
    logits = model(made, attention_mask=mask, position_ids=(mask.cumsum(1) - 1).clamp(min=0)).logits[:, PROMPT - 1:-1].numpy()
arrays = {name: value.numpy() for name, value in model.state_dict().items() if name != "lm_head.weight" and not name.endswith((".attn.bias", ".masked_bias"))}
np.savez(OUT / "gpt2.npz", prompt=prompt, lengths=np.array(LENGTHS, np.int32), tokens=tokens, logits=logits, **arrays)
