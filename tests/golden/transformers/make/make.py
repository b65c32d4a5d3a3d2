#!/usr/bin/env python3
"""Models of Hugging Face's transformers, tiny and random, in float64: results, gradients and ten updates by SGD. Writes the
.npz files beside `make`.

Usage: make.py (PyTorch, transformers, NumPy). Arrays of a model: its inputs; `before/NAME`, float32, under the names that
`save_pretrained` writes; `logits`; `diff/NAME`, the gradient of the mean loss; `after/NAME` and `losses` of the updates.
`ops.npz` has calls of rope and attention, and their gradients.
"""
import pathlib
import tempfile

import numpy as np
import torch

# transformers computes angles, root mean squares and weights of attention in float32, whatever the dtype of a model.
torch.float = torch.float32 = torch.float64
torch.Tensor.float = torch.Tensor.double

import transformers as hf  # noqa: E402
from safetensors.torch import load_file  # noqa: E402
from transformers.models.gptj import modeling_gptj as gptj  # noqa: E402

OUT = pathlib.Path(__file__).resolve().parent.parent
RATE, MOMENTUM, UPDATES = 0.05, 0.9, 10
VOCABULARY = 23
COMMON = {"attn_implementation": "eager", "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 0}
LLAMA = {"vocab_size": VOCABULARY, "hidden_size": 16, "intermediate_size": 20, "num_hidden_layers": 2, "num_attention_heads": 4,
         "num_key_value_heads": 2, "max_position_embeddings": 32, "rms_norm_eps": 1e-5, **COMMON}


def randomized(model, random):
    """With float32 numbers, so that the weights of a file are exact."""
    model = model.double().eval()
    with torch.no_grad():
        for name, variable in model.named_parameters():
            numbers = random.normal(scale=0.3, size=tuple(variable.shape)) + (variable.ndim == 1 and "norm" in name.lower() and "weight" in name)
            variable.copy_(torch.tensor(numbers.astype(np.float32).astype(np.float64)))
    return model


def saved(model, change=lambda variable: variable):
    """Arrays of the variables, under the names in a file."""
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        kept = [variable.clone() for variable in model.parameters()]
        for variable in model.parameters():
            variable.copy_(change(variable))
        model.save_pretrained(folder)
        for variable, value in zip(model.parameters(), kept):
            variable.copy_(value)
        return {name: array.numpy() for name, array in load_file(f"{folder}/model.safetensors").items()}


def train(name, model, inputs, logits_of, labels):
    def loss_of(logits):
        return torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), labels.reshape(-1).long())
    arrays = {f"before/{key}": array.astype(np.float32) for key, array in saved(model).items()}
    arrays |= {key: array.numpy() for key, array in inputs.items()} | {"labels": labels.numpy()}
    arrays["logits"] = logits_of(model).detach().numpy()
    optimizer, losses = torch.optim.SGD(model.parameters(), lr=RATE, momentum=MOMENTUM), []
    for step in range(UPDATES):
        optimizer.zero_grad()
        loss = loss_of(logits_of(model))
        losses.append(loss.item())
        loss.backward()
        if step == 0:
            arrays |= {f"diff/{key}": array for key, array in saved(model, lambda variable: variable.grad).items()}
        optimizer.step()
    arrays |= {f"after/{key}": array for key, array in saved(model).items()}
    np.savez_compressed(OUT / f"{name}.npz", losses=np.array(losses), **arrays)


def integers(random, high, *shape):
    return torch.tensor(random.integers(0, high, shape, np.int32))


def make_language_model(name, kind, config, random):
    window = integers(random, VOCABULARY, 3, 9)
    tokens = window[:, :-1].long()
    model = randomized(kind(config), random)
    train(name, model, {"window": window}, lambda net: net(input_ids=tokens).logits, window[:, 1:].contiguous())


def make_scaled_llama(random):
    """The scaled angles of Llama 3: logits alone."""
    scaling = {"rope_type": "llama3", "rope_theta": 500.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
               "original_max_position_embeddings": 16}
    model = randomized(hf.LlamaForCausalLM(hf.LlamaConfig(**LLAMA, rope_parameters=scaling)), random)
    tokens = integers(random, VOCABULARY, 1, 24)
    arrays = {f"before/{key}": array.astype(np.float32) for key, array in saved(model).items()}
    np.savez_compressed(OUT / "llama3.npz", tokens=tokens.numpy(), logits=model(input_ids=tokens.long()).logits.detach().numpy(), **arrays)


