#!/usr/bin/env python3
"""Writes images.npz: encoded images and their samples. It needs NumPy and Pillow.

NAME.file holds the bytes of a file; NAME.rgb, .rgba, .gray, .rgb16 and .gray16 hold its samples as
(C, H, W). The samples of PNGs are known, because the script encodes them; Pillow confirms those that
it decodes exactly. Pillow decodes the JPEGs, resizes and turns.
"""
import io
import pathlib
import struct
import zlib

import numpy as np
from PIL import Image, ImageOps

HERE = pathlib.Path(__file__).resolve().parent
random = np.random.default_rng(7)
arrays = {}


def planar(image):
    array = np.asarray(image)
    return array[None] if array.ndim == 2 else np.ascontiguousarray(array.transpose(2, 0, 1))


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def packed(samples, depth):
    """Returns the filtered rows (filter 0) of (H, W, C) samples."""
    rows = samples.reshape(samples.shape[0], -1)
    out = b""
    for row in rows:
        if depth == 16:
            data = row.astype(">u2").tobytes()
        else:
            bits = "".join(format(v, f"0{depth}b") for v in row)
            bits += "0" * (-len(bits) % 8)
            data = bytes(int(bits[i:i + 8], 2) for i in range(0, len(bits), 8))
        out += b"\0" + data
    return out


def png(samples, depth, kind, before=(), after=(), interlaced=False):
    """Returns a PNG of (H, W, C) samples with color type `kind`."""
    height, width = samples.shape[:2]
    body = b""
    passes = [(0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2),
              (1, 0, 2, 1)] if interlaced else [(0, 0, 1, 1)]
    for y, x, dy, dx in passes:
        part = samples[y::dy, x::dx]
        if part.size:
            body += packed(part, depth)
    header = struct.pack(">IIBBBBB", width, height, depth, kind, 0, 0, int(interlaced))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + b"".join(before) +
            chunk(b"IDAT", zlib.compress(body, 9)) + b"".join(after) + chunk(b"IEND", b""))


def noise(height, width, channels, depth=8):
    return random.integers(0, 2**depth, (height, width, channels))


def to_gray(rgb):
    r, g, b = (rgb[..., i].astype(np.int64) for i in range(3))
    return (19595 * r + 38470 * g + 7471 * b + 32768) >> 16


FORMS = ("rgba", "gray", "rgb16", "gray16")


def add_png(name, data, rgba, depth=8, exact_in_pillow=True, forms=FORMS):
    """Adds a PNG whose colors are the (H, W, 4) array `rgba` of this depth."""
    wide = rgba if depth == 16 else rgba * 257
    narrow = (rgba * 255 + 32895) >> 16 if depth == 16 else rgba
    arrays[name + ".file"] = np.frombuffer(data, np.uint8)
    samples = {"rgba": narrow.astype(np.uint8), "gray": to_gray(narrow)[..., None].astype(np.uint8),
               "rgb16": wide[..., :3].astype(np.uint16),
               "gray16": to_gray(wide)[..., None].astype(np.uint16)}
    for form in forms:
        arrays[f"{name}.{form}"] = samples[form].transpose(2, 0, 1)
    if exact_in_pillow:
        decoded = np.asarray(Image.open(io.BytesIO(data)).convert("RGBA"))
        assert np.array_equal(decoded, narrow), name
        gray = np.asarray(Image.open(io.BytesIO(data)).convert("RGB").convert("L"))
        assert np.array_equal(gray, to_gray(narrow)), name


def opaque(rgb, most=255):
    rgb = np.broadcast_to(rgb, rgb.shape[:2] + (3,))
    return np.concatenate([rgb, np.full(rgb.shape[:2] + (1,), most)], axis=2)


