#!/usr/bin/env python3
"""Checks the machine code of flow's kernels: no local memory, 128-bit access in streaming kernels, no 64-bit division in loops,
and how many warps fit on a multiprocessor.

Usage: tests/device/sass_lint.py [--tools DIR] [--list] FILE...      FILE: libflow_cuda.so, an object or a cubin
Needs cuobjdump, nvdisasm (of the CUDA toolkit, or of the Python wheels nvidia-cuda-cuobjdump and nvidia-cuda-nvdisasm) and
c++filt. Exits with 0 if all kernels pass, 1 if one fails or an exception is out of date, 77 if the tools are missing.
"""
import argparse
import collections
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

SKIPPED = 77
THREADS = 256  # of a block: kThreads in runtime/cuda/loops/launch.h

# Warps, bytes of shared memory and blocks that a multiprocessor holds: CUDA C++ Programming Guide, Compute Capabilities.
MULTIPROCESSORS = {75: (32, 64, 16), 80: (64, 164, 32), 86: (48, 100, 16), 89: (48, 100, 24), 90: (64, 228, 32), 100: (64, 228, 32),
                   103: (64, 228, 32), 120: (48, 100, 24)}
REGISTERS = 65536
LEAST_OCCUPANCY = 0.5

# Kernels that read and write each element once, in order: by name.
STREAMING = {"map_flat", "map_flat_pairs", "cast_from", "update", "fill_with"}

# Dynamic shared memory, which the code does not state: bytes by kernel and element (ops/attention/cuda.cuh, Space).
DYNAMIC_SHARED = {r"attend(_back_to_query|_back_to_keys|_back_to_bias)?<(float|flow::Float16|flow::BFloat16)>": 4 * (2 * 64 * 17 + 64 * 65),
                  r"attend(_back_to_query|_back_to_keys|_back_to_bias)?<double>": 8 * (2 * 32 * 17 + 32 * 33)}

WIDE = "only tensors of 2^31 elements or more divide: others multiply (loops.h)"
ROWS = "one division for each row or stretch, which has many elements"
ELEMENTS = "divides for each element; no profile has shown that it matters"


def kernels_named(*names):
    return rf"\b({'|'.join(names)})(<|\(|$)"


# What may stay as it is: check, kernels, reason.
ACCEPTED = [
    ("local", r"\bsum_copies<", "an index along each of up to eight axes, in an array"),
    ("local", r"(Sin|Cos|Tan)\b", "sine and cosine reduce large arguments in an array"),
    ("division", kernels_named("map_pairs", "map_triples", r"attend\w*", "apply", "average", "compare_integers", "copy_strided", "pool", "reduce_columns", "reduce_rows", "repeat",
                               "share_out",
                               "sparse_grad", "spread", "spread_apart", "sum_columns", "sum_copies", "sum_runs", "transpose_tiles"), WIDE),
    ("division", kernels_named("add_many_picks", "dropout_forward", "place_by_block", "place_by_thread", "scan_columns", "softmax_grad_rows",
                               "softmax_rows", "sparse_rows", "sum_channels", "sum_short_channels", "take_largest"), ROWS),
    ("division", kernels_named("add_images", "add_picks", "copy_rows", "differentiate_rows", "dropout_elements", "extreme_grad", "gather_elements",
                               "keep_side", "look_up_rows", "normalize_rows", "one_hot_elements", "pad_elements", "place_largest", "prod_grad"), ELEMENTS),
    ("vectors", r"\bfill_with<", "constants are filled once, before the first call"),
    ("occupancy", r"\b(map_flat_pairs|dense_rows|softmax_rows|share_out)<(long, )?double\b", "float64 is for checks: fewer registers would spill"),
    ("vectors", r"\bcast_from<(bool|signed char|unsigned char)>", "8 elements at once, which are 64 bits"),
    ("occupancy", r"\bupdate<double,", "float64 is for checks: fewer registers would spill"),
    ("occupancy", kernels_named("reduce_columns", "reduce_rows"), "sums in float64, or with places, need registers; long rows hide the latency"),
    ("occupancy", r"\bspread<long,", "indices of 64 bits: only for tensors of 2^31 elements or more"),
    ("occupancy", r"\bapply<flow::Float16, 8, 8,", "eight elements in each thread: loads of 128 bits hide the latency of few warps"),
    ("occupancy", r"\battend", "16 sums of a tile in each thread: many multiplications per load hide the latency of few warps"),
]


