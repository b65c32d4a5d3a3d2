"""ONNX's operator tests: `flowc import` reads each model, and flowrun computes what ONNX's own reference computed.

tests/golden/onnx/cases.txt lists every case as imported or refused, with the reason; FLOW_REBASE=1 rewrites it. A case is "imported
as constants" where it has inputs, and all of them have to be in the model. Cases that another release of the data adds fail until
they are listed. A default value of an attribute makes no difference where it is written out.

One case in four runs in float64 too; FLOW_WIDE_CASES=1 runs every one so, as tests/long.sh does.
"""
import concurrent.futures
import itertools
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

import numpy as np

import onnx_data
from flow import BIN, SOURCE, FlowTest

LIST = SOURCE / "tests" / "golden" / "onnx" / "cases.txt"
SIZE_CASES = int(os.environ.get("FLOW_SIZE_CASES", 9))
WIDE_CASES = int(os.environ.get("FLOW_WIDE_CASES", 4))
TOLERANCES = {"float16": (1e-3, 1e-5), "float64": (1e-7, 1e-7)}  # others: float32's


def run(folder, *words):
    return subprocess.run(list(map(str, words)), cwd=folder, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60)


def reason_of(error):
    """What flowc says of a model, in one line."""
    if "cannot be imported:" in error:
        return "; ".join(re.findall(r"^  (\S+) of node `.*?`(: .*)$", error, re.M) and
                         sorted({f"{a}{b}" for a, b in re.findall(r"^  (\S+) of node `.*?`(: .*)$", error, re.M)}))
    return re.sub(r"^.*?model\.onnx:? ", "", error.splitlines()[0])


def imported(case, folder, flags=()):
    """Imports the case into the folder. Inputs that remain; or the reason."""
    for fixed in case.attempts():
        inputs = case.write(folder / "model.onnx", fixed)
        done = run(folder, BIN / "flowc", "import", "model.onnx", "-o", "job.yaml", *flags)
        if done.returncode == 0:
            return inputs
        if done.returncode != 2:
            raise AssertionError(f"{case.name}: flowc ends with {done.returncode}\n{done.stderr}")
        if "known only during a run" not in done.stderr and "has a dimension of 0" not in done.stderr:
            break
    return reason_of(done.stderr)


tried_defaults = set()


def defaults_refused(case, inputs, folder):
    """What flowc says of the case with default values of attributes written out, where no case before it had them; or nothing."""
    fixed = len(case.inputs) - len(inputs)
    added = case.write_defaults(folder / "model.onnx", fixed) - tried_defaults
    tried_defaults.update(added)
    job = (folder / "job.yaml").read_text()
    if added:
        for name in ("job.yaml", "job.npz"):
            (folder / name).unlink(missing_ok=True)
        done = run(folder, BIN / "flowc", "import", "model.onnx", "-o", "job.yaml")
        if done.returncode or (folder / "job.yaml").read_text() != job:
            return f"with {sorted(added)}: {done.stderr}"
    return ""


def computed(folder, inputs, precision, flags=()):
    """The results of the imported job, in the order of the model's outputs by name; or what flowrun says."""
    names = re.findall(r"^      (\w+): \{shape", (folder / "job.yaml").read_text(), re.M)
    arrays = {onnx_data.legal(name): array for name, array in inputs.items()}
    flags = list(flags)
    for name in names:
        np.save(folder / f"{name}.npy", arrays[name if name in arrays else name.rstrip("_")])
        flags += ["--input", f"{name}=@{name}.npy"]
    out = folder / precision
    done = run(folder, BIN / "flowrun", "job.yaml", "-o", out, "--quiet", "--threads", 1, "--steps", 1, "--set", f"jobs.predict.precision={precision}", *flags)
    if done.returncode:
        return done.stderr
    return {path.parent.name: np.load(path) for path in (out / "returns").rglob("value.npy")}


