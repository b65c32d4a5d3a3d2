"""A calculated step time and efficiency of up to 1,024 GPUs, a rank each: no measurement, since ranks do not use GPUs yet.

The buckets and slices are those of runtime/exec/ranks/buckets.cpp. The figures below are assumptions, printed with the results.
"""
import itertools

# Of an H100 SXM: data sheet, and the share that programs reach.
NVLINK = 0.8 * 450e9  # bytes/s, a direction, between GPUs of a host
NETWORK = 0.8 * 50e9  # bytes/s, a direction: an adapter of 400 Gbit/s for each GPU, no oversubscription
MEMORY = 0.7 * 3.35e12  # bytes/s
GPUS_A_HOST = 8
OPERATION = 20e-6  # seconds to start an exchange or a gather, on all ranks
MESSAGE = 1e-6  # seconds a message, of which a rank sends one to each other
PIECE = 4 * 16384  # bytes: slices end at multiples
SMALL = 1 << 14  # bytes of a bucket in which each rank adds up all
GPUS = (1, 8, 64, 256, 1024)
FORWARD = 1 / 3  # of the computing; exchanges overlap with the rest


def gpt2():
    """GPT-2 (124M), backward: (elements, share of the computing) of each gradient, in the order in which they are complete."""
    width, layers, vocabulary, context = 768, 12, 50257, 1024
    block = [4 * width * width, width, 4 * width * width, 4 * width, width, width,  # MLP and its norm
             width * width, width, 3 * width * width, 3 * width, width, width]  # attention and its norm
    yield 0, vocabulary * width  # the logits; the tied embedding is complete at the end
    yield from ((elements, elements) for elements in [width, width, *itertools.chain(*[block] * layers)])
    yield from [(context * width, 0), (vocabulary * width, 0)]


def resnet50():
    """ResNet-50, as gpt2: convolutions compute for each of their pixels."""
    forward = [(64 * 3 * 49, 112), (64, 0), (64, 0)]
    channels = 64
    for width, blocks, side in ((64, 3, 56), (128, 4, 28), (256, 6, 14), (512, 3, 7)):
        for block in range(blocks):
            kernels = [(channels * width, width), (9 * width * width, width), (4 * width * width, 4 * width)]
            if block == 0:
                kernels.append((channels * 4 * width, 4 * width))
            for elements, filters in kernels:
                forward += [(elements, side), (filters, 0), (filters, 0)]
            channels = 4 * width
    forward += [(channels * 1000, 1), (1000, 0)]
    return [(elements, elements * side * side) for elements, side in reversed(forward)]


GPT2_SPEED, RESNET50_SPEED = 400e12, 75e12  # FLOP/s of a GPU: 40 % of bfloat16's peak; about 3,000 images/s
GPT2_FLOPS = 1024 * (6 * 124e6 + 12 * 12 * 768 * 1024)  # a row, forward and backward: 6 a parameter and token, and attention
RESNET50_FLOPS = 3 * 2 * 4.09e9

# name: (gradients, rows, FLOPs a row, FLOP/s of a GPU, bytes of memory that an update takes for each parameter)
MODELS = {
    "GPT-2 (124M), 4 sequences of 1,024 tokens a GPU": (gpt2, 4, GPT2_FLOPS, GPT2_SPEED, 28),
    "GPT-2 (124M), 16 sequences of 1,024 tokens a GPU": (gpt2, 16, GPT2_FLOPS, GPT2_SPEED, 28),
    "ResNet-50, 32 images a GPU": (resnet50, 32, RESNET50_FLOPS, RESNET50_SPEED, 20),
    "ResNet-50, 128 images a GPU": (resnet50, 128, RESNET50_FLOPS, RESNET50_SPEED, 20),
}


def make_buckets(gradients, least):
    """[(bytes of each tensor, share of the computing after which the bucket is complete)], as make_buckets of flow."""
    whole, computed, open_, buckets = sum(share for _, share in gradients), 0, [], []
    for elements, share in gradients:
        computed += share
        if elements:
            open_.append(4 * elements)
        if sum(open_) >= least:
            buckets.append((open_, computed / whole))
            open_ = []
    return buckets + ([(open_, 1.0)] if open_ else [])