class Kernel:
    """One kernel for one architecture."""

    def __init__(self, name, arch, registers=0, shared=0):
        self.name, self.arch, self.registers, self.shared = name, arch, registers, shared
        self.code = []  # (address, instruction)
        self.labels = {}  # name -> address

    def plain(self):
        """The name without templates, namespaces and parameters."""
        return re.split(r"[<(]", self.name.replace("(anonymous namespace)::", ""))[0].split("::")[-1]

    def dynamic_shared(self):
        return next((count for pattern, count in DYNAMIC_SHARED.items() if re.search(pattern, self.name)), 0)

    def occupancy(self):
        warps, kilobytes, blocks = MULTIPROCESSORS[self.arch]
        per_block = THREADS // 32
        # Registers are allocated for a warp, 256 at a time.
        by_registers = REGISTERS // (-(-max(self.registers, 1) * 32 // 256) * 256) // per_block
        shared = self.shared + self.dynamic_shared()
        by_shared = kilobytes * 1024 // shared if shared else blocks
        return min(by_registers, by_shared, blocks, warps // per_block) * per_block / warps


def loops(kernel):
    """Ranges of addresses from the target of a branch back to the branch."""
    found = []
    for address, text in kernel.code:
        label = re.search(r"\bBRA(?:\.\w+)* .*`\((\S+)\)", text)
        target = kernel.labels.get(label.group(1)) if label else None
        if target is not None and target < address:
            found.append((target, address))
    return found


def check_local(kernel):
    counts = collections.Counter(match.group(1) for _, text in kernel.code if (match := re.search(r"\b(LDL|STL)\b", text)))
    return ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))


def check_vectors(kernel):
    if kernel.plain() not in STREAMING:
        return ""
    loads = any(re.search(r"\bLDG\.\S*128", text) for _, text in kernel.code)
    stores = any(re.search(r"\bSTG\.\S*128", text) for _, text in kernel.code)
    loads = loads or not any("LDG" in text for _, text in kernel.code)  # a fill loads nothing
    return "" if loads and stores else f"no 128-bit {'stores' if loads else 'loads'}"


def check_division(kernel):
    inside = loops(kernel)
    calls = [address for address, text in kernel.code if re.search(r"CALL.*__cuda_sm20_(div|rem)_[su]64", text)]
    count = sum(any(first <= call <= last for first, last in inside) for call in calls)
    return f"{count} 64-bit divisions in loops" if count else ""


def check_occupancy(kernel):
    share = kernel.occupancy()
    return "" if share >= LEAST_OCCUPANCY else f"{share:.0%} of warps: {kernel.registers} registers, {kernel.shared + kernel.dynamic_shared()} bytes shared"


CHECKS = {"local": check_local, "vectors": check_vectors, "division": check_division, "occupancy": check_occupancy}


def parse_code(text, kernels):
    """Adds what nvdisasm -c prints to `kernels`, by mangled name."""
    kernel, pending, address = None, [], -16
    for line in text.splitlines():
        if section := re.match(r"\s*\.section\s+\.text\.([^,]+),", line):
            kernel, pending, address = kernels.get(section.group(1)), [], -16
        elif kernel is None:
            continue
        elif label := re.match(r"(\S+):$", line.strip()):
            pending.append(label.group(1))
        elif code := re.match(r"\s*/\*([0-9a-f]+)\*/\s+(.*;)", line):
            address = int(code.group(1), 16)
            for name in pending:
                kernel.labels[name] = address
            pending = []
            kernel.code.append((address, code.group(2)))