def make_bert(random):
    model = randomized(hf.BertForSequenceClassification(hf.BertConfig(
        vocab_size=VOCABULARY, hidden_size=12, intermediate_size=20, num_hidden_layers=2, num_attention_heads=2, max_position_embeddings=10,
        num_labels=3, hidden_dropout_prob=0, attention_probs_dropout_prob=0, **COMMON)), random)
    lengths = torch.tensor([7, 2, 5, 1], dtype=torch.int32)
    # PyTorch trains no embedding of token 0, which stands for padding: there is none before the lengths.
    inputs = {"tokens": 1 + integers(random, VOCABULARY - 1, 4, 7), "types": integers(random, 2, 4, 7), "lengths": lengths}
    mask = (torch.arange(7) < lengths[:, None]).long()
    train("bert", model, inputs, lambda net: net(input_ids=inputs["tokens"].long(), token_type_ids=inputs["types"].long(), attention_mask=mask).logits,
          integers(random, 3, 4))


def make_vit(random):
    model = randomized(hf.ViTForImageClassification(hf.ViTConfig(
        hidden_size=12, intermediate_size=20, num_hidden_layers=2, num_attention_heads=2, image_size=8, patch_size=4, num_channels=3,
        num_labels=5, hidden_dropout_prob=0, attention_probs_dropout_prob=0, attn_implementation="eager")), random)
    images = torch.tensor(random.uniform(-1, 1, (3, 3, 8, 8)).astype(np.float32).astype(np.float64))
    train("vit", model, {"images": images}, lambda net: net(pixel_values=images).logits, integers(random, 5, 3))


def rotated_pairs(x, positions, dims, theta):
    """As GPT-J rotates, which has the heads behind the positions."""
    angles = positions[..., None].double() * theta ** (-torch.arange(0, dims, 2, dtype=torch.float64) / dims)
    turned = gptj.apply_rotary_pos_emb(x[..., :dims].transpose(1, 2), torch.sin(angles), torch.cos(angles)).transpose(1, 2)
    return torch.cat([turned, x[..., dims:]], dim=-1)


def make_ops(random):
    """Each call has a factor, of whose product with the result the loss is the sum."""
    arrays = {}

    def call(name, result_of, operands, **others):
        made = {key: torch.tensor(random.uniform(-1, 1, shape), requires_grad=True) for key, shape in operands.items()}
        result = result_of(*made.values())
        factor = torch.tensor(random.uniform(-1, 1, result.shape))
        (result * factor).sum().backward()
        for key, value in {**made, **others, "factor": factor, "result": result}.items():
            arrays[f"{name}/{key}"] = value.detach().numpy()
        for key, value in made.items():
            arrays[f"{name}/diff_{key}"] = value.grad.numpy()

    positions = torch.tensor([[0, 1, 2, 3], [7, 3, 900, 11]], dtype=torch.int32)
    call("rope", lambda x: rotated_pairs(x, positions, 6, 1000.0), {"x": (2, 3, 4, 8)}, positions=positions)
    attend = torch.nn.functional.scaled_dot_product_attention
    three = {"query": (2, 4, 5, 3), "key": (2, 2, 6, 3), "value": (2, 2, 6, 2)}
    call("grouped", lambda q, k, v: attend(q, k, v, is_causal=True, enable_gqa=True), three)
    call("bias", lambda q, k, v, bias: attend(q, k, v, attn_mask=bias, enable_gqa=True), {**three, "bias": (4, 5, 6)})
    keys, places = torch.arange(6), torch.arange(5)[:, None]
    band = (keys <= places) & (keys > places - 2)
    call("window", lambda q, k, v: attend(q, k, v, attn_mask=band, enable_gqa=True), three)
    lengths = torch.tensor([6, 2], dtype=torch.int32)
    shown = keys < lengths[:, None, None, None]
    call("lengths", lambda q, k, v, bias: attend(q, k, v, attn_mask=torch.where(shown, bias, -torch.inf), enable_gqa=True),
         {**three, "bias": (2, 1, 1, 6)}, lengths=lengths)
    np.savez_compressed(OUT / "ops.npz", **arrays)


def main():
    hf.utils.logging.set_verbosity_error()
    make_language_model("gpt2", hf.GPT2LMHeadModel, hf.GPT2Config(
        vocab_size=VOCABULARY, n_positions=8, n_embd=12, n_layer=2, n_head=2, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, **COMMON),
        np.random.default_rng(1))
    make_language_model("llama", hf.LlamaForCausalLM, hf.LlamaConfig(**LLAMA), np.random.default_rng(2))
    make_scaled_llama(np.random.default_rng(3))
    make_bert(np.random.default_rng(4))
    make_vit(np.random.default_rng(5))
    make_ops(np.random.default_rng(6))


if __name__ == "__main__":
    main()
