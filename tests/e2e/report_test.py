"""flowc report: one HTML file from runs, whole and damaged ones."""
import html
import html.parser
import json
import os
import re
import shutil
import struct
import subprocess
import unittest
import zlib

import numpy as np

from flow import SOURCE, FlowTest

JOB = """flow: 1
seed: 3
vars: {lr: 0.1}
jobs:
  train:
    type: train
    inputs: {x: {shape: [16, 4], dtype: float32, from: {type: random_uniform, low: -1, high: 1}}}
    graph:
      hidden: {op: dense, in: x, units: 8, activation: relu}
      y:      {op: dense, units: 1}
      loss:   {op: reduce_mean, in: y}
    optimizer: {type: sgd, learning_rate: $lr, minimize: loss}
    returns: {value: loss, to: npy}
    hooks:
      - {watch: hidden, to: {type: stats, bins: 7}}
      - {watch_diff: hidden/weight, to: npy}
    run: {steps: 30, also: [{job: eval, every: {steps: 10}}]}
  eval:
    type: predict
    extends: train
    graph: {size: {op: abs, in: loss}}
    returns: {value: size, to: {type: print, label: size, reduce: mean, over: run}}
  draw:
    type: predict
    inputs: {x: {shape: [3, 1, 8, 8], dtype: float32, from: {type: random_uniform, low: -1, high: 1}}}
    graph: {pictures: {op: multiply, in: [x, 2]}}
    returns: {value: pictures, to: npy}
"""
VOID = {"meta", "link", "img", "br", "input", "hr"}


class Page(html.parser.HTMLParser):
    """A page whose elements close in their order, and what is in it."""

    def __init__(self, text):
        super().__init__()
        self.open, self.texts, self.links, self.ids, self.counts, self.data = [], [], [], [], {}, None
        self.feed(text)
        self.close()
        if self.open:
            raise ValueError(f"not closed: {self.open}")

    def handle_starttag(self, tag, attributes):
        self.counts[tag] = self.counts.get(tag, 0) + 1
        for name, value in attributes:
            if name.startswith("on"):
                raise ValueError(f"{tag} has {name}")
            if name in ("src", "href", "action", "xlink:href"):
                self.links.append(value)
            if name == "id":
                self.ids.append(value)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        if tag in VOID or self.open.pop() != tag:
            raise ValueError(f"</{tag}> closes something else, in {self.open}")

    def handle_data(self, text):
        if self.open and self.open[-1] == "script" and text.lstrip().startswith("["):
            self.data = json.loads(text)
        elif not self.open or self.open[-1] not in ("script", "style"):
            self.texts.append(text)

    def text(self):
        return re.sub(r"\s+", " ", " ".join(self.texts))


