"""float32 convolutions take engines that cuDNN also offers where TF32 is forbidden to it altogether."""
import os
import pathlib
import subprocess
import sys
import unittest

PROGRAM = sys.argv.pop(1)
TARGETS = pathlib.Path(__file__).resolve().parent / "targets"


def engines(**environment):
    done = subprocess.run([PROGRAM, TARGETS], env={**os.environ, **environment}, capture_output=True, text=True, check=True)
    return [line.split(" | ") for line in done.stdout.splitlines()]


class Engines(unittest.TestCase):
    def test_float32_has_the_engines_that_are_there_without_tf32(self):
        usual, forbidden = engines(), engines(NVIDIA_TF32_OVERRIDE="0")
        self.assertGreater(len(usual), 0)
        self.assertEqual([line[:3] for line in usual], [line[:3] for line in forbidden])

    def test_tf32_changes_the_choice_where_it_is_allowed(self):
        lines = engines()
        for device in sorted({line[0] for line in lines}):
            changed = [line for line in lines if line[0] == device and line[2] != line[3]]
            self.assertGreater(len(changed), 10, device)


if __name__ == "__main__":
    unittest.main()
