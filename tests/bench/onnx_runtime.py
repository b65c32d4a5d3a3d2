#!/usr/bin/env python3
"""Exports every predict job of jobs/, and a job with every op, runs them in ONNX Runtime and compares with flowrun. Not part of the tests: this
needs a package from PyPI.

    python3 -m venv /tmp/onnx && /tmp/onnx/bin/pip install onnxruntime==1.16 "numpy<2"
    /tmp/onnx/bin/python tests/bench/onnx_runtime.py [BIN]

A line for each job: the largest difference of each result as a part of its largest magnitude, and with how many rows less the model ran as well.
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


def compare(bin_folder, file, job, folder):
    """Differences by result, and whether the model takes another number of rows."""
    flags = onnx_jobs.sets_of(file)
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


def main(bin_folder):
    print(f"onnxruntime {onnxruntime.__version__}")
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
                    differences, any_batch = compare(bin_folder, file, job, place)
                except Exception as error:  # of any of the programs
                    print(f"{file.name} {job['name']}: {error}")
                    failed = True
                    continue
                large = {one: value for one, value in differences.items() if not value <= MOST}
                failed |= bool(large)
                print(f"{file.name} {job['name']}: {len(differences)} results, largest difference {max(differences.values()):.1e}, "
                      f"{'any batch' if any_batch else 'fixed batch'}" + (f"; too large: {large}" if large else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else SOURCE / "build" / "release" / "bin"))