def disagreement(case, results, precision):
    """What of the expected outputs the results do not have; "" where they agree."""
    for name, expected in case.outputs.items():
        result = results.get(onnx_data.legal(name), next(iter(results.values())) if len(results) == 1 else None)
        if result is None:
            return f"{name} is missing"
        if result.shape != (1, *expected.shape):  # of the one step
            return f"{name} is {list(result.shape[1:])} instead of {list(expected.shape)}"
        # A job in float64 has no float32.
        dtype = "float64" if precision == "float64" and expected.dtype == "float32" else expected.dtype
        if result.dtype != dtype:
            return f"{name} is {result.dtype} instead of {dtype}"
        rtol, atol = TOLERANCES.get(str(expected.dtype), (1.3e-6, 1e-5))
        if not np.allclose(result[0].astype(np.float64), expected.astype(np.float64), rtol=rtol, atol=atol, equal_nan=True):
            return f"{name} differs in {precision}"
    return ""


def verdict(number, folder):
    """A line of the list, and what is wrong."""
    name = f"{folder.parent.name}/{folder.name.removeprefix('test_')}"
    place = pathlib.Path(tempfile.mkdtemp(prefix="flow-onnx-"))
    try:
        case = onnx_data.Case(folder)
        inputs = imported(case, place)
        if isinstance(inputs, str):
            return f"{name}: refused, {inputs}", ""
        if wrong := defaults_refused(case, inputs, place):
            return f"{name}: imported", f"{name}: {wrong}"
        job = (place / "job.yaml").read_text()
        found = "imported as constants" if case.inputs and "    inputs:" not in job else "imported"
        precisions = ["float64"]
        if "precision: float64" not in job:
            precisions = ["float32", "float64"] if number % WIDE_CASES == 0 else ["float32"]
        for precision in precisions:
            results = computed(place, inputs, precision)
            wrong = results if isinstance(results, str) else disagreement(case, results, precision)
            if wrong:
                return f"{name}: {found}", f"{name}: {wrong}"
        return f"{name}: {found}", ""
    except onnx_data.Left as left:
        return f"{name}: left, {left}", ""
    finally:
        shutil.rmtree(place, ignore_errors=True)


def at_other_sizes(number, folder):
    """Imports the case with other sizes of its dimensions, and runs it with those that it has; what is wrong.

    Dimensions of one size are one, since most operators need them to be equal: all of them, or the first of each input.
    """
    name = f"{folder.parent.name}/{folder.name.removeprefix('test_')}"
    place = pathlib.Path(tempfile.mkdtemp(prefix="flow-onnx-"))
    try:
        case = onnx_data.Case(folder)
        sizes = {}
        for info in case.model.graph.input:
            shape = info.type.tensor_type.shape.dim
            for dim in shape if number % 2 == 0 else shape[:1]:
                if dim.dim_value > 0:
                    sizes[f"n{dim.dim_value}"] = dim.dim_value
                    dim.dim_param = f"n{dim.dim_value}"
        other = {key: size + 1 if number % 4 < 2 else 2 * size for key, size in sizes.items()}
        inputs = imported(case, place, [f"--dim={key}={size}" for key, size in other.items()])
        if isinstance(inputs, str):
            return ""
        text = (place / "job.yaml").read_text()
        flags = [f"--set=vars.{key}={size}" for key, size in sizes.items() if f"{key}: {other[key]}" in text]
        precision = "float64" if "precision: float64" in text else "float32"
        results = computed(place, inputs, precision, flags)
        if isinstance(results, str):
            return "" if "error" in results else f"{name}: {results}"
        wrong = disagreement(case, results, precision)
        return wrong and f"{name}: imported at {other}, {wrong}"
    except onnx_data.Left:
        return ""
    finally:
        shutil.rmtree(place, ignore_errors=True)


class Onnx(FlowTest):
    def test_at_other_sizes_models_compute_what_onnx_expects_or_nothing(self):
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count() + 1) as pool:
            wrong = list(pool.map(at_other_sizes, itertools.count(SIZE_CASES), onnx_data.folders()[::SIZE_CASES]))
        self.assertEqual([], [line for line in wrong if line])

    def test_models_are_imported_and_compute_what_onnx_expects_or_are_refused_for_a_reason(self):
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count() + 1) as pool:
            verdicts = list(pool.map(verdict, itertools.count(), onnx_data.folders()))
        self.maxDiff = None
        self.assertEqual("", "\n".join(wrong for _, wrong in verdicts if wrong))
        lines = [line for line, _ in verdicts]
        if os.environ.get("FLOW_REBASE") == "1":
            LIST.write_text("\n".join(lines) + "\n")
        self.assertEqual(lines, LIST.read_text().splitlines())


if __name__ == "__main__":
    unittest.main()
