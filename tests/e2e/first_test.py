"""Fingerprints, `flowrun --capture` and `flowdiff --first`: the step and the tensor in which two runs part."""
import json
import os
import random
import struct
import subprocess
import unittest

import numpy as np

from flow import BIN, JOBS, FlowTest, device, train_job
from launchers import RanksTest

DAMAGES = int(os.environ.get("FLOW_DAMAGES", "20"))  # flipped bits, in two nets

LENET = """flow: 1
seed: 2
jobs:
  train:
    type: train
    inputs:
      x: {shape: [6, 1, 12, 12], dtype: float32, from: {type: random_uniform, low: -1, high: 1}}
      labels: {shape: [6], dtype: int32, from: {type: random_int, low: 0, high: 10}}
    graph:
      conv1: {op: conv2d, in: x, filters: 6, kernel_size: 3, activation: relu}
      pool1: {op: max_pool2d, ksize: 2}
      conv2: {op: conv2d, filters: 8, kernel_size: 3, activation: relu}
      pool2: {op: max_pool2d, ksize: 2}
      flat: {op: flatten}
      dense1: {op: dense, units: 20, activation: relu}
      drop: {op: dropout, rate: 0.25}
      dense2: {op: dense, units: 10}
      loss: {op: sparse_softmax_cross_entropy_with_logits, labels: labels, logits: dense2}
    optimizer: {type: sgd, learning_rate: 0.05, momentum: 0.9, minimize: loss}
    returns: {value: loss}
    run: {steps: 8, checkpoint: {every: {steps: 3}, keep: 9}}
"""

MASK = (1 << 64) - 1


def mix(x):
    """The finalizer of MurmurHash3."""
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = (x ^ (x >> 33)) * 0xFF51AFD7ED558CCD & MASK
    x = (x ^ (x >> 33)) * 0xC4CEB9FE1A85EC53 & MASK
    return x ^ (x >> 33)