def parse_usage(text, arch):
    """What cuobjdump -res-usage prints, as kernels by mangled name."""
    kernels = {}
    for name, registers, shared in re.findall(r"Function (\S+):\s+REG:(\d+) STACK:\d+ SHARED:(\d+)", text):
        kernels[name] = Kernel(name, arch, int(registers), int(shared))
    return kernels


def run(*words, **more):
    return subprocess.run(words, check=True, capture_output=True, text=True, **more).stdout


def demangle(kernels):
    names = run("c++filt", input="\n".join(kernels)).splitlines()
    for kernel, name in zip(kernels.values(), names):
        kernel.name = name.removeprefix("void ")


def cubins_of(file, cuobjdump, folder):
    if file.suffix == ".cubin":
        return [file.resolve()]
    run(cuobjdump, "-xelf", "all", str(file.resolve()), cwd=folder)
    return sorted(pathlib.Path(folder).glob("*.cubin"))


def read_kernels(file, cuobjdump, nvdisasm):
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for cubin in cubins_of(file, cuobjdump, folder):
            code = run(nvdisasm, "-c", str(cubin))
            arch = int(re.search(r"sm_(\d+)", code).group(1))
            kernels = parse_usage(run(cuobjdump, "-res-usage", str(cubin)), arch)
            parse_code(code, kernels)
            demangle(kernels)
            found += kernels.values()
    return found


def judge(kernels, accepted):
    """Failures, and the exceptions that something needed."""
    failures, used = [], set()
    for kernel in kernels:
        for check, judge_kernel in CHECKS.items():
            if not (problem := judge_kernel(kernel)):
                continue
            reasons = [i for i, (name, pattern, _) in enumerate(accepted) if name == check and re.search(pattern, kernel.name)]
            used.update(reasons)
            if not reasons:
                failures.append((check, kernel, problem))
    return failures, used


def find_tool(name, folder):
    path = shutil.which(name, path=folder) if folder else shutil.which(name) or shutil.which(name, path="/usr/local/cuda/bin")
    return path


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=pathlib.Path, metavar="FILE")
    parser.add_argument("--tools", help="folder of cuobjdump and nvdisasm")
    parser.add_argument("--list", action="store_true", help="print registers, shared memory and occupancy of each kernel")
    parser.add_argument("--part", action="store_true", help="FILEs are not the whole module: do not report unused exceptions")
    options = parser.parse_args()
    tools = [find_tool(name, options.tools) for name in ("cuobjdump", "nvdisasm")]
    if not all(tools):
        print("sass_lint: skipped: no cuobjdump or nvdisasm", file=sys.stderr)
        return SKIPPED
    os.environ["PATH"] += os.pathsep + os.path.dirname(tools[1])  # cuobjdump starts nvdisasm
    kernels = [kernel for file in options.files for kernel in read_kernels(file, *tools)]
    if not kernels:
        print("sass_lint: no kernel in the files", file=sys.stderr)
        return 1
    if options.list:
        for kernel in sorted(kernels, key=lambda kernel: (kernel.arch, kernel.occupancy(), kernel.name)):
            print(f"sm_{kernel.arch} {kernel.occupancy():4.0%} {kernel.registers:3} registers {kernel.shared:5} bytes  {kernel.name[:150]}")
    failures, used = judge(kernels, ACCEPTED)
    for check, kernel, problem in failures:
        print(f"{check}: sm_{kernel.arch} {kernel.name[:200]}: {problem}")
    unused = [] if options.part else [entry for i, entry in enumerate(ACCEPTED) if i not in used]
    for check, pattern, _ in unused:
        print(f"unused exception: {check} {pattern}")
    print(f"{len(kernels)} kernels, {len(failures)} failures")
    return 1 if failures or unused else 0


if __name__ == "__main__":
    sys.exit(main())