def pngs():
    for depth in (1, 2, 4, 8):
        v = noise(5, 7, 1, depth)
        gray = v * 255 // (2**depth - 1)
        add_png(f"gray{depth}", png(v, depth, 0), opaque(gray))
        clear = struct.pack(">H", v[2, 3, 0])
        rgba = opaque(gray)
        rgba[..., 3:] = np.where(v == v[2, 3, 0], 0, 255)
        add_png(f"gray{depth}_clear", png(v, depth, 0, [chunk(b"tRNS", clear)]), rgba,
                exact_in_pillow=False)
        palette = noise(1, 2**depth, 3)[0]
        plte = chunk(b"PLTE", palette.astype(np.uint8).tobytes())
        add_png(f"palette{depth}", png(v, depth, 3, [plte]), opaque(palette[v[..., 0]]),
                forms=FORMS if depth == 4 else FORMS[:1])
        alpha = np.full(2**depth, 255)
        alpha[:2] = [0, 100]
        trns = chunk(b"tRNS", bytes([0, 100]))
        rgba = np.concatenate([palette[v[..., 0]], alpha[v[..., 0]][..., None]], axis=2)
        add_png(f"palette{depth}_alpha", png(v, depth, 3, [plte, trns], interlaced=depth == 2), rgba,
                forms=FORMS if depth == 4 else FORMS[:1])
    v = noise(6, 5, 3)
    add_png("rgb8", png(v, 8, 2), opaque(v))
    v[1, 1] = v[4, 2]
    rgba = opaque(v)
    rgba[1, 1, 3] = rgba[4, 2, 3] = 0
    trns = chunk(b"tRNS", struct.pack(">HHH", *v[1, 1]))
    add_png("rgb8_clear", png(v, 8, 2, [trns]), rgba)
    v = noise(11, 9, 4)
    add_png("rgba8_interlaced", png(v, 8, 6, interlaced=True), v)
    v = noise(4, 6, 2)
    add_png("gray8_alpha", png(v, 8, 4), v[..., [0, 0, 0, 1]])
    for name, kind, channels in (("gray16", 0, 1), ("rgb16", 2, 3), ("rgba16", 6, 4)):
        v = noise(5, 6, channels, 16)
        rgba = v if channels == 4 else opaque(v, 65535)
        add_png(name, png(v, 16, kind, interlaced=kind == 2), rgba, 16, exact_in_pillow=False)
    v = noise(3, 4, 3, 16)
    v[0, 0] = v[1, 1]
    v[0, 1] = v[1, 1] ^ 1  # differs in the low byte only
    rgba = opaque(v, 65535)
    rgba[0, 0, 3] = rgba[1, 1, 3] = 0
    trns = chunk(b"tRNS", struct.pack(">HHH", *v[1, 1]))
    add_png("rgb16_clear", png(v, 16, 2, [trns]), rgba, 16, exact_in_pillow=False)