def hash_of(array):
    """The hash of a float32 or int32 array, as runtime/base/fingerprint.h defines it."""
    plane = int(np.prod(array.shape[2:])) if array.ndim == 4 else 0
    columns, total = plane if plane >= 16 else 1024, 0
    for i, word in enumerate(np.ascontiguousarray(array).view(np.uint32).ravel().tolist()):
        row, column = divmod(i, columns)
        total += word * (mix(column % 1024) & 0xFFFFFFFF | 1) * (mix(~(row + (column // 1024 << 40)) & MASK) | 1)
    return total & MASK


class First(FlowTest):
    def fingerprints(self, run):
        """By step and name: count, sum, absolute, square, min, max, not finite, hash. And the names in order."""
        data = (self.dir / run / "fingerprints.bin").read_bytes()
        plan = json.loads((self.dir / run / "plan.json").read_text())
        record = json.loads((self.dir / run / "run.json").read_text()) if (self.dir / run / "run.json").exists() else {"job": "train"}
        job = next(job for job in plan["jobs"] if job["name"] == record["job"])
        every, tensors, slots = struct.unpack_from("<QQQ", data, 16)
        ids = struct.unpack_from(f"<{tensors}I", data, 40)
        names = [job["tensors"][i]["name"] for i in ids]
        begin, size = -(-(40 + 4 * tensors) // 64) * 64, 16 + 64 * tensors
        steps = {}
        for at in range(begin, len(data) - size + 1, size):
            step, checksum = struct.unpack_from("<qQ", data, at)
            if checksum:
                steps[step] = dict(zip(names, [struct.unpack_from("<qdddddqQ", data, at + 16 + 64 * i) for i in range(tensors)]))
        self.assertLessEqual(len(steps), slots)
        self.assertTrue(all(step % every == 0 for step in steps))
        return steps, names

    def tensor(self, run, name, kind="watch"):
        """The tensor of the plan that a hook watches."""
        plan = json.loads((self.dir / run / "plan.json").read_text())["jobs"][0]
        return next(hook["tensor"] for hook in plan["hooks"] if (hook["name"], hook["kind"]) == (name, kind))

    def first(self, a, b, *words, status=1):
        return json.loads(self.call("flowdiff", "--first", a, b, "--json", "-", *words, status=status).stdout)


class Recording(First):
    def test_fingerprints_are_those_of_the_tensors(self):
        self.write("job.yaml", LENET + "    hooks: [{watch: conv1}, {watch: dense2}, {watch: dense1/weight}, {watch_diff: dense1}]\n")
        self.flowrun("train", "job.yaml", "-o", "out", "--fingerprint=2", "--device", "cpu")
        steps, names = self.fingerprints("out")
        self.assertEqual(sorted(steps), [0, 2, 4, 6])
        self.assertEqual(len(set(names)), len(names))
        for name, kind in (("conv1", "watch"), ("dense2", "watch"), ("dense1/weight", "watch"), ("dense1", "watch_diff")):
            tensor = self.tensor("out", name, kind)
            values = self.load(f"out/watch/{name}/{'value' if kind == 'watch' else 'diff'}.npy")
            for step, found in steps.items():
                if tensor not in found:
                    self.assertEqual(kind, "watch_diff")  # a probe makes it
                    continue
                count, total, absolute, square, least, most, bad, hashed = found[tensor]
                x = values[step].astype(np.float64)
                self.assertEqual((count, bad, hashed), (x.size, 0, hash_of(values[step])), (tensor, step))
                np.testing.assert_allclose([total, absolute, square, least, most], [x.sum(), abs(x).sum(), (x * x).sum(), x.min(), x.max()], rtol=1e-9, atol=1e-9)

    def test_results_are_the_same_with_fingerprints_and_with_any_threads(self):
        self.write("job.yaml", LENET)
        self.flowrun("train", "job.yaml", "-o", "plain")
        said = self.flowrun("train", "job.yaml", "-o", "one", "--fingerprint=1", "--threads", 1, "--device", "cpu").stderr
        self.assertRegex(said, r"fingerprints of \d+ tensors every 1 step took \d+\.\d % of the time of all steps")
        self.flowrun("train", "job.yaml", "-o", "two", "--fingerprint=1", "--threads", 2, "--device", "cpu")
        if device() == "cpu":
            self.assertEqual(self.outputs("plain"), self.outputs("one"))
        self.assertEqual((self.dir / "one/fingerprints.bin").read_bytes(), (self.dir / "two/fingerprints.bin").read_bytes())
        self.assertEqual(self.first("one", "two", status=0)["first"], None)

    def test_a_resumed_run_continues_the_ring(self):
        self.write("job.yaml", LENET)
        self.flowrun("train", "job.yaml", "-o", "whole", "--fingerprint=1", "--device", "cpu")
        for stop in (1, 4):
            self.flowrun("train", "job.yaml", "-o", f"out{stop}", "--fingerprint=1", "--steps", stop, "--device", "cpu")
            self.flowrun("train", "job.yaml", "-o", f"out{stop}", "--fingerprint=1", "--resume", "--device", "cpu")
            self.assertEqual((self.dir / f"out{stop}/fingerprints.bin").read_bytes(), (self.dir / "whole/fingerprints.bin").read_bytes())
        said = self.flowrun("train", "job.yaml", "-o", "out1", "--fingerprint=2", "--resume", "--steps", 10, "--device", "cpu").stderr
        self.assertIn("out1/fingerprints.bin is written again from here", said)
        self.flowrun("train", "job.yaml", "-o", "out4", "--force", "--device", "cpu")
        self.assertFalse((self.dir / "out4/fingerprints.bin").exists())

    def test_shards_have_the_fingerprints_of_the_whole(self):
        self.write("job.yaml", LENET.replace("    optimizer:", "    shards: 2\n    optimizer:").replace("      drop: {op: dropout, rate: 0.25}\n", ""))
        self.flowrun("train", "job.yaml", "-o", "out", "--fingerprint=1", "--watch", "dense1", "--watch", "conv2", "--device", "cpu")
        steps, _ = self.fingerprints("out")
        for step in steps:
            for name in ("dense1", "conv2"):
                tensor = self.tensor("out", name)
                self.assertEqual(steps[step][tensor][7], hash_of(self.load(f"out/watch/{name}/value.npy")[step]), (name, step))

    def test_what_cannot_be_is_refused(self):
        self.write("job.yaml", train_job(3))
        for words, message in ((["--fingerprint=0"], "`0` is not a whole number from 1"), (["--fingerprint-size", 0], "`0` is not a whole number"),
                               (["--capture", "hidden"], "expected ENTRY@STEP"), (["--capture", "hiden/matmul@1"], "did you mean `hidden/matmul`"),
                               (["--capture", "hidden@3"], "step 3 is not run; the run has steps 0 to 2")):
            self.assertIn(message, self.flowrun("train", "job.yaml", "-o", "out", *words, status=2).stderr)
        self.flowrun("train", "job.yaml", "-o", "bare")
        self.assertIn("bare has no fingerprints.bin", self.call("flowdiff", "--first", "bare", "bare", status=2).stderr)
        self.assertIn("--no-rerun requires --first", self.call("flowdiff", "bare", "bare", "--no-rerun", status=2).stderr)


class Ranks(First, RanksTest):
    # The weights are large enough that ranks divide their updates.
    JOB = """flow: 1
seed: 4
jobs:
  train:
    type: train
    inputs: {x: {shape: [12, 16, 8, 8], dtype: float32, from: {type: random_uniform, low: -1, high: 1}}}
    graph:
      conv:  {op: conv2d, in: x, filters: 48, kernel_size: 5, activation: relu}
      flat:  {op: flatten}
      dense: {op: dense, units: 64}
      loss:  {op: reduce_mean, in: dense}
    shards: 4
    optimizer: {type: adam, learning_rate: $rate, minimize: loss}
    returns: {value: loss, to: none}
    run: {steps: 6}
vars: {rate: 0.01}
"""

    def record(self, out, ranks, *words):
        words = ("train", "job.yaml", "-o", out, "--device", "cpu", "--quiet", *words)
        if ranks == 1:
            self.flowrun(*words)
        else:
            self.ranks(ranks, *words)

    def test_ranks_have_the_fingerprints_of_one_process(self):
        self.write("job.yaml", self.JOB)
        self.record("one", 1, "--fingerprint=2")
        for ranks in (2, 4):
            self.record(f"ranks{ranks}", ranks, "--fingerprint=2")
            (whole, names), (steps, _) = self.fingerprints("one"), self.fingerprints(f"ranks{ranks}")
            self.assertEqual(sorted(steps), [0, 2, 4])
            for step, found in steps.items():
                self.assertTrue(set(found) <= set(names) and {"x", "flat", "conv/weight", "conv/weight/m", "dense/weight:diff"} <= set(found), found.keys())
                for name, values in found.items():
                    expected = whole[step][name]
                    self.assertEqual((values[0], *values[4:]), (expected[0], *expected[4:]), (ranks, step, name))
                    np.testing.assert_allclose(values[1:4], expected[1:4], rtol=1e-12, atol=1e-12 * expected[2], err_msg=f"{ranks} ranks, step {step}: {name}")

    def test_the_first_difference_of_ranks_is_found_and_made_again_in_one_process(self):
        self.write("job.yaml", self.JOB)
        self.record("a", 2, "--fingerprint=1")
        self.record("b", 2, "--fingerprint=1")
        self.record("c", 2, "--fingerprint=1", "--set", "vars.rate=0.02")
        self.assertIsNone(self.first("a", "b", status=0)["first"])
        report = self.first("a", "c", "-o", "kept")
        self.assertEqual((report["first"]["step"], report["recurs"]), (0, True))
        self.assertIn(":update", report["first"]["made_by"])


class Capture(First):
    def test_inputs_and_outputs_of_an_entry_are_written(self):
        self.write("job.yaml", LENET)
        self.flowrun("train", "job.yaml", "-o", "whole", "--watch", "dense1", "--watch", "dense2", "--watch", "dense2/weight", "--watch", "loss", "--watch-diff", "dense2")
        self.flowrun("train", "job.yaml", "-o", "out", "--capture", "dense2@5", "--no-commands")
        record = json.loads((self.dir / "out/run.json").read_text())
        self.assertEqual(record["last_step"], 6)
        np.testing.assert_array_equal(self.load("out/capture/inputs/dense2/weight/000005.npy"), self.load("whole/watch/dense2/weight/value.npy")[5])
        outputs = [path for path in (self.dir / "out/capture/outputs").rglob("*.npy")]
        self.assertEqual(len(outputs), 1)
        np.testing.assert_array_equal(np.load(outputs[0]), self.load("whole/watch/dense2/value.npy")[5])
        self.flowrun("train", "job.yaml", "-o", "one", "--capture", "loss@2")
        np.testing.assert_array_equal(self.load("one/capture/outputs/loss/000002.npy"), self.load("whole/watch/loss/value.npy")[2])


class Damage(First):
    def plan(self, job, *words, out="plan.json"):
        self.call("flowc", "build", job, "-o", out, *words)
        return out

    def proves(self, plan, steps, count, seed, is_wanted=lambda name: True, others=()):
        """Flips bits of tensors with wanted names, and asks for the first difference to a run without, and to `others`."""
        draw = random.Random(seed)
        self.call("damaged_run", plan, "train", "clean", steps, -1, "", 0)
        recorded, names = self.fingerprints("clean")
        self.assertEqual(sorted(recorded), list(range(steps)))
        dtypes = {tensor["name"]: tensor["dtype"] for tensor in json.loads((self.dir / "clean/plan.json").read_text())["jobs"][0]["tensors"]}
        names = [name for name in names if dtypes[name] == "float32" and is_wanted(name)]  # an index out of range ends the run
        for _ in range(count):
            name, step, bit = draw.choice(names), draw.randrange(steps), draw.randrange(1 << 30)
            if others:  # they ran on other devices: only a jump counts
                bit = bit // 32 * 32 + 30
            words = [str(word) for word in (BIN / "damaged_run", plan, "train", f"bad{_}", steps, step, name, bit)]
            done = subprocess.run(words, cwd=self.dir, capture_output=True, text=True, check=False)
            self.assertIn(done.returncode, (0, 1, 3), done)  # what is not finite then may end the run
            for other in ("clean", *others):
                for runs in ((other, f"bad{_}"), (f"bad{_}", other))[:2 if others else 1]:
                    found = self.first(*runs, "--no-rerun")["first"]
                    self.assertEqual((found["step"], found["tensor"]), (step, name), (runs, done))
                    self.assertEqual(found["inputs_unknown"], [])

    def test_a_flipped_bit_is_found_in_lenet(self):
        self.write("job.yaml", LENET)
        self.proves(self.plan("job.yaml"), 5, DAMAGES // 2, 1)

    def test_a_flipped_bit_is_found_in_a_gpt(self):
        small = [word for one in ("width=8", "heads=2", "batch=2", "layers=1") for word in ("--set", f"vars.{one}")]
        self.proves(self.plan(JOBS / "gpt_tiny.yaml", *small), 4, DAMAGES - DAMAGES // 2, 2)

    def test_a_flipped_bit_is_found_in_a_copy_between_devices(self):
        self.write("job.yaml", LENET.replace("filters: 8, kernel_size: 3", "filters: 8, kernel_size: 3, placement: {device: gpu}"))
        self.call("damaged_run", self.plan("job.yaml", "--device", "cpu", out="one.json"), "train", "one", 3, -1, "", 0)
        sources = self.fingerprints("one")[1]
        self.proves(self.plan("job.yaml"), 3, 4, 3, lambda name: name.endswith((":cpu", ":gpu")))
        self.proves(self.plan("job.yaml"), 3, 4, 4, lambda name: name.endswith((":cpu", ":gpu")) and name[:-4] in sources, ("one",))
        self.assertIsNone(self.first("one", "clean", "--no-rerun", status=0)["first"])

    def test_a_difference_that_does_not_recur_is_called_so(self):
        self.write("job.yaml", LENET)
        plan = self.plan("job.yaml")
        self.call("damaged_run", plan, "train", "clean", 6, -1, "", 0)
        self.call("damaged_run", plan, "train", "bad", 6, 4, "flat:diff", 30)
        text = self.call("flowdiff", "--first", "clean", "bad", "-o", "kept", status=1).stdout
        self.assertIn("first difference: step 4, flat:diff, made by flat:diff (", text)
        self.assertIn("all tensors agree in step 3", text)
        self.assertIn("the difference does not recur", text)
        self.assertTrue((self.dir / "kept/golden/outputs/flat:diff/000004.npy").exists())
        self.assertTrue((self.dir / "kept/out/inputs/dense1/weight/000004.npy").exists())
        self.assertFalse((self.dir / "runs").exists())


class Divergence(First):
    def test_runs_with_other_settings_part_in_the_tensor_that_these_change(self):
        self.write("job.yaml", LENET)
        self.flowrun("train", "job.yaml", "-o", "a", "--fingerprint=1", "--device", "cpu")
        self.flowrun("train", "job.yaml", "-o", "b", "--fingerprint=1", "--device", "cpu", "--set", "jobs.train.optimizer.momentum=0.8")
        self.assertEqual(self.first("a", "a", status=0)["first"], None)
        report = self.first("a", "b", "-o", "kept")
        self.assertEqual(report["by"], "hash")
        self.assertIn("momentum", report["plans"])
        # The slots are zero in step 0.
        self.assertEqual((report["first"]["step"], report["first"]["agreed_at"], report["recurs"]), (1, 0, True))
        self.assertIn(":update", report["first"]["made_by"])
        name = report["first"]["tensor"]
        arrays = [self.load(f"kept/{side}/outputs/{name}/000001.npy") for side in ("golden", "out")]
        self.assertFalse(np.array_equal(*arrays))

    def test_a_difference_between_two_fingerprints_is_found_by_running_the_steps_again(self):
        self.write("job.yaml", LENET.replace("learning_rate: 0.05", "learning_rate: {type: piecewise_constant, boundaries: [5], values: [0.05, $late]}")
                   .replace("seed: 2", "seed: 2\nvars: {late: 0.01}"))
        for name, rate in (("a", 0.01), ("b", 0.02)):
            self.flowrun("train", "job.yaml", "-o", name, "--fingerprint=4", "--steps", 9, "--device", "cpu", "--set", f"vars.late={rate}", "--set", "jobs.train.run.steps=12")
        report = self.first("a", "b")
        self.assertEqual(self.first("a", "b", "--no-rerun")["first"]["step"], 8)
        self.assertEqual(report["first"]["step"], int(self.rate_changes("a", "b")))
        self.assertIn("update", report["first"]["made_by"])
        text = self.call("flowdiff", "--first", "a", "b", status=1).stdout
        self.assertRegex(text, r"found by running steps \d+ to 8 of both again")

    def rate_changes(self, a, b):
        for x, y in zip(self.metrics(a), self.metrics(b)):
            if x["learning_rate"] != y["learning_rate"]:
                return x["step"]
        return None

    def test_other_machines_and_pipes_are_not_run_again(self):
        self.write("job.yaml", LENET)
        self.flowrun("train", "job.yaml", "-o", "a", "--fingerprint=1", "--steps", 5, "--device", "cpu")
        self.flowrun("train", "job.yaml", "-o", "b", "--fingerprint=1", "--steps", 5, "--device", "cpu", "--set", "jobs.train.optimizer.momentum=0.8")
        path = self.dir / "b/run.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), "host": "elsewhere"}))
        text = self.call("flowdiff", "--first", "a", "b", status=1).stdout
        self.assertIn("not run again: b was made on elsewhere", text)
        self.assertRegex(text, r"out: flowrun train b/plan.json -o first/out .*--capture .*:update@1")
        path.write_text(json.dumps({**json.loads(path.read_text()), "host": json.loads((self.dir / "a/run.json").read_text())["host"],
                                    "overrides": ["--input x=@/dev/stdin"]}))
        text = self.call("flowdiff", "--first", "a", "b", status=1).stdout
        self.assertIn("not run again: input `x` of b came from a pipe", text)
        self.assertNotIn("  out: flowrun", text)

    def test_runs_of_two_versions_are_judged_by_distance(self):
        self.write("job.yaml", LENET)
        for name in ("a", "b", "c"):
            self.flowrun("train", "job.yaml", "-o", name, "--fingerprint=1", "--device", "cpu",
                         *(["--set", "jobs.train.optimizer.learning_rate=0.05000001"] if name == "b" else []),
                         *(["--set", "jobs.train.optimizer.learning_rate=0.1"] if name == "c" else []))
            if name != "a":
                path = self.dir / name / "run.json"
                path.write_text(json.dumps({**json.loads(path.read_text()), "version": "0.0.1"}))
        report = self.first("a", "b", "--no-rerun", status=0)
        self.assertEqual((report["by"], report["first"]), ("distance", None))
        report = self.first("a", "c", "--no-rerun")
        self.assertEqual(report["first"]["step"], 0)
        self.assertIn("update", report["first"]["made_by"])
        self.assertIn("a jump", self.call("flowdiff", "--first", "a", "c", "--no-rerun", status=1).stdout)

    def test_hostile_files_are_refused(self):
        self.write("job.yaml", train_job(4))
        self.flowrun("train", "job.yaml", "-o", "a", "--fingerprint=1", "--device", "cpu")
        path = self.dir / "a/fingerprints.bin"
        good = path.read_bytes()
        draw = random.Random(4)
        for _ in range(8):
            bad = bytearray(good)
            for _ in range(draw.randrange(1, 9)):
                bad[draw.randrange(len(bad))] = draw.randrange(256)
            (self.dir / "b").mkdir(exist_ok=True)
            for name in ("plan.json", "run.json"):
                (self.dir / "b" / name).write_bytes((self.dir / "a" / name).read_bytes())
            (self.dir / "b/fingerprints.bin").write_bytes(bytes(bad[:draw.randrange(len(bad))] if draw.random() < 0.5 else bad))
            done = subprocess.run([str(BIN / "flowdiff"), "--first", "a", "b", "--no-rerun"], cwd=self.dir, capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 2, done.stdout)
            self.assertIn("b/fingerprints.bin", done.stderr)
            self.assertIn("hint: run the job again with --fingerprint", done.stderr)

    def test_a_run_that_was_resumed_without_fingerprints_is_compared(self):
        self.write("job.yaml", train_job(12))
        self.flowrun("train", "job.yaml", "-o", "a", "--fingerprint=1", "--device", "cpu")
        for words in (["--steps", "4", "--fingerprint=1"], ["--resume", "--steps", "8"], ["--resume", "--fingerprint=1"]):
            self.flowrun("train", "job.yaml", "-o", "b", "--device", "cpu", *words)
            self.assertIn("no difference", self.call("flowdiff", "--first", "a", "b", "--no-rerun").stdout)

    def test_a_run_without_run_json_is_judged_by_distance_and_says_so(self):
        self.write("job.yaml", train_job(4))
        for name in "ab":
            self.flowrun("train", "job.yaml", "-o", name, "--fingerprint=1", "--device", "cpu")
        (self.dir / "b/run.json").unlink()
        words = ["flowdiff", "--first", "a", "b", "--no-rerun"]
        self.assertIn("judged by distance, not bit by bit: out has no run.json", self.call(*words).stdout)
        path = self.dir / "b/fingerprints.bin"
        good = path.read_bytes()
        path.write_bytes(good[:-1])  # as a kill leaves it
        self.assertIn("3 recorded steps", self.call(*words).stdout)
        bad = bytearray(good)
        for at in (len(bad) // 2, len(bad) - 1):
            bad[at] ^= 1
        path.write_bytes(bad)
        self.assertIn("b/fingerprints.bin is damaged", self.call(*words, status=2).stderr)


if __name__ == "__main__":
    unittest.main()
