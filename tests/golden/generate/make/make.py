#!/usr/bin/env python3
"""Greedy generation by Hugging Face's GPT-2 and Llama with random weights in float64, from prompts of different lengths. Writes
gpt2.npz and llama.npz beside `make`.

Usage: make.py (PyTorch, transformers, NumPy). Arrays: the model's state_dict; prompt, padded on the left; lengths;
tokens and logits of each step. Rows that have ended repeat the end token, END.
"""
import pathlib

import numpy as np
import torch

# transformers computes angles, root mean squares and weights of attention in float32, whatever the dtype of a model.
torch.float = torch.float32 = torch.float64
torch.Tensor.float = torch.Tensor.double

from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM  # noqa: E402

OUT = pathlib.Path(__file__).resolve().parent.parent
LENGTHS, PROMPT, NEW, END, VOCABULARY = [5, 2, 6, 4], 6, 9, 11, 40
COMMON = {"vocab_size": VOCABULARY, "attn_implementation": "eager", "bos_token_id": END, "eos_token_id": END, "pad_token_id": END}


def generate(name, model, seed):
    """`model`: with weights; `seed`: of the prompts."""
    random = np.random.default_rng(seed)
    prompt = np.full((len(LENGTHS), PROMPT), END, np.int32)
    mask = np.zeros_like(prompt)
    for row, length in enumerate(LENGTHS):
        prompt[row, PROMPT - length:] = random.integers(12, VOCABULARY, length)
        mask[row, PROMPT - length:] = 1
    made = model.generate(torch.tensor(prompt).long(), attention_mask=torch.tensor(mask).long(), do_sample=False, max_new_tokens=NEW)
    tokens = made[:, PROMPT:].numpy().astype(np.int32)
    tokens = np.pad(tokens, [(0, 0), (0, NEW - tokens.shape[1])], constant_values=END)
    print(name, tokens)
    # `generate` gives logits in float32 alone.
    mask = torch.tensor(np.pad(mask, [(0, 0), (0, made.shape[1] - PROMPT)], constant_values=1)).long()
    with torch.no_grad():
        logits = model(made, attention_mask=mask, position_ids=(mask.cumsum(1) - 1).clamp(min=0)).logits[:, PROMPT - 1:-1].numpy()
    arrays = {key: value.numpy() for key, value in model.state_dict().items() if not key.endswith((".attn.bias", ".masked_bias"))}
    if model.config.tie_word_embeddings:
        del arrays["lm_head.weight"]
    np.savez(OUT / f"{name}.npz", prompt=prompt, lengths=np.array(LENGTHS, np.int32), tokens=tokens, logits=logits, **arrays)


def randomized(model):
    model = model.double().eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "ln_" not in name:
                parameter.normal_(*((1, 0.3) if "norm" in name else (0, 0.5)))
    return model


torch.manual_seed(34)
generate("gpt2", randomized(GPT2LMHeadModel(GPT2Config(n_positions=16, n_embd=12, n_layer=2, n_head=3, **COMMON))), 34)
torch.manual_seed(8)
generate("llama", randomized(LlamaForCausalLM(LlamaConfig(
    hidden_size=16, intermediate_size=20, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=32,
    rms_norm_eps=1e-5, **COMMON))), 8)
