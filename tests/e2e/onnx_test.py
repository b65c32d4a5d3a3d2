"""ONNX's operator tests: what its own reference computed, ours computes.

tests/golden/onnx/cases.txt lists every case as taken or left, with the reason; FLOW_REBASE=1 rewrites it. Cases that
another release of the data adds fail until they are listed.
"""
import os
import unittest

import numpy as np

import onnx_data
from flow import SOURCE, FlowTest

LIST = SOURCE / "tests" / "golden" / "onnx" / "cases.txt"
TOLERANCES = {"float16": (1e-3, 1e-5), "float64": (1e-7, 1e-7)}  # others: float32's


def verdict(case):
    if isinstance(case, str):
        return f"left, {case}"
    return "taken" + (" in float64" if case.wide else "") + (f" but for {', '.join(case.missing)}" if case.missing else "")


def listed(cases):
    return [f"{name}: {verdict(case)}" for name, case in cases.items()]


class Onnx(FlowTest):
    cases = onnx_data.read_cases()

    def test_every_case_is_taken_or_left_for_a_reason(self):
        if os.environ.get("FLOW_REBASE") == "1":
            LIST.write_text("\n".join(listed(self.cases)) + "\n")
        self.assertEqual(listed(self.cases), LIST.read_text().splitlines())

    def agree(self, precision):
        """All cases in one job: the results that ONNX expects."""
        taken = [case for case in self.cases.values() if not isinstance(case, str) and (precision == "float64" or not case.wide)]
        onnx_data.write_job(self.dir, taken)
        self.flowrun("onnx", "job.yaml", "-o", "out", "--load", "ckpt", "--threads", 1, "--set", f"jobs.onnx.precision={precision}")
        for case in taken:
            for name, expected in case.results:
                with self.subTest(case.name, result=name):
                    self.check(self.load(f"out/returns/{name}/value.npy")[0], expected, precision)

    def check(self, result, expected, precision):
        wide = precision == "float64" and expected.dtype == "float32"
        if expected.dtype != "bfloat16":        # delivered as float32
            self.assertEqual(result.dtype, np.float64 if wide else expected.array.dtype)
        self.assertEqual(result.shape, expected.shape)
        rtol, atol = TOLERANCES.get(expected.dtype, (1.3e-6, 1e-5))
        np.testing.assert_allclose(result, expected.array, rtol=rtol, atol=atol)

    def test_the_fast_kernels_agree(self): self.agree("float32")

    def test_the_reference_kernels_agree(self): self.agree("float64")


if __name__ == "__main__":
    unittest.main()
