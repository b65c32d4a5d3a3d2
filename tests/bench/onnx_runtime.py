#!/usr/bin/env python3
"""Exports every predict job of jobs/, and a job with every op, runs them in ONNX Runtime and compares with flowrun. Not part of the tests: this
needs a package from PyPI.

    /usr/bin/python3 -m venv --system-site-packages /tmp/onnx && /tmp/onnx/bin/pip install onnxruntime==1.16 "numpy<2"
    /tmp/onnx/bin/python tests/bench/onnx_runtime.py [BIN]

A row for each job, as in docs/benchmarks.md: its results; the largest difference of one as a part of its largest magnitude; the same of the scores
of which the job returns only a decision, from a copy of the job that returns them; and whether the model ran with a row less, too.
The exit status is 1 where a difference is above 1e-5, or a model does not run."""
import pathlib
import sys
import tempfile

import numpy as np
import onnxruntime

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "tests" / "e2e"))
import onnx_jobs  # noqa: E402

MOST = 1e-5


def compare(bin_folder, file, job, folder, *flags):
    """Differences by result, and whether the model takes another number of rows."""
    folder.mkdir()
    flags = [*onnx_jobs.sets_of(file), *flags]
    if weights := onnx_jobs.random_weights(job):
        np.savez(folder / "weights.npz", **weights)
        flags += ["--load", folder / "weights.npz"]
    inputs, expected = onnx_jobs.run_once(bin_folder / "flowrun", file, job, folder / "out", *flags)
    onnx_jobs.call(bin_folder / "flowc", "export", file, "--job", job["name"], "-o", folder / "model.onnx", *flags, cwd=folder)
    session = onnxruntime.InferenceSession(str(folder / "model.onnx"), providers=["CPUExecutionProvider"])
    outputs = [one.name for one in session.get_outputs()]
    results = dict(zip(outputs, session.run(None, {one.name: inputs[one.name] for one in session.get_inputs()})))
    differences = {name: onnx_jobs.distance(results[name], array) for name, array in expected.items()}
    batch = {one.name for one in session.get_inputs() if one.shape[:1] == ["batch"]}
    fewer = {one.name: inputs[one.name][:-1] if one.name in batch else inputs[one.name] for one in session.get_inputs()}
    if batch:
        session.run(None, fewer)
    return differences, bool(batch)


def row(bin_folder, file, job, folder):
    """The row of a job, and whether all differences are small."""
    differences, any_batch = compare(bin_folder, file, job, folder / "results")
    scores = {}
    if names := onnx_jobs.scores(job):
        returns = f"jobs.{job['name']}.returns={{value: {{{', '.join(f'{name}: {name}' for name in names)}}}, to: npy}}"
        scores, _ = compare(bin_folder, file, {**job, "returns": True}, folder / "scores", "--set", returns)
    large = {name: value for name, value in [*differences.items(), *scores.items()] if not value <= MOST}
    shown = f"{max(scores.values()):.1e} of `{', '.join(scores)}`" if scores else ""
    largest = f"{max(differences.values()):.1e}".replace("0.0e+00", "0")
    text = f"| `{file.stem}` | `{job['name']}` | {len(differences)} | {largest} | {shown} | {'any' if any_batch else 'fixed'} |"
    return text + (f" too large: {large}" if large else ""), not large


def main(bin_folder):
    print(f"onnxruntime {onnxruntime.__version__}\n\n| file | job | results | largest difference | of scores | batch |\n| --- | --- | --- | --- | --- | --- |")
    failed = False
    with tempfile.TemporaryDirectory(prefix="flow-onnx-") as name:
        folder = pathlib.Path(name)
        every = folder / "every_op.yaml"
        onnx_jobs.write_every_op(every)
        for file in [*sorted((SOURCE / "jobs").glob("*.yaml")), every]:
            for job in onnx_jobs.predict_jobs(bin_folder / "flowc", file, *onnx_jobs.sets_of(file)).values():
                place = folder / f"{file.stem}-{job['name']}"
                place.mkdir()
                try:
                    text, near = row(bin_folder, file, job, place)
                except Exception as error:  # of any of the programs
                    text, near = f"{file.name} {job['name']}: {error}", False
                failed |= not near
                print(text, flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else SOURCE / "build" / "release" / "bin"))