class Report(FlowTest):
    def setUp(self):
        super().setUp()
        self.write("job.yaml", JOB)

    def train(self, out, *words):
        return self.flowrun("train", "job.yaml", "-o", out, "--quiet", *words)

    def report(self, *words, status=0):
        done = self.call("flowc", "report", *words, "-o", "report.html", status=status)
        return done.stderr if status else self.page()

    def page(self, name="report.html"):
        page = Page((self.dir / name).read_text())
        for link in page.links:  # nothing comes from elsewhere
            self.assertRegex(link, r"^(#|data:image/png;base64,)")
        self.assertTrue({link[1:] for link in page.links if link[0] == "#"} <= set(page.ids))
        return page

    def test_a_run(self):
        self.train("out", "--set", "vars.lr=0.05")
        page = self.report("out")
        for text in ("job.yaml, train", "✓ done", "--set vars.lr=0.05", "30 (", "seed", "loss", "learning_rate", "eval: size",
                     "hidden/weight", "gradient", "24 of 30 events", "at peak", "host"):
            self.assertIn(text.replace("30 (", "30"), page.text())
        self.assertEqual(page.ids[:1], ["run"])
        self.assertEqual([each for each in page.ids if each in ("curves", "distributions", "network", "memory", "samples", "notes")],
                         ["curves", "distributions", "network", "memory"])
        losses = [row["loss"] for row in self.metrics("out")]
        curve = page.data[0]["curves"][0]
        self.assertEqual(curve["x"], list(range(30)))
        np.testing.assert_allclose(curve["y"], losses, rtol=1e-5)
        text = re.sub(r'xmlns="[^"]*"', "", (self.dir / "report.html").read_text())
        self.assertEqual(re.findall(r"https?://.{20}|@import|url\((?!#)", text), [])

    def test_a_sweep_has_what_differs(self):
        for lr in ("0.1", "0.2", "0.4"):
            self.train(f"runs/lr-{lr}", "--set", f"vars.lr={lr}", "--steps", "12")
        page = self.report(*(f"runs/lr-{lr}" for lr in ("0.1", "0.2", "0.4")))
        text = page.text()
        self.assertIn("run vars.lr loss", text)
        self.assertNotIn("run vars.lr --steps", text)
        for lr in ("0.1", "0.2", "0.4"):
            self.assertIn(f"lr-{lr} {lr} ", text)
        self.assertEqual([curve["run"] for curve in page.data[0]["curves"]], [0, 1, 2])
        self.assertEqual(len(page.data[0]["curves"]), 3)
        self.train("other", "--steps", "12")  # no flag says that the learning rate differs
        self.write("job.yaml", JOB.replace("lr: 0.1", "lr: 0.3"))
        self.train("another", "--steps", "12")
        self.assertIn("optimizer.learning_rate", self.report("other", "another").text())

    def test_pictures_of_what_was_returned(self):
        self.flowrun("draw", "job.yaml", "-o", "out", "--quiet")
        text = self.call("flowc", "report", "out", "-o", "report.html").stderr
        self.assertIn("without metrics: train jobs and print sinks with `reduce` write them", text)
        page = self.page()
        self.assertIn("The runs have no metrics.", page.text())
        [uri] = [link for link in page.links if link.startswith("data:")]
        width, height, pixels = self.png(uri)
        values = self.load("out/returns/pictures/value.npy")[-1, :, 0]
        shades = (values - values.min()) / (values.max() - values.min()) * 255
        self.assertEqual((width, height), (3 * 10 - 2, 8))
        for i in range(3):
            np.testing.assert_allclose(pixels[:, i * 10:i * 10 + 8], shades[i], atol=0.5001)

    def png(self, uri):
        """Width, height and gray pixels; each chunk has its checksum."""
        import base64
        data = base64.b64decode(uri.split(",")[1])
        self.assertEqual(data[:8], b"\x89PNG\r\n\x1a\n")
        at, chunks = 8, {}
        while at < len(data):
            length, kind = struct.unpack_from(">I4s", data, at)
            body = data[at + 8:at + 8 + length]
            self.assertEqual(struct.unpack_from(">I", data, at + 8 + length)[0], zlib.crc32(kind + body))
            chunks[kind] = body
            at += length + 12
        width, height = struct.unpack(">II", chunks[b"IHDR"][:8])
        rows = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(height, width + 1)
        self.assertFalse(rows[:, 0].any())
        return width, height, rows[:, 1:]

    def test_comparisons(self):
        self.train("a")
        self.train("b", "--set", "vars.lr=0.2")
        self.call("flowdiff", "a", "b", "--json", "b/diff.json", status=1)
        text = self.report("b").text()
        summary = json.loads((self.dir / "b/diff.json").read_text())["summary"]
        for expected in (f"✕ failed {summary}", "returns/loss/value", "✕ differs", "against a", "first difference in computation order", "plans differ"):
            self.assertIn(expected, text)
        self.call("flowdiff", "a", "a", "--json", "same.json")
        text = self.report("a", "--diff", "same.json").text()
        self.assertIn("✓ equal", text)
        self.assertIn("✓ passed ", text)
        self.assertIn("is not a report of flowdiff", self.report("a", "--diff", "a/run.json", status=2))
        self.assertIn("no such file", self.report("a", "--diff", "none.json", status=2))

    def test_a_run_that_was_killed(self):
        self.train("out")
        (self.dir / "out/run.json").unlink()
        with open(self.dir / "out/metrics.jsonl", "a") as file:
            file.write('{"step": 30, "los')
        page = self.report("out")
        for expected in ("running, or killed", "1 line is not a row of metrics, and left out; the first is line 34"):
            self.assertIn(expected, page.text())
        self.assertIn("network", page.ids)  # of the train job, as the steps have losses
        (self.dir / "out/metrics.jsonl").unlink()
        self.assertIn("it is not known which job of the plan ran", self.report("out").text())

    def test_hostile_files(self):
        attack = "</script><script>alert(1)</script><img src=x onerror=alert(2)>{{title}}\u202e\x07"
        self.train("out")
        record = json.loads((self.dir / "out/run.json").read_text())
        record.update(host=attack, error=attack * 1000, overrides=[f"--set {attack}={attack}", 5, None], libraries={attack: attack}, seconds="x", seed=1.5)
        self.write("out/run.json", json.dumps(record))
        rows = [{"step": i, "job": attack, "job_step": i, "label": attack, "value": v}
                for i, v in enumerate([1, 1e308, -1e308, None, "x", [], True, 1e-320])]
        rows += [{"step": "x"}, [], 5, {"step": 1e300, "loss": 1e300}, {"step": -1, "loss": {}}, {"a": [[[[]]]]}]
        rows += [{"step": 1, "job": "j", "job_step": 1, "label": f"v{i}", "value": i} for i in range(100)]
        text = "\n".join(map(json.dumps, rows))
        self.write("out/metrics.jsonl", text + "\n" + "[" * 10**6 + "\n\xff\n" + '{"step":0,"loss":NaN}\n')
        self.write("out/watch/hidden/stats.csv", "step,epoch,mean,std,min,max,zeros,not_finite,bin0,bin1\n" + "\n".join(
            ["0,0,1,1,0,1,0,0,1,2", "1,0,nan,nan,nan,nan,nan,5,0,0", "2,0,1,1,-1e308,1e308,0,0,1,2", "x", "3,0,1,1,5,1,0,0,1,2", "4,0,1,1,1,1,0,0,7,0", ""]))
        self.write("out/watch/bad/value.npy", "\x93NUMPY no")
        self.write("out/watch/table/stats.csv", "a,b\n")
        arrays = [{"name": attack, "verdict": "unreadable", "detail": attack}] * 80
        self.write("out/diff.json", json.dumps({"golden": attack, "out": attack, "summary": attack, "ignored": [], "failed": 80, "mistrusted": 0, "arrays": arrays, "notes": [attack] * 50}))
        self.write("out/word.json", json.dumps({"golden": attack, "out": attack, "summary": attack, "arrays": [{"name": attack, "verdict": attack}, 3] * 40}))
        (self.dir / "out/link.json").symlink_to("/dev/zero")
        os.mkfifo(self.dir / "out/pipe.json")
        np.save(self.dir / "out/returns/empty.npy", np.zeros((0, 3)))
        page = self.report("out")
        self.assertEqual((page.counts["script"], page.counts.get("img", 0)), (2, 0))
        text = page.text()
        self.assertIn("alert(1)", text)
        for expected in ("lines are not a row", "1 matrix value left out", "more than 60 different values", "watch/bad/value.npy", "is not the table of a stats sink", "pipe.json is not a file", "word.json is left out: it is not a report of flowdiff"):
            self.assertIn(expected, text)
        self.assertNotIn("\u202e", text)
        self.assertLess((self.dir / "report.html").stat().st_size, 2_000_000)
        for name in ("plan.json", "run.json", "metrics.jsonl"):
            self.write(f"out/{name}", "{" * 100)
        self.assertIn("run.json is damaged: it is not a JSON object", self.report("out").text())

    def test_a_long_run_is_thinned_out(self):
        self.train("out")
        with open(self.dir / "out/metrics.jsonl", "w") as file:
            for step in range(50_000):
                file.write(f'{{"step":{step},"epoch":0,"loss":{1000 if step == 33_333 else 1 / (step + 1)},"learning_rate":0.1,"seconds":1}}\n')
            file.write('{"step":50000,"epoch":0,"job":"eval","job_step":1,"name":"m","label":"matrix","value":[[99,7],[0,101]]}\n')
        page = self.report("out")
        self.assertIn("eval: matrix step 50000 99 7 0 101", page.text())
        [curve] = page.data[0]["curves"]
        self.assertLess(len(curve["x"]), 900)
        self.assertIn((33_333, 1000), list(zip(curve["x"], curve["y"])))
        self.assertEqual(curve["x"][-1], 49_999)
        self.assertRegex(page.text(), r"\d+ of 50,000 points")
        self.assertLess((self.dir / "report.html").stat().st_size, 300_000)

    def test_wrong_requests(self):
        self.train("runs/one", "--steps", "2")
        for words, message in ((("none",), "no such directory: none"), (("job.yaml",), "job.yaml is not a directory"),
                               (("runs",), "hint: it has directories of runs: name runs/*"), (("runs/one", "runs/../runs/one"), "is given twice")):
            self.assertIn(message, self.report(*words, status=2))
        self.assertIn("may overwrite a file of a run", self.call("flowc", "report", "runs/one", "-o", "runs/one/plan.json", status=2).stderr)
        self.call("flowc", "report", "runs/one", "-o", "nowhere/report.html", status=2)
        self.assertIn("<!doctype html>", self.call("flowc", "report", "runs/one", "-o", "-").stdout)


