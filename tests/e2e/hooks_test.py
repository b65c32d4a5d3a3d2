"""Commands as hooks: what they read, how they end, what that means for the run."""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
import unittest

import numpy as np

from flow import BIN, JOBS, FlowTest, train_job

# A predict job of `steps` calls whose tensors are `x` (0, 1, 2, ... as floats) and `y`, its half below zero cut off.
JOB = """flow: 1
vars: {{steps: {steps}, shape: {shape}}}
jobs:
  look:
    type: predict
    inputs: {{x: {{shape: $shape, dtype: float32, from: {{type: random_uniform, low: -1, high: 1}}}}}}
    graph: {{y: {{op: relu, in: x}}}}
    run: {{steps: $steps}}
"""
# What a shell hook does with each event in text of `rows` rows; the start has none.
COUNT = "n=-1; while read line; do n=$((n+1)); done; echo $n > $FLOW_RUN_DIR/lines"


class Hooks(FlowTest):
    def job(self, sinks, steps=5, shape="[2, 3]", extra=""):
        """A job file with a hook on `y` for each of `sinks`; the lines of the hooks."""
        text = JOB.format(steps=steps, shape=shape) + extra + "    hooks:\n"
        first = text.count("\n") + 1
        text += "".join(f"      - {{watch: y, to: {json.dumps(sink)}}}\n" for sink in sinks)
        self.write("job.yaml", text)
        return range(first, first + len(sinks))

    def train(self, hooks):
        self.write("train.yaml", train_job(200) + "    hooks:\n" + "".join(f"      - {hook}\n" for hook in hooks))

    def script(self, name, body):
        """A hook in Python; `flowhook` is found beside it."""
        self.write("flowhook.py", (JOBS / "hooks" / "flowhook.py").read_text())
        self.write(name, body)
        return {"type": "command", "run": [sys.executable, name]}

    def look(self, *words, **options):
        return self.flowrun("job.yaml", "-o", "out", *words, **options)

    def record(self, run="out"):
        return json.loads((self.dir / run / "run.json").read_text())