def largest_slice(tensors, ranks):
    """Bytes: a piece belongs to the rank in whose equal share of the bucket it begins."""
    slices, begin, total = {}, 0, sum(tensors)
    for size in tensors:
        for first in range(0, size, PIECE):
            rank = (begin + first) * ranks // total
            slices[rank] = slices.get(rank, 0) + min(PIECE, size - first)
        begin += size
    return max(slices.values())


def transfer(near, far, ranks):
    """Seconds in which the busiest rank sends or receives these bytes within its host and to others, in messages to `ranks` others."""
    return OPERATION + MESSAGE * ranks + max(near / NVLINK, far / NETWORK)


def exchange(tensors, ranks):
    """Seconds of a bucket from its last gradient to its sums on all ranks: from each rank to the owner of a slice, and back to all."""
    total, near = sum(tensors), (min(ranks, GPUS_A_HOST) - 1) / (ranks - 1)
    if total <= SMALL:
        sent = total * (ranks - 1)
        return transfer(sent * near, sent * (1 - near), ranks - 1) + total * ranks / MEMORY
    owned = largest_slice(tensors, ranks)
    sent = max(owned * (ranks - 1), total - owned)
    return 2 * transfer(sent * near, sent * (1 - near), ranks - 1) + owned * ranks / MEMORY


def exchange_in_levels(tensors, ranks):
    """As exchange, within each host first and then between hosts: the same sums, since a host's ranks are a subtree of the sum."""
    total, here = sum(tensors), min(ranks, GPUS_A_HOST)
    hosts = ranks // here
    seconds = transfer(total * (here - 1) / here, 0, here - 1)
    if hosts > 1:
        seconds += transfer(0, total / here * (hosts - 1) / hosts, hosts - 1)
    return 2 * seconds + 2 * total / MEMORY


# name: (least bytes of a bucket, how it is exchanged). The first is what flow does.
VARIANTS = {
    "1 MiB": (lambda ranks: 1 << 20, exchange),
    "64 KiB x N": (lambda ranks: max(1 << 20, PIECE * ranks), exchange),
    "two levels": (lambda ranks: max(1 << 20, PIECE * ranks), exchange_in_levels),
}


def step_seconds(model, ranks, least, exchange_bucket):
    """Computing, with buckets one after another beside it, and the update."""
    gradients, rows, flops, speed, update = MODELS[model]
    gradients = list(gradients())
    computing = rows * flops / speed
    free = computing
    if ranks > 1:
        free = 0
        for tensors, share in make_buckets(gradients, least(ranks)):
            free = max(free, computing * (FORWARD + (1 - FORWARD) * share)) + exchange_bucket(tensors, ranks)
    return max(computing, free) + update * sum(elements for elements, _ in gradients) / MEMORY


def assumptions():
    yield f"a GPU computes GPT-2 at {GPT2_SPEED / 1e12:.0f} TFLOP/s and ResNet-50 at {RESNET50_SPEED / 1e12:.0f}; forward is a third of it"
    yield f"{GPUS_A_HOST} GPUs a host, {NVLINK / 1e9:.0f} GB/s between them; {NETWORK / 1e9:.0f} GB/s for each GPU between hosts, a direction, no congestion"
    yield f"{1e6 * OPERATION:.0f} us for each exchange or gather, and {1e6 * MESSAGE:.0f} us for each message, one to each other rank"
    yield "buckets one after another, both phases while the backward pass computes; computing is not slowed by them"
    yield f"gradients in float32; slices end at multiples of 16,384 elements; {MEMORY / 1e12:.2f} TB/s to add up and to update"
    yield "as many rows a GPU for any number of GPUs; data arrives in time; all GPUs are equally fast"


def print_model():
    print("Calculated, not measured. Assumptions:")
    for line in assumptions():
        print(f"- {line}")
    print("Buckets: 1 MiB, as flow has them; 64 KiB x N, a piece for each rank; two levels, these within each host and then between hosts.")
    for model, (gradients, *_) in MODELS.items():
        print(f"\n{model}, {sum(elements for elements, _ in gradients()) / 1e6:.1f} million parameters")
        print("  GPUs" + "".join(f"{name:>22}" for name in VARIANTS))
        for ranks in GPUS:
            print(f"  {ranks:4}", end="")
            for variant in VARIANTS.values():
                seconds = step_seconds(model, ranks, *variant)
                print(f"{1e3 * seconds:12.1f} ms {100 * step_seconds(model, 1, *variant) / seconds:5.1f} %", end="")
            print()