def scene(height, width):
    """Returns smooth RGB with edges, so that JPEGs are small and have all frequencies."""
    y, x = np.mgrid[:height, :width]
    rgb = np.stack([128 + 120 * np.sin(x / 7), 128 + 120 * np.cos((x + y) / 5), 4 * x + 2 * y], 2)
    rgb[height // 3:height // 2, width // 4:] = [250, 20, 40]
    return (rgb % 256).astype(np.uint8)


def add_jpeg(name, image, **options):
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", **options)
    arrays[name + ".file"] = np.frombuffer(buffer.getvalue(), np.uint8)
    decoded = ImageOps.exif_transpose(Image.open(buffer))
    arrays[name + ".rgb"] = planar(decoded.convert("RGB"))
    if decoded.mode != "CMYK" and "exif" not in options:
        arrays[name + ".gray"] = planar(decoded.convert("L"))


def jpegs():
    image = Image.fromarray(scene(29, 43))
    for name, sampling in (("444", 0), ("422", 1), ("420", 2)):
        for progressive in (False, True):
            add_jpeg(f"jpeg{name}" + "_progressive" * progressive, image, quality=80,
                     subsampling=sampling, progressive=progressive)
    add_jpeg("jpeg_gray", image.convert("L"), quality=70, optimize=True)
    add_jpeg("jpeg_restarts", image, quality=60, restart_marker_blocks=2)
    cmyk = np.concatenate([scene(17, 26), noise(17, 26, 1) // 3], axis=2).astype(np.uint8)
    add_jpeg("jpeg_cmyk", Image.fromarray(cmyk, "CMYK"), quality=90)


def exif(orientation, order):
    """Returns TIFF data with the tags ImageWidth and Orientation."""
    magic = b"II*\0" if order == "<" else b"MM\0*"
    entries = struct.pack(order + "HHIHH", 0x100, 3, 1, 9, 0)
    entries += struct.pack(order + "HHIHH", 0x112, 3, 1, orientation, 0)
    return (magic + struct.pack(order + "IH", 8, 2) + entries + bytes(4))


def orientations():
    image = Image.fromarray(scene(5, 9))
    for orientation in range(1, 9):
        data = exif(orientation, "<>"[orientation % 2])
        add_jpeg(f"exif{orientation}_jpeg", image, quality=95, exif=b"Exif\0\0" + data)
        expected = ImageOps.exif_transpose(
            Image.open(io.BytesIO(arrays[f"exif{orientation}_jpeg.file"].tobytes())))
        assert expected.size == ((9, 5) if orientation < 5 else (5, 9))
        v = np.asarray(image).astype(np.int64)
        where = {"after" if orientation % 3 == 0 else "before": [chunk(b"eXIf", data)]}
        file = png(v, 8, 2, **where)
        turned = np.asarray(ImageOps.exif_transpose(Image.open(io.BytesIO(file))))
        add_png(f"exif{orientation}_png", file, opaque(turned.astype(np.int64)),
                exact_in_pillow=False, forms=["rgb16"] if orientation < 3 else ["rgba"])


FILTERS = {"bilinear": Image.Resampling.BILINEAR, "bicubic": Image.Resampling.BICUBIC}


def resized(array, height, width, resampling):
    """Resizes the width and then the height of an (H, W) array."""
    image = Image.fromarray(array)
    return np.asarray(image.resize((width, image.height), resampling).resize(
        (width, height), resampling))


def resizes():
    smooth = np.ascontiguousarray(scene(75, 100)[..., 1])
    rough = noise(41, 67, 1)[..., 0].astype(np.uint8)
    arrays["smooth"], arrays["rough"] = smooth[None], rough[None]
    for name, filter in FILTERS.items():
        for source, sizes in (("smooth", [(56, 70), (33, 9), (60, 104), (75, 37)]),
                              ("rough", [(20, 33), (41, 80), (7, 5), (49, 67)])):
            for height, width in sizes:
                arrays[f"{source}.{name}.{height}x{width}"] = resized(
                    arrays[source][0], height, width, filter)[None]


def fits():
    """Fits as torchvision's Resize and CenterCrop do: sizes are cut and centers rounded to even."""
    source = arrays["smooth"][0]
    h, w = source.shape
    bilinear = FILTERS["bilinear"]
    for height, width in ((32, 32), (30, 47), (48, 17)):
        size = (height, w * height // h) if w * height >= h * width else (h * width // w, width)
        whole = resized(source, *size, bilinear)
        top, left = round((size[0] - height) / 2), round((size[1] - width) / 2)
        arrays[f"crop.{height}x{width}"] = whole[None, top:top + height, left:left + width]
        size = (height, w * height // h) if w * height <= h * width else (h * width // w, width)
        canvas = np.full((height, width), 9, np.uint8)
        top, left = (height - size[0]) // 2, (width - size[1]) // 2
        canvas[top:top + size[0], left:left + size[1]] = resized(source, *size, bilinear)
        arrays[f"pad.{height}x{width}"] = canvas[None]
        arrays[f"stretch.{height}x{width}"] = resized(source, height, width, bilinear)[None]
    arrays["short.40"] = resized(source, 40, 40 * w // h, bilinear)[None]


pngs()
jpegs()
orientations()
resizes()
fits()
np.savez_compressed(HERE / "images.npz", **arrays)
