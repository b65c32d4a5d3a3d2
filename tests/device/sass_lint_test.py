"""sass_lint.py finds each defect in a listing that has it, and nothing in one that has none."""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import sass_lint  # noqa: E402

LISTING = """
	.section	.text.kernel,"ax",@progbits
.text.kernel:
        /*0000*/                   LDC R1, c[0x0][0x28] ;
{before}
.L_x_1:
        /*0020*/                   LDG.E.128 R4, desc[UR4][R2.64] ;
{inside}
        /*0040*/                   STG.E.128 desc[UR4][R2.64], R4 ;
        /*0050*/              @!P0 BRA `(.L_x_1) ;
        /*0060*/                   EXIT ;
"""
CALL = "        /*{}*/                   CALL.REL.NOINC `($__internal_0_$__cuda_sm20_div_s64) ;"
USAGE = "Resource usage:\n Function kernel:\n  REG:{} STACK:0 SHARED:{} LOCAL:0 CONSTANT[0]:560 TEXTURE:0\n"


def problems(before="", inside="", registers=32, shared=0, name="flow::cuda::map_flat<float>(float const*)", change=lambda text: text):
    kernels = sass_lint.parse_usage(USAGE.format(registers, shared), 90)
    sass_lint.parse_code(change(LISTING.format(before=before, inside=inside)), kernels)
    kernels["kernel"].name = name
    failures, _ = sass_lint.judge(kernels.values(), [])
    return {check: problem for check, _, problem in failures}


class SassLint(unittest.TestCase):
    def test_a_good_kernel_passes(self):
        self.assertEqual(problems(), {})

    def test_local_memory_is_found(self):
        self.assertEqual(problems(inside="        /*0030*/                   STL.64 [R1], R4 ;"), {"local": "1 STL"})

    def test_narrow_access_is_found_in_streaming_kernels_only(self):
        narrow = lambda text: text.replace("LDG.E.128", "LDG.E")  # noqa: E731
        self.assertEqual(problems(change=narrow), {"vectors": "no 128-bit loads"})
        self.assertEqual(problems(change=narrow, name="flow::cuda::softmax_rows<float>()"), {})
        self.assertEqual(problems(change=lambda text: text.replace("STG.E.128", "STG.E.64")), {"vectors": "no 128-bit stores"})

    def test_division_is_found_in_loops_only(self):
        self.assertEqual(problems(inside=CALL.format("0030")), {"division": "1 64-bit divisions in loops"})
        self.assertEqual(problems(before=CALL.format("0010")), {})

    def test_few_warps_are_found(self):
        self.assertEqual(problems(registers=64), {})
        self.assertIn("occupancy", problems(registers=65))
        self.assertEqual(problems(shared=57 * 1024), {})
        self.assertIn("occupancy", problems(shared=58 * 1024))
        self.assertIn("occupancy", problems(registers=128, name="flow::cuda::(anonymous namespace)::attend<float>()"))

    def test_an_exception_covers_its_check_and_kernels(self):
        kernels = sass_lint.parse_usage(USAGE.format(128, 0), 90)
        sass_lint.parse_code(LISTING.format(before="", inside=""), kernels)
        kernels["kernel"].name = "map_flat<float>()"
        for accepted, failed, used in (([("occupancy", "map_flat", "why")], 0, {0}), ([("local", "map_flat", "why")], 1, set()),
                                       ([("occupancy", "other", "why")], 1, set())):
            failures, needed = sass_lint.judge(kernels.values(), accepted)
            self.assertEqual((len(failures), needed), (failed, used))

    def test_each_exception_has_a_known_check_and_a_reason(self):
        for check, pattern, reason in sass_lint.ACCEPTED:
            self.assertIn(check, sass_lint.CHECKS)
            self.assertGreater(len(reason), 20, pattern)


if __name__ == "__main__":
    unittest.main()