class Protocol(Hooks):
    def test_a_stream_is_lines_of_json_with_npy_files_between(self):
        self.job([{"type": "command", "run": "cat > $FLOW_RUN_DIR/bytes"}, "npy"], steps=3)
        self.look()
        values = self.load("out/watch/y/value.npy")
        with open(self.dir / "out/bytes", "rb") as stream:
            start = stream.readline()
            self.assertRegex(start, rb'^{"flow":1,"event":"start","job":"look","plan":"[0-9a-f]{16}","names":\["y"\],"resumed_from":null,"arrays":\[\]}\n$')
            for step in range(3):
                self.assertEqual(stream.readline(), b'{"flow":1,"event":"watch","job":"look","name":"y","step":%d,"epoch":0,"value":0,'
                                 b'"arrays":[{"name":"y","dtype":"float32","shape":[2,3],"bytes":152}]}\n' % step)
                begin = stream.tell()
                np.testing.assert_array_equal(np.load(stream), values[step])
                self.assertEqual(stream.tell() - begin, 152)
            self.assertEqual(stream.read(), b'{"flow":1,"event":"end","job":"look","status":"done","arrays":[]}\n')

    def test_a_return_is_one_event_with_its_structure(self):
        hook = self.script("hook.py", "import flowhook, numpy\n"
                           "for event in flowhook.events(everything=True):\n"
                           "    print(event.kind, event.name, event.header.get('value'), event.header.get('names'))\n"
                           "    if event.kind == 'return':\n"
                           "        first, rest = event.value\n"
                           "        assert (numpy.maximum(first, 0) == rest['out']).all() and (first == rest['in']).all()\n")
        returns = f"    returns: {{value: [x, {{out: y, in: x}}], to: {json.dumps({**hook, 'expects': 'Tuple[Numpy, Dict[str, Numpy]]'})}}}\n"
        self.write("job.yaml", JOB.format(steps=1, shape="[4]") + returns)
        self.assertEqual(self.look().stdout, "start None None ['returns']\nreturn returns [0, {'out': 1, 'in': 2}] None\nend None None None\n")

    def test_hooks_come_before_the_return_values_before_gradients(self):
        hook = self.script("hook.py", "import flowhook\nfor event in flowhook.events():\n"
                           "    print(event.step, event.kind, event.name, event.array.shape)\n")
        to = json.dumps(hook)
        self.train([f"{{watch_diff: logits, every: 2, to: {to}}}", f"{{watch: logits, every: 2, to: {to}}}", f"{{watch: x, to: {to}}}"])
        (self.dir / "train.yaml").write_text((self.dir / "train.yaml").read_text() + f"    returns: {{value: loss, to: {to}}}\n")
        done = self.flowrun("train.yaml", "-o", "out", "--steps", 3)
        every = ["watch x (8, 6)", "watch logits (8, 4)", "watch_diff logits (8, 4)", "return loss (8,)"]
        self.assertEqual(done.stdout.splitlines(), [f"{step} {line}" for step in range(3) for line in every if step != 1 or "logits" not in line])

    def test_an_asynchronous_return_reaches_a_command_in_order_and_whole(self):
        hook = self.script("slow.py", "import sys, flowhook\nfor event in flowhook.events():\n"
                           "    x, y = event.value\n    print(event.step, (x.clip(0) == y).all(), float(x.sum()))\n")
        returns = "    returns: {{type: {type}, value: [x, y], to: " + json.dumps({**hook, "ack": True}).replace("{", "{{").replace("}", "}}") + "}}\n"
        for name, kind in (("sync", "\"Tuple[Numpy, Numpy]\""), ("async", "Callback")):
            self.write(f"{name}.yaml", JOB.format(steps=40, shape="[50]") + returns.format(type=kind))
        printed = [self.flowrun(f"{name}.yaml", "-o", name).stdout for name in ("sync", "async")]
        self.assertEqual(*printed)
        self.assertEqual([line.split()[:2] for line in printed[0].splitlines()], [[str(step), "True"] for step in range(40)])

    def test_the_parts_of_devices_come_as_a_list(self):
        hook = self.script("hook.py", "import flowhook\nfor event in flowhook.events():\n"
                           "    print(event.kind, event.name, event.header['value'], [part.shape for part in event.value])\n")
        returns = f"    returns: {{type: ListNumpy, value: y, to: {json.dumps(hook)}}}\n    placement: {{device: cpu, ids: \"0:0-1\"}}\n"
        hooks = f"    hooks: [{{watch: x, type: ListNumpy, to: {json.dumps(hook)}}}]\n"
        self.write("job.yaml", JOB.format(steps=1, shape="[6, 2]") + returns + hooks)
        self.assertEqual(self.look().stdout, "watch x [0, 1] [(3, 2), (3, 2)]\nreturn y [0, 1] [(3, 2), (3, 2)]\n")

    def test_text_has_a_row_a_line(self):
        self.job([{"type": "command", "run": "cat > $FLOW_RUN_DIR/text", "format": "text"}, "npy"], steps=2, shape="[3, 2]")
        self.look()
        lines = (self.dir / "out/text").read_text().splitlines()
        for step, value in enumerate(self.load("out/watch/y/value.npy")):
            header = json.loads(lines[1 + 4 * step])
            rows = lines[2 + 4 * step:5 + 4 * step]
            self.assertEqual(header["arrays"][0]["bytes"], sum(len(row) + 1 for row in rows))
            np.testing.assert_array_equal(np.array([row.split(" ") for row in rows], np.float32), value)

    def test_spawn_runs_a_process_an_event_with_the_array_on_its_input(self):
        run = 'd=$FLOW_RUN_DIR/$FLOW_STEP; cat > $d.npy; echo "$FLOW_EVENT $FLOW_JOB $FLOW_NAME $FLOW_EPOCH $FLOW_DTYPE $FLOW_SHAPE" > $d.txt'
        self.job([{"type": "command", "mode": "spawn", "run": run}, "npy"], steps=3)
        self.look()
        for step, value in enumerate(self.load("out/watch/y/value.npy")):
            np.testing.assert_array_equal(self.load(f"out/{step}.npy"), value)
            self.assertEqual((self.dir / f"out/{step}.txt").read_text(), "watch look y 0 float32 2,3\n")

    def test_a_command_runs_beside_the_job_file_with_words_as_they_are(self):
        words = ["/bin/sh", "-c", 'pwd -P > $0; printf "%s|" "$1" "$2" "$FLOW_RUN_DIR" "$LR" >> $0; cat > /dev/null', "told", "$steps $(steps)", "a b"]
        self.job([{"type": "command", "run": words, "env": {"LR": "$steps"}}])
        (self.dir / "elsewhere").mkdir()
        done = subprocess.run([BIN / "flowrun", "../job.yaml", "-o", "out"], cwd=self.dir / "elsewhere", capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        here = self.dir.resolve()
        self.assertEqual((self.dir / "told").read_text(), f"{here}\n$steps $(steps)|a b|{here}/elsewhere/out|5|")

    def test_streams_written_alike_share_a_process(self):
        count = "echo started >> started; cat > /dev/null"
        sink = {"type": "command", "run": count}
        self.job([sink, sink, {**sink, "format": "text"}])
        self.look()
        self.assertEqual((self.dir / "started").read_text(), "started\n" * 2)

    def test_a_plan_has_its_commands(self):
        self.job([{"type": "command", "run": "echo $FLOW_RUN_DIR >> ran; cat > /dev/null", "timeout": "20s", "env": {"A": "b"}}])
        self.call("flowc", "build", "job.yaml", "-o", "job.plan")
        self.flowrun("job.plan", "-o", "out")
        self.assertEqual((self.dir / "ran").read_text(), f"{self.dir.resolve()}/out\n")

    def test_under_json_what_commands_print_is_told_apart_from_objects(self):
        self.job([{"type": "command", "run": "echo from the command; cat > /dev/null"}, {"type": "print"}], steps=2)
        done = self.look("--json")
        self.assertEqual([json.loads(line)["event"] for line in done.stdout.splitlines()], ["print", "print"])
        self.assertIn("from the command\n", done.stderr)

    def test_ack_makes_the_order_of_deliveries_an_order_of_effects(self):
        hook = self.script("hook.py", "import sys, flowhook\nfor event in flowhook.events():\n    print(sys.argv[1], event.step)\n")
        sinks = [{**hook, "run": [*hook["run"], label], "ack": True} for label in "abc"]
        self.job(sinks, steps=60)
        self.assertEqual(self.look().stdout.split("\n")[:-1], [f"{label} {step}" for step in range(60) for label in "abc"])


class Loads(Hooks):
    def test_fifty_hooks_at_once(self):
        self.job([{"type": "command", "format": "text", "run": f": {n}; " + COUNT.replace("lines", f"{n}")} for n in range(50)], steps=20, shape="[2]")
        self.look()
        for n in range(50):  # 20 events of a line and two rows, and the end
            self.assertEqual((self.dir / f"out/{n}").read_text(), "61\n")

    def test_arrays_of_100_megabytes(self):
        hook = self.script("hook.py", "import flowhook\nfor event in flowhook.events():\n"
                           "    print(event.step, event.array.nbytes, event.array.min() == 0, round(float(event.array.mean()), 2))\n")
        self.job([hook], steps=3, shape="[25, 1000, 1000]")
        self.assertEqual(self.look().stdout, "".join(f"{step} 100000000 True 0.25\n" for step in range(3)))

    def test_a_flood_of_output_is_no_hooks_problem(self):
        self.job([{"type": "command", "run": "yes 0123456789 | head -n 1000000 & yes abcdefghi | head -n 1000000 >&2; wait; cat > /dev/null"}], steps=100)
        done = self.look()
        self.assertEqual((done.stdout.count("0123456789\n"), done.stderr.count("abcdefghi\n")), (1000000, 1000000))

    def test_a_slow_reader_gets_all_there_is(self):
        slow = self.script("slow.py", "import hashlib, os\ntotal, digest = 0, hashlib.sha256()\n"
                           "while piece := os.read(0, 1000):\n    digest.update(piece)\n    total += len(piece)\nprint(total, digest.hexdigest())\n")
        self.job([slow, {"type": "command", "run": "tee $FLOW_RUN_DIR/all | wc -c; sha256sum < $FLOW_RUN_DIR/all"}], steps=20, shape="[100, 100]")
        lines = self.look().stdout.split()
        self.assertEqual(len(set(lines) - {"-"}), 2, lines)


class Ends(Hooks):
    dies = "import os, sys, flowhook\nfor event in flowhook.events():\n    if event.step == 37:\n        {}\n"

    def test_a_program_that_is_not_there_is_answered_with_one_like_it(self):
        for mode in ("stream", "spawn"):
            self.job([{"type": "command", "mode": mode, "run": ["pyhton3", "-c", "0"]}])
            done = self.look("--quiet", "--force", status=3)
            self.assertIn("the command `pyhton3 -c 0`", done.stderr)
            self.assertIn("hint: did you mean `python3`?\n", done.stderr)

    def test_a_hook_that_dies_fails_the_run_with_its_line_and_step(self):
        hook = self.script("hook.py", self.dies.format("sys.exit(9)"))
        line, = self.job([{**hook, "ack": True}], steps=60)
        done = self.look(status=3)
        self.assertRegex(done.stderr, rf"job.yaml:{line}:10: step 37: the command `\S*python3\S* hook.py` of watch `y` exited with status 9\n")
        self.assertEqual((self.record()["exit_status"], self.record()["last_step"]), (3, 37))

    def test_without_ack_its_death_is_seen_at_a_later_step(self):
        hook = self.script("hook.py", self.dies.format("os.abort()"))
        line, = self.job([hook], steps=100000, shape="[1000]")
        done = self.look(status=3)
        step = int(re.search(rf"job.yaml:{line}:10: step (\d+): .* was killed by signal 6 \(Aborted\)", done.stderr)[1])
        self.assertGreaterEqual(step, 37)
        self.assertLess(step, 1000)

    def test_a_death_that_is_only_seen_at_the_end_fails_the_run_too(self):
        hook = self.script("hook.py", "import sys, flowhook\nfor event in flowhook.events():\n    pass\nsys.exit(5)\n")
        self.train([f"{{watch: logits, to: {json.dumps(hook)}}}"])
        done = self.flowrun("train.yaml", "-o", "out", "--steps", 4, status=3)
        self.assertRegex(done.stderr, r"train.yaml:16:10: the command .* exited with status 5\n")
        self.assertRegex(done.stderr, r"; all \d+ steps are done, and the last state is saved\n")
        self.assertTrue((self.dir / "out/checkpoints/000004/checkpoint.json").exists(), "the run was complete, and is kept")

    def test_a_hung_hook_fails_the_run_after_its_timeout(self):
        line, = self.job([{"type": "command", "run": "exec sleep 1000", "timeout": "0.2s"}], steps=100, shape="[100000]")
        done = self.look(status=3)
        self.assertRegex(done.stderr, rf"job.yaml:{line}:10: step 0: the command `exec sleep 1000` of watch `y` did not read its input within 0.2 s\n")

    def test_warn_goes_on_without_the_hook(self):
        hook = self.script("hook.py", self.dies.format("sys.exit(9)"))
        self.job([{**hook, "ack": True, "on_error": "warn"}, {"type": "command", "run": "./absent", "on_error": "warn"}], steps=60)
        done = self.look()
        self.assertRegex(done.stderr, r"step 37: .* exited with status 9; continuing without it\n")
        self.assertRegex(done.stderr, r"`\./absent`( of watch `y`)? exited with status 127; continuing without it\n")
        self.assertEqual(self.record()["last_step"], 60)

    def test_a_hook_that_has_seen_enough_is_left_alone(self):
        for run in ("head -n 1 > /dev/null", "exec <&-; exec sleep 0.1"):
            self.job([{"type": "command", "run": run}], steps=300, shape="[1000]")
            done = self.flowrun("job.yaml", "-o", "out", "--force")
            self.assertEqual(done.stderr.count("closed its input; it receives no more events"), 1, done.stderr)
            self.assertEqual(self.record()["last_step"], 300)

    def test_exit_status_10_before_the_first_event_stops_it_too(self):
        for run, ack in (("exit 10", True), ("exit 10", False), ("read start; exit 10", True)):
            self.train([f"{{watch: logits, to: {json.dumps({'type': 'command', 'run': run, 'ack': ack})}}}"])
            done = self.flowrun("train.yaml", "-o", "out", "--force")
            self.assertIn("asked the run to stop\n", done.stderr)
            self.assertIn("stopped by a command after", done.stderr)
            self.assertLess(self.record()["last_step"], 20)

    def test_exit_status_10_stops_the_run_and_saves(self):
        hook = self.script("hook.py", "import sys, flowhook\nfor event in flowhook.events():\n    event.step == 37 and sys.exit(10)\n")
        self.train([f"{{watch: logits, to: {json.dumps({**hook, 'ack': True})}}}"])
        done = self.flowrun("train.yaml", "-o", "out", "--save", "final")
        self.assertRegex(done.stderr, r"train.yaml:16:10: step 37: the command .* asked the run to stop\n")
        self.assertIn("stopped by a command after 38 steps; continue with: flowrun train train.yaml -o out --resume --save final\n", done.stderr)
        self.assertEqual(self.checkpoint("out").name, "000038")
        self.assertEqual(self.files("final")["logits/weight.npy"], self.files("out/checkpoints/000038")["logits/weight.npy"])

        # Going on gives the bits of a run that nothing stopped.
        self.flowrun("train.yaml", "-o", "out", "--resume", "--no-commands")
        self.flowrun("train.yaml", "-o", "whole", "--no-commands")
        self.assertEqual(self.checkpoint("out").name, "000200")
        self.assertEqual(self.files("out/checkpoints/000200")["logits/weight.npy"], self.files("whole/checkpoints/000200")["logits/weight.npy"])

    def test_ctrl_c_finishes_the_step_and_lets_hooks_see_the_end(self):
        hook = self.script("hook.py", "import flowhook\nfor event in flowhook.events(everything=True):\n"
                           "    print(event.kind, event.step, event.header.get('status'), flush=True)\n")
        self.train([f"{{watch: logits, to: {json.dumps(hook)}}}"])
        words = [str(BIN / "flowrun"), "train", "train.yaml", "-o", "out", "--steps", "100000000", "--set", "~jobs.train.run.steps"]
        with subprocess.Popen(words, cwd=self.dir, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True) as run:
            seen = []
            for line in run.stdout:
                seen.append(line.rstrip())
                if line.startswith("watch 5 "):
                    os.killpg(run.pid, signal.SIGINT)  # as the terminal does
            said = run.stderr.read()
            self.assertEqual(run.wait(), -signal.SIGINT, said)
        self.assertEqual(seen[-1], "end None stopped")
        steps = int(re.search(r"stopped after (\d+) steps?; continue with", said)[1])
        self.assertEqual(seen[-2], f"watch {steps - 1} None", "every step that was complete has reached the hook")
        self.assertTrue((self.dir / f"out/checkpoints/{steps:06}/checkpoint.json").exists())

    def test_a_resumed_run_tells_its_hooks_where_it_goes_on(self):
        hook = self.script("hook.py", "import flowhook\nfor event in flowhook.events(everything=True):\n"
                           "    print(event.kind, event.step, event.header.get('resumed_from'))\n")
        self.train([f"{{watch: logits, to: {json.dumps(hook)}}}"])
        self.flowrun("train.yaml", "-o", "out", "--steps", 2)
        done = self.flowrun("train.yaml", "-o", "out", "--steps", 3, "--resume")
        self.assertEqual(done.stdout, "start None 2\nwatch 2 None\nend None None\n")

    def test_exit_status_10_after_the_last_step_says_nothing(self):
        self.train([f"{{watch: logits, to: {json.dumps({'type': 'command', 'run': 'cat > /dev/null; exit 10'})}}}"])
        done = self.flowrun("train.yaml", "-o", "out", "--steps", 3)
        self.assertNotIn("stop", done.stderr)
        self.assertIn("train done, 3 steps", done.stderr)
        self.assertEqual((self.record()["exit_status"], self.record()["error"]), (0, ""))

    def test_a_hook_of_a_run_that_fails_is_told(self):
        self.job([{"type": "command", "run": "tail -n 1 > last", "format": "text"}, {"type": "command", "run": "exit 3", "mode": "spawn"}])
        self.look(status=3)
        self.assertEqual(json.loads((self.dir / "last").read_text())["status"], "failed")


class Processes(Hooks):
    """Which processes are left when a run has ended."""

    def members(self):
        """The living processes of the groups whose leaders wrote their id into `groups`."""
        path = self.dir / "groups"
        groups = set(path.read_bytes().split()) if path.exists() else set()
        found = []
        for process in filter(str.isdigit, os.listdir("/proc")):
            try:
                fields = pathlib.Path(f"/proc/{process}/stat").read_bytes().rpartition(b")")[2].split()
            except OSError:  # it has ended
                continue
            if fields[2] in groups and fields[0] not in b"ZX":
                found.append(int(process))
        return found

    def until(self, condition, seconds=60):
        end = time.monotonic() + seconds
        while not condition():
            self.assertLess(time.monotonic(), end, "this takes too long")
            time.sleep(0.01)

    # A pipeline, of which one part ignores SIGTERM; with its shell there are three processes.
    stubborn = "echo $$ >> groups; (trap '' TERM; exec sleep 1000) | sleep 1000"

    def killed(self, mode, end):
        """Runs a job with such a command, ends it by `end`, and waits until the command has ended."""
        self.job([{"type": "command", "mode": mode, "run": self.stubborn}], steps=10**9)
        with subprocess.Popen([str(BIN / "flowrun"), "job.yaml", "-o", "out"], cwd=self.dir, start_new_session=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as run:
            self.until(lambda: len(self.members()) == 3)
            end(run)
            said = run.communicate(timeout=60)[0]
        self.until(lambda: not self.members(), seconds=10)
        return run.returncode, said

    def test_a_command_and_what_it_started_end_with_a_run_that_is_killed(self):
        for mode, end in (("stream", subprocess.Popen.kill), ("spawn", lambda run: os.killpg(run.pid, signal.SIGKILL)),
                          ("stream", lambda run: run.send_signal(signal.SIGABRT))):
            shutil.rmtree(self.dir / "out", ignore_errors=True)
            self.assertIn(self.killed(mode, end)[0], (-signal.SIGKILL, -signal.SIGABRT))

    def test_a_command_and_what_it_started_end_with_the_second_ctrl_c(self):
        def twice(run):
            run.send_signal(signal.SIGINT)
            time.sleep(2.1)
            self.assertIsNone(run.poll(), "the first one waits for the command")
            self.assertEqual(len(self.members()), 3, "which does not hear of it")
            run.send_signal(signal.SIGINT)
        self.assertEqual(self.killed("spawn", twice)[0], -signal.SIGINT)

    def test_what_ends_the_commands_is_not_killed_by_the_words_of_the_run(self):
        def look_and_kill(run):  # as `pkill -9 -f flowrun` finds processes
            children = pathlib.Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text().split()
            words = [pathlib.Path(f"/proc/{child}/cmdline").read_bytes().rstrip(b"\0") for child in children]
            self.assertIn(b"flow-watchdog", words)
            self.assertFalse([line for line in words if b"flowrun" in line])
            run.kill()
        self.killed("stream", look_and_kill)

    def test_what_a_command_leaves_in_the_background_ends_with_the_run(self):
        line, = self.job([{"type": "command", "mode": "spawn", "run": "echo $$ >> groups; sleep 1000 &"}], steps=3)
        done = self.look()
        self.assertEqual(self.members(), [])
        self.assertEqual(re.findall(r".*background.*", done.stderr),
                         [f"flowrun: job.yaml:{line}:10: the command `echo $$ >> groups; sleep 1000 &` left background processes, which end with the run"])


class Secrets(Hooks):
    """What commands are given of the environment: programs get it, files do not."""
    secret = {"FLOW_E2E_TOKEN": "s3cret$(x)"}
    env = {"A": "$env(FLOW_E2E_TOKEN)", "B": "$token", "C": "Bearer $(token) for $$5", "D": "$auth", "E": "$env(FLOW_E2E_UNSET:-a (b))", "F": "$steps"}
    given = "s3cret$(x)|s3cret$(x)|Bearer s3cret$(x) for $5|Basic s3cret$(x)|a (b)|3|"

    def setUp(self):
        super().setUp()
        sink = {"type": "command", "run": 'printf "%s|" "$A" "$B" "$C" "$D" "$E" "$F" >> told; cat > /dev/null', "env": self.env}
        line, = self.job([sink], steps=3)
        self.place = f"job.yaml:{line}:10: "
        self.write("job.yaml", (self.dir / "job.yaml").read_text().replace("vars: {", 'vars: {token: $env(FLOW_E2E_TOKEN), auth: "Basic $(token)", '))

    def test_a_command_gets_them_and_no_file_or_output_holds_them(self):
        done = [self.look("--json", env=self.secret)]
        self.assertEqual((self.dir / "told").read_text(), self.given)
        (self.dir / "told").unlink()
        self.call("flowc", "build", "job.yaml", "-o", "job.plan", env=self.secret)
        for words in (["job.plan", "--commands"], ["job.yaml", "--commands"], ["job.plan", "--format", "json"]):
            done.append(self.call("flowc", "show", *words, env=self.secret))
        self.assertIn("C=Bearer $env(FLOW_E2E_TOKEN) for $$5 ", done[1].stdout)
        for form in ([], ["--full"], ["--minimal"]):
            done.append(self.call("flowc", "config", "job.yaml", *form, env=self.secret))
            self.write("again.yaml", done[-1].stdout)
            self.call("flowc", "build", "again.yaml", "-o", "again.plan")
            self.assertEqual(json.loads((self.dir / "again.plan").read_text())["hash"], json.loads((self.dir / "job.plan").read_text())["hash"])
        for text in [one.stdout + one.stderr for one in done] + [text.decode(errors="replace") for text in self.files(".").values()]:
            self.assertNotIn("s3cret", text)

    def test_the_plan_reads_the_environment_of_its_own_run(self):
        self.call("flowc", "build", "job.yaml", "-o", "job.plan")
        self.flowrun("job.plan", "-o", "out", env={"FLOW_E2E_TOKEN": "another"})
        self.assertEqual((self.dir / "told").read_text(), self.given.replace("s3cret$(x)", "another"))

    def test_one_that_is_not_set_is_refused_before_the_first_step(self):
        self.call("flowc", "check", "job.yaml")
        self.call("flowc", "build", "job.yaml", "-o", "job.plan")
        for source in ("job.yaml", "job.plan"):
            done = self.flowrun(source, "-o", "out", status=2)
            self.assertIn(self.place + "`A` in the `env` of a command is `$env(FLOW_E2E_TOKEN)`, but `FLOW_E2E_TOKEN` is not set\n", done.stderr)
            self.assertIn("hint: set FLOW_E2E_TOKEN, ", done.stderr)
            self.assertEqual(self.files("out"), {})
        self.look("--no-commands")

    def test_one_of_a_called_job_is_refused_too(self):
        self.write("also.yaml", (self.dir / "job.yaml").read_text() + """  main:
    type: predict
    inputs: {x: {shape: [2], dtype: float32, from: {type: random_uniform}}}
    graph: {y: {op: relu, in: x}}
    run: {steps: 2, also: [{job: look, every: {steps: 1}}]}
""")
        self.assertIn("`FLOW_E2E_TOKEN` is not set", self.flowrun("main", "also.yaml", status=2).stderr)

    def test_a_run_goes_on_with_another_one(self):
        self.train([f"{{watch: logits, to: {json.dumps({'type': 'command', 'run': 'echo $A >> told; cat > /dev/null', 'env': {'A': '$env(FLOW_E2E_TOKEN)'}})}}}"])
        self.flowrun("train.yaml", "-o", "out", "--steps", 2, env=self.secret)
        self.flowrun("train.yaml", "-o", "out", "--steps", 3, "--resume", env={"FLOW_E2E_TOKEN": "another"})
        self.assertEqual((self.dir / "told").read_text(), "s3cret$(x)\nanother\n")


class Care(Hooks):
    def test_no_commands_runs_none(self):
        self.job([{"type": "command", "run": "touch ran; cat > /dev/null"}, "npy", {"type": "command", "run": ["touch", "ran"], "mode": "spawn"}], steps=4)
        self.look("--no-commands")
        self.assertFalse((self.dir / "ran").exists())
        self.assertEqual(self.load("out/watch/y/value.npy").shape, (4, 2, 3))

    def test_commands_are_listed_before_anybody_runs_them(self):
        lines = self.job([{"type": "command", "run": "rm -rf \033[8m/\u009b8m\u202e\n", "env": {"A": "b c"}}, {"type": "command", "run": ["python3", "a b.py"], "mode": "spawn", "timeout": "5s"}])
        for source in ("job.yaml", "job.plan"):
            done = self.call("flowc", "show", source, "--commands")
            rows = [re.split(r"  +", line.strip()) for line in done.stdout.splitlines()]
            self.assertEqual(rows, [["job look: its commands run in the job file's directory"],
                                    ["watch y", "every step", "one process", r"sh: A=b c rm -rf \x1b[8m/\u009b8m\u202e\n", f"job.yaml:{lines[0]}:10"],
                                    ["watch y", "every step", "a process an event, 5 s", "python3 'a b.py'", f"job.yaml:{lines[1]}:10"]])
            self.call("flowc", "build", "job.yaml", "-o", "job.plan")
        self.assertIn("no commands", self.call("flowc", "show", JOBS / "mlp.yaml", "--job", "eval", "--commands").stdout)


if __name__ == "__main__":
    unittest.main()
