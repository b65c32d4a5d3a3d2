"""Facts about the source tree: who includes whom, one door for each library, complete lists, scripts that agree."""
import collections
import pathlib
import re
import shutil
import subprocess
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]

ROOTS = ["ops", "runtime", "compiler", "cli", "tests"]

# What a folder may include of ours, beside itself. The order of the table is the order of the layers.
LAYERS = {
    "runtime/base": [],
    "ops": ["runtime/base"],
    "runtime/plan": ["runtime/base", "ops"],
    "runtime/io": ["runtime/base", "ops", "runtime/plan"],
    "runtime/data": ["runtime/base", "ops", "runtime/plan", "runtime/io"],
    "runtime/exec": ["runtime/base", "ops", "runtime/plan", "runtime/io", "runtime/data"],
    "runtime/compare": ["runtime/base", "ops", "runtime/plan", "runtime/io", "runtime/exec"],
    "runtime/verify": ["runtime/base", "ops", "runtime/plan", "runtime/io", "runtime/data", "runtime/exec", "runtime/compare"],
    "runtime/onnx": ["runtime/base", "ops", "runtime/plan"],
    "runtime/cpu": ["runtime/base", "ops", "runtime/plan", "runtime/exec"],
    "runtime/cuda": ["runtime/base", "ops", "runtime/plan", "runtime/data", "runtime/exec"],
    "runtime/mpi": ["runtime/base", "runtime/exec"],
    "compiler": ["runtime/base", "ops", "runtime/plan"],
    "cli": ["runtime", "ops", "compiler"],
}

# A file of an op, ops/FAMILY/NAME, is of the folder that its name begins with, or of `ops`.
PARTS_OF_OPS = {"grad": "compiler/ops", "cpu": "runtime/cpu/ops", "reference": "runtime/cpu/reference", "cuda": "runtime/cuda/ops"}

# The only places that include a library's headers.
DOORS = {
    r"yaml-cpp/": ["compiler/yaml/"],
    r"nlohmann/": ["runtime/plan/json/json.h"],
    r"CLI/": ["cli/"],
    r"dnnl": ["runtime/cpu/", "tests/bench/"],
    r"cuda|cublas|nvrtc": ["runtime/cuda/", "tests/"],
    r"cudnn": ["runtime/cuda/libraries/cudnn.cpp", "runtime/cuda/libraries/cudnn_attention.h",
                "runtime/cuda/libraries/cudnn_recurrent."],
    r"mpi\.h": ["runtime/mpi/"],
    r"omp\.h": ["runtime/cpu/", "tests/bench/"],
    r"zlib\.h": ["runtime/io/", "cli/report/pictures.cpp", "tests/fuzz/png_fuzz.cpp", "tests/unit/data/"],
    r"zstd\.h": ["runtime/data/files/unpack.cpp", "tests/unit/data/"],
    r"png\.h": ["runtime/data/image/png.cpp"],
    r"jpeglib\.h": ["runtime/data/image/jpeg.cpp", "tests/unit/data/"],
    r"utf8proc\.h": ["runtime/data/text/utf8.cpp"],
    r"onnx\.pb\.h|google/protobuf": ["runtime/onnx/"],
    r"catch2/": ["tests/"],
}

# Folders whose files are compiled together, in batches of neighbors.
TOGETHER = [["runtime/base", "ops", "runtime/plan", "runtime/io", "runtime/data", "runtime/exec"], ["runtime/compare"], ["runtime/verify"], ["runtime/onnx"], ["runtime/cpu"],
            ["runtime/cuda/ops", "runtime/cuda/loops"], ["runtime/mpi"], ["compiler"], *([f"cli/{room}"] for room in ("shared", "show", "report", "reference", "flowc", "flowrun", "flowdiff")),
            ["tests/support", "tests/property/cases"], ["tests/unit", "tests/golden"]]
UNNAMED = re.compile(r"^namespace (\w[\w:]*) \{$|^namespace \{$(.*?)^\}  // namespace$", re.M | re.S)
TYPE = r"(?:struct|class|enum class) (\w+)(?= [:{]| final)"
CONSTANT = r"(?:static |inline )?const(?:expr)? [^=({;\n]*?\b(\w+)(?:\[\w*\])?(?: =|\{)"
FUNCTION = r"(?:__\w+__ )*[A-Za-z][^\n=;{}()]*?(?<![:\w])(\w+)\(([^;{}]*?)\)(?: \{|;)"

INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.M)
CODE = (".h", ".cpp", ".def", ".cu", ".cuh")


def folder_of(name):
    """The folder whose rules hold for the file."""
    folder, _, file = name.rpartition("/")
    return PARTS_OF_OPS.get(re.split(r"[_.]", file)[0], "ops") if name.startswith("ops/") else folder


def is_in(name, folders):
    return any(f"{folder_of(name)}/".startswith(f"{folder}/") for folder in folders)


def sources(*folders):
    """Files and their texts, by the folders whose rules hold for them."""
    for root in ROOTS:
        for path in sorted((SOURCE / root).rglob("*")):
            name = str(path.relative_to(SOURCE))
            if path.suffix in CODE and is_in(name, folders):
                yield name, path.read_text()


class Layering(unittest.TestCase):
    def test_each_layer_includes_only_those_below(self):
        for layer, below in LAYERS.items():
            for name, text in sources(layer):
                for header in INCLUDE.findall(text):
                    if header.startswith(("runtime/", "ops/", "compiler/", "cli/")):
                        self.assertTrue(is_in(header, [layer, *below]), f"{name} includes {header}")

    def test_no_folders_include_each_other_in_a_circle(self):
        below = {}
        for name, text in sources(*ROOTS[:-1]):
            below.setdefault(folder_of(name), set()).update(folder_of(header) for header in INCLUDE.findall(text) if (SOURCE / header).is_file())
        while leaves := {folder for folder, others in below.items() if not others & below.keys() - {folder}}:
            below = {folder: others for folder, others in below.items() if folder not in leaves}
        self.assertEqual({}, below)

    def test_no_folder_is_longer_than_a_page(self):
        files = collections.Counter(pathlib.PurePosixPath(name).parent for name, _ in sources(*ROOTS[:-1]))
        self.assertEqual({}, {str(folder): count for folder, count in files.items() if count > 40})

    def test_what_is_compiled_together_has_names_of_its_own(self):
        for folders in TOGETHER:
            seen = {}
            for name, text in sources(*folders):
                if not name.endswith((".cpp", ".cu")) or name.startswith("tests/unit/cuda/"):  # of another program
                    continue
                outer = ""
                for part in UNNAMED.finditer(text):
                    outer = part[1] or outer
                    body = part[2] or ""
                    found = [match[1] for kind in (TYPE, CONSTANT) for match in re.finditer("^" + kind, body, re.M)]
                    for match in re.finditer("^" + FUNCTION, body, re.M):
                        types = re.sub(r"\s+|\b\w+(?=,|$)", "", match[2])  # without the names of parameters
                        found.append(f"{match[1]}({types})")
                    for one in found:
                        seen.setdefault((outer, one), set()).add(name)
            self.assertEqual({}, {one: names for one, names in seen.items() if len(names) > 1})

    def test_constants_of_files_are_named_as_constants(self):
        # A local variable of a neighbor would shadow any other name.
        for name, text in sources(*ROOTS):
            for constant in re.findall("^" + CONSTANT, text, re.M):
                self.assertRegex(constant, r"^(k?[A-Z]|warpSize$)", name)

    def test_each_library_has_one_door(self):
        for name, text in sources(*ROOTS):
            for header in INCLUDE.findall(text):
                for library, doors in DOORS.items():
                    if re.match(library, header):
                        of = f"{folder_of(name)}/{pathlib.PurePosixPath(name).name}"
                        self.assertTrue(of.startswith(tuple(doors)), f"{name} includes {header}")

    def test_files_are_changed_in_one_place(self):
        # runtime/base/file_operations.h, where tests stop runs and cut their power.
        changes = re.compile(r"(?<!\w)(?:fs::(?:remove|remove_all|rename|create_\w+|copy|copy_file|resize_file)\(|std::ofstream|::?fopen\(|"
                             r"::(?:write|pwrite|fsync|fdatasync|syncfs|rename|renameat|renameat2|unlink|unlinkat|rmdir|mkdir|mkdtemp|truncate|"
                             r"ftruncate|link|symlink|open\([^;]*O_CREAT)\()")
        found = {(name, match[0]) for name, text in sources("runtime", "compiler", "cli") for match in changes.finditer(text)
                 if name != "runtime/base/file_operations.cpp"}
        pipes = {"runtime/base/mapped_file.cpp", "runtime/io/watchdog.cpp", "runtime/io/process.cpp", "runtime/verify/trial.cpp",
                 "cli/shared/console.cpp"}
        self.assertEqual({("cli/shared/console.cpp", "::mkdtemp(")} | {(name, "::write(") for name in pipes}, found)