@unittest.skipUnless(shutil.which("node"), "Node.js is not installed")
class Plots(FlowTest):
    """The numbers of plots, as the script of a page computes them."""

    def values_of(self, *expressions):
        script = (SOURCE / "cli/report/page/plot.js").read_text() + "\nconsole.log(JSON.stringify([" + ",\n".join(expressions) + "]));"
        return json.loads(self.call(shutil.which("node"), "-e", script).stdout)

    def test_ticks_are_round_and_inside_the_range(self):
        self.assertEqual(self.values_of("linearTicks({from: 0, to: 1}, 5).map(([value]) => value)", "linearTicks({from: -3, to: 7}, 5).map(([value]) => value)"),
                         [[0, 0.2, 0.4, 0.6000000000000001, 0.8, 1], [-2, 0, 2, 4, 6]])
        for values in ("1e-300, 1e300", "5, 5", "0, 0", "-1e308, 1e308", "1, 1 + 1e-12", "NaN, NaN", ""):
            [(spread, found)] = self.values_of(f"[rangeOf([{values}]), linearTicks(rangeOf([{values}]), 5).map(([value]) => value)]")
            self.assertLess(spread["from"], spread["to"])
            self.assertLessEqual(len(found), 12)
            self.assertTrue(all(spread["from"] <= tick <= spread["to"] for tick in found))
        self.assertEqual(self.values_of("tickText(0.25, 0.05)", "tickText(20000, 5000)", "tickText(1250000, 250000)", "tickText(3, 1)", "tickText(0.00002, 0.00001)"),
                         ["0.25", "20k", "1.25M", "3", "2e-5"])
        self.assertEqual(self.values_of("byteTicks({from: 0, to: 2100})"), [[[0, "0 B"], [1024, "1.00 KiB"], [2048, "2.00 KiB"]]])

    def test_curves_ridges_and_stairs_are_paths(self):
        unit = "{from: 0, to: 1}"
        self.assertEqual(self.values_of(f"pathThrough([0, 0.25, 0.5, 1], [0, 1, null, 0.5], {unit}, {unit})"), ["M0 1000h0L250 0M1000 500h0"])
        self.assertEqual(self.values_of("dotsOf('M0 1000h0L250 0M1000 500h0')"), ["M0 1000h0M250 0h0M1000 500h0"])
        self.assertEqual(self.values_of("countedAgain({from: 0, to: 1, counts: [2, 4]}, {from: 0, to: 2}, 4)"), [[2, 4, 0, 0]])
        [one] = self.values_of("ridgesOf([{step: 3, from: 0, to: 1, counts: [1, 1]}])")
        self.assertEqual([(each["step"], each["base"], each["labeled"]) for each in one["ridges"]], [(3, 1, True)])
        self.assertEqual(one["range"], {"from": -0.04, "to": 1.04})
        [found] = self.values_of("stairsOf({steps: 2, always: 50, live: [0, 50]})")
        self.assertEqual(found["always"], "M0 1000V523.81H1000V1000Z")
        self.assertEqual(found["stairs"], "M0 523.81V523.81H500V47.619H1000V523.81Z")


