"""Calls of the system that fail while a job runs: fault_injector.cpp fails them, each in turn."""
import errno
import unittest

from flow import FlowTest, train_job


class Faults(FlowTest):
    def test_the_injector_records_calls_in_order_and_fails_the_one_that_is_asked_for(self):
        self.write("job.yaml", train_job(3))
        calls = self.recorded("job.yaml", "-o", "out", "--quiet", path="out/run.json")
        self.assertEqual([kind for kind, *_ in calls], ["open", "write", "fsync", "close", "rename"])
        self.assertEqual(calls[-1][2], str(self.dir / "out/run.json"))
        full = self.faults(call="fsync", at=1, path="out/run.json", errno=errno.ENOSPC)
        done = self.flowrun("job.yaml", "-o", "full", "--quiet", env={**full, "FAULT_PATH": "full/run.json"}, status=3)
        self.assertIn("cannot write full/run.json: No space left on device", done.stderr)


if __name__ == "__main__":
    unittest.main()