class Sums(unittest.TestCase):
    def test_kernels_leave_the_order_of_sums_to_no_compiler(self):
        """Which vectors the CPU has would decide it; loops/block_sums.h has one order."""
        for path, text in sources("runtime/cpu/ops", "runtime/cpu/loops"):
            self.assertNotRegex(text, r"simd[^\n]*reduction\(\+", path)


class Lists(unittest.TestCase):
    def test_every_family_of_ops_has_its_files(self):
        families = {}
        for macro, family in re.findall(r"^(FLOW_\w+)\((\w+)\)", (SOURCE / "ops/families.def").read_text(), re.M):
            families.setdefault(macro, set()).add(family)
        layers, undifferentiated, one_loop = families["FLOW_LAYERS"], families["FLOW_UNDIFFERENTIATED"], families["FLOW_ONE_LOOP"]
        every = set.union(*families.values())
        for part, returns, expected in (("spec", "OpSpec", every), ("grad", "Rules", every - undifferentiated),
                                        ("cpu", "KernelEntry", every - layers), ("reference", "KernelEntry", every - layers - one_loop),
                                        ("cuda", "KernelEntry", every - layers)):
            exporting = {path.parent.name for path in (SOURCE / "ops").glob(f"*/{part}.*")
                         if re.search(rf"^std::(?:span<const |vector<){returns}> (?:\w+::)?{path.parent.name}\(\)", path.read_text(), re.M)}
            self.assertEqual(expected, exporting, part)

    def test_ops_are_told_apart_by_their_records(self):
        # Traits of ops/core/spec.h, or the records of ops/core/known.h. Names are for JSON and messages.
        name = r"(?:\bop|\bop->name|\bop\.name\(\)|\bspec\.name|\bspec->name)"
        compared = re.compile(rf'{name} *[=!]= *"\w|"\w+" *[=!]= *{name}|{name}\.(?:starts|ends)_with\("')
        for file, text in sources("runtime", "compiler", "cli"):
            self.assertIsNone(compared.search(text), f"{file} compares an op with a name")

    def test_diagnostic_codes_are_unique(self):
        text = (SOURCE / "compiler/diag/diagnostics.def").read_text()
        codes = re.findall(r'"([EW]\d{4})"', text)
        declared = re.findall(r'FLOW_DIAGNOSTIC\(\s*\w+,\s*"([EW]\d{4})"', text)
        self.assertEqual(len(declared), len(set(declared)))
        self.assertLessEqual(set(declared), set(codes))


class Texts(unittest.TestCase):
    def test_every_source_file_says_first_what_it_is_for(self):
        for name, text in sources(*ROOTS):
            self.assertTrue(text.startswith("// "), name)

    def test_nothing_is_left_for_later(self):
        word = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b")
        for name, text in sources(*ROOTS):
            self.assertIsNone(word.search(text), name)

    def test_the_format_is_clang_formats(self):
        clang_format = shutil.which("clang-format")
        if not clang_format:
            self.skipTest("clang-format is not installed")
        files = [name for name, _ in sources(*ROOTS) if not name.endswith(".def")]
        done = subprocess.run([clang_format, "--dry-run", "-Werror", *files], cwd=SOURCE, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, "\n".join(done.stderr.splitlines()[:20]))


class Rooms(unittest.TestCase):
    def test_each_test_case_has_the_tag_of_its_room(self):
        case = re.compile(r'^TEST_CASE\(\s*(?:"(?:[^"\\]|\\.)*"\s*)+(?:, "([^"]*)")?\)', re.M)
        for name, text in sources("tests/unit", "tests/golden", "tests/property"):
            folders = pathlib.PurePosixPath(name).parts
            room = "cuda" if "cuda" in folders[:-1] else folders[2] if folders[1] == "unit" else folders[1]
            for match in case.finditer(text):
                self.assertIn(f"[{room}]", match[1] or "", f"{name}: {match[0]}")


if __name__ == "__main__":
    unittest.main()