class Verdicts(FlowTest):
    """What the page says of a comparison is what flowdiff said, with the color and the mark of its verdict."""
    GOOD, DOUBTFUL, BAD = ("good", "✓"), ("stopped", "?"), ("bad", "✕")
    # By case: flags and exit status of flowdiff, its verdict, and the arrays of each side.
    RANGE, ONES = np.arange(6, dtype=np.float32), np.ones(6, np.float32)
    CASES = {"passed": ([], 0, GOOD, {"equal": (RANGE, RANGE), "within": (RANGE, RANGE + np.float32(1e-6))}),
             "mistrusted": ([], 0, DOUBTFUL, {"mistrusted": (ONES, ONES), "equal": (RANGE, RANGE)}),
             "failed": ([], 1, BAD, {"differs": (RANGE, RANGE + 1), "missing": (RANGE, None), "extra": (None, RANGE), "dtype": (RANGE, RANGE.astype(np.float64)),
                                     "shape": (RANGE, RANGE[:5]), "unreadable": (RANGE, b"nonsense"), "equal": (RANGE, RANGE)}),
             "strict": (["--strict"], 1, BAD, {"mistrusted": (ONES, ONES)}),
             "unreadable": ([], 3, BAD, {"unreadable": (RANGE, b"nonsense"), "equal": (RANGE, RANGE)}),
             "nothing compared": ([], 4, BAD, {"missing": (RANGE, None)})}
    BADGES = {"equal": GOOD, "within": GOOD, "mistrusted": DOUBTFUL}

    def compare(self, case):
        """The page with the comparison of that case, and its JSON."""
        flags, status, _, arrays = self.CASES[case]
        for name, sides in arrays.items():
            for side, values in zip(("golden", "out"), sides):
                path = self.dir / case / side / f"{name}.npy"
                path.parent.mkdir(parents=True, exist_ok=True)
                if isinstance(values, bytes):
                    path.write_bytes(values)
                elif values is not None:
                    np.save(path, values)
        self.call("flowdiff", f"{case}/golden", f"{case}/out", "--json", f"{case}.json", *flags, status=status)
        self.call("flowc", "report", "run", "--diff", f"{case}.json", "-o", f"{case}.html")
        return (self.dir / f"{case}.html").read_text(), json.loads((self.dir / f"{case}.json").read_text())

    def setUp(self):
        super().setUp()
        self.write("run/metrics.jsonl", '{"step":0,"epoch":0,"loss":1,"learning_rate":0.1,"seconds":1}\n')

    def word_of(self, case):
        return "failed" if case == "strict" else case

    def test_each_verdict_is_that_of_flowdiff(self):
        for case, (_, _, (kind, mark), arrays) in self.CASES.items():
            text, found = self.compare(case)
            self.assertEqual(found["verdict"], self.word_of(case))
            badge = f'<span class="badge {kind}"><span aria-hidden="true">{mark}</span> {self.word_of(case)}</span> {html.escape(found["summary"])}'
            self.assertIn(badge, text, case)
            for name in arrays:
                kind, mark = self.BADGES.get(name, self.BAD)
                self.assertIn(f'<tr><td>{name}</td><td><span class="badge {kind}"><span aria-hidden="true">{mark}</span> {name}</span></td>', text, case)
        text, _ = self.compare("failed")
        self.assertIn("constant offset of 1 (explains 100.0 % of the squared error)", text)
        self.assertIn("<td class=\"number\">6 of 6</td>", text)

    def test_a_report_that_contradicts_itself_is_refused(self):
        _, found = self.compare("failed")
        for change, message in (({"failed": 0}, "its verdict contradicts its arrays"), ({"verdict": "passed"}, "its verdict contradicts its arrays"),
                                ({"failed": False}, "its verdict contradicts its arrays"), ({"arrays": {}}, "its verdict contradicts its arrays"),
                                ({"arrays": 3}, "it is not a report of flowdiff"), ({"arrays": [{"name": "x", "verdict": "good"}]}, "unknown verdict `good`")):
            self.write("changed.json", json.dumps({**found, **change}))
            self.assertIn(f"--diff changed.json: {message}", self.call("flowc", "report", "run", "--diff", "changed.json", "-o", "x.html", status=2).stderr)
        self.write("changed.json", json.dumps({key: value for key, value in found.items() if key not in ("verdict", "strict")}))  # of an earlier version
        self.call("flowc", "report", "run", "--diff", "changed.json", "-o", "x.html")

    # Ends the page as what a reader sees: the text and color of each badge of the comparison, its place, and the text next to it.
    LOOK = """<script>document.body.innerText = JSON.stringify([...document.querySelectorAll("#comparisons .badge")].map(badge => [
        badge.innerText, getComputedStyle(badge).color, badge.getBoundingClientRect().height > 0, badge.parentElement.innerText]))</script>"""

    @unittest.skipUnless(shutil.which("chromium"), "Chromium is not installed")
    def test_each_verdict_is_what_a_browser_shows(self):
        colors = {}
        for case, (_, _, badge, arrays) in self.CASES.items():
            text, found = self.compare(case)
            self.write("looked.html", text.replace("</body>", self.LOOK + "</body>"))
            shown = subprocess.run(["chromium", "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={self.dir}/chromium", "--dump-dom", f"file://{self.dir}/looked.html"],
                                   capture_output=True, text=True, timeout=120, check=True).stdout
            (words, color, visible, line), *rows = json.loads(html.unescape(re.search(r"<body[^>]*>(.*?)</body>", shown, re.S)[1]))
            self.assertEqual((words, visible, line), (f"{badge[1]} {self.word_of(case)}", True, f"{badge[1]} {self.word_of(case)} {found['summary']}"))
            self.assertEqual(colors.setdefault(badge[0], color), color)
            self.assertEqual(sorted(row[0] for row in rows), sorted(f"{self.BADGES.get(name, self.BAD)[1]} {name}" for name in arrays))
            for words, color, visible, _ in rows:
                kind = self.BADGES.get(words[2:], self.BAD)[0]
                self.assertEqual((colors.setdefault(kind, color), visible), (color, True))
        self.assertEqual(len(set(colors.values())), 3)


if __name__ == "__main__":
    unittest.main()
