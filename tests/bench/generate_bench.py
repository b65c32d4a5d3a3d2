#!/usr/bin/env python3
"""Tokens per second that jobs/gpt2.yaml generates with random weights of GPT-2's size, beside Hugging Face's transformers.

Usage: tests/bench/generate_bench.py [--rounds N] [--threads N] [--new N] [--torch PYTHON]

Each round runs every contestant once, in turn. A figure is the median of the rounds: the tokens of all rows but the first, over the time
that they take beyond a run that makes two. So neither the start nor the prompt counts. `--torch PYTHON` names an interpreter that has PyTorch
and transformers; without it flow runs alone.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import tempfile

import numpy as np

SOURCE = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("FLOW_BIN", SOURCE / "build" / "release" / "bin"))
PROMPT = 32

TRANSFORMERS = """
import sys, time, numpy, torch
from transformers import GPT2Config, GPT2LMHeadModel
tokens, threads, new = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
torch.set_num_threads(threads)
model = GPT2LMHeadModel(GPT2Config()).eval()
model.generation_config.eos_token_id = None
tokens = torch.tensor(numpy.load(tokens)).long()
def seconds(new):
    begin = time.perf_counter()
    with torch.no_grad():
        model.generate(tokens, attention_mask=torch.ones_like(tokens), do_sample=False, max_new_tokens=new, pad_token_id=0)
    return time.perf_counter() - begin
seconds(2)
print(seconds(new) - seconds(2))
"""


def flow_seconds(folder, rows, threads, new):
    def seconds(new):
        sets = [f"data.prompts.tokens.npy={folder}/tokens.npy", f"data.prompts.lengths.npy={folder}/lengths.npy", f"vars.prompts={rows}", f"vars.prompt={PROMPT}",
                f"vars.new={new}", "vars.end=-1", "vars.temperature=0", "jobs.generate.run.checkpoint.load=none"]
        subprocess.run([str(BIN / "flowrun"), "generate", str(SOURCE / "jobs" / "gpt2.yaml"), "-o", f"{folder}/out", "--force", "--quiet", "--device", "cpu",
                        "--threads", str(threads), *(word for one in sets for word in ("--set", one))], check=True)
        return json.loads(pathlib.Path(folder, "out/run.json").read_text())["seconds"]
    return seconds(new) - seconds(2)


def transformers_seconds(python, folder, threads, new):
    words = [python, "-c", TRANSFORMERS, f"{folder}/tokens.npy", str(threads), str(new)]
    return float(subprocess.run(words, check=True, capture_output=True, text=True).stdout.split()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--new", type=int, default=34)
    parser.add_argument("--torch")
    options = parser.parse_args()
    print(f"{options.threads} threads, prompts of {PROMPT} tokens, {options.new} new ones: tokens per second")
    for rows in (1, 8):
        with tempfile.TemporaryDirectory() as folder:
            np.save(f"{folder}/tokens.npy", np.random.default_rng(0).integers(0, 50000, (rows, PROMPT), np.int32))
            np.save(f"{folder}/lengths.npy", np.full(rows, PROMPT, np.int32))
            speeds = {"flow": [], "transformers": []}
            for _ in range(options.rounds):
                tokens = rows * (options.new - 2)
                speeds["flow"].append(tokens / flow_seconds(folder, rows, options.threads, options.new))
                if options.torch:
                    speeds["transformers"].append(tokens / transformers_seconds(options.torch, folder, options.threads, options.new))
            print(f"batch {rows}:", ", ".join(f"{name} {statistics.median(each):.1f}" for name, each in speeds.items() if each), flush=True)


if __name__ == "__main__":
    main()
