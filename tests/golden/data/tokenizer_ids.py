"""Writes tokenizer_ids.json.gz: small tokenizers, odd texts and the ids that Hugging Face's tokenizers 0.23.3 gives them.

It also records how the two patterns cut a text around each code point. Usage: tokenizer_ids.py
"""
import gzip
import json
import pathlib
import random
import sys
import unicodedata

from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers

HERE = pathlib.Path(__file__).resolve().parent
CL100K = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"

SENTENCES = [
    "The quick brown fox jumps over the lazy dog, and the dog's owner doesn't mind; they've seen it before.",
    "In 2024 the price rose by 12.5% to $1,299.00 (see https://example.org/a?b=c&d=1234567890).",
    "Der Zug fährt über Straßburg nach Köln; größere Mengen müssen früher bestellt werden.",
    "L'été dernier, nous avons mangé des crêpes à la crème brûlée près de l'hôtel.",
    "Быстрая коричневая лиса прыгает через ленивую собаку, и собака её не замечает.",
    "素早い茶色の狐はのろまな犬を飛び越える。東京は日本の首都です。",
    "敏捷的棕色狐狸跳过了懒狗。我们在北京学习机器学习和自然语言处理。",
    "빠른 갈색 여우가 게으른 개를 뛰어넘는다. 서울은 한국의 수도이다.",
    "الثعلب البني السريع يقفز فوق الكلب الكسول في عام ٢٠٢٤.",
    "तेज़ भूरी लोमड़ी आलसी कुत्ते के ऊपर से कूदती है।",
    "สุนัขจิ้งจอกสีน้ำตาลกระโดดข้ามสุนัขขี้เกียจ",
    "Η γρήγορη καφέ αλεπού πηδάει πάνω από το τεμπέλικο σκυλί.",
    "def encode(text):\n    ids = []\n\tfor piece in split(text):\n        ids += merge(piece)\n    return ids\n",
    "😀😃 emoji 👩‍👩‍👧‍👦 family 🇩🇪🇫🇷 flags 👍🏽 thumbs ❤️ heart",
    "a\u0301e\u0301 combining, \u00e1\u00e9 composed, A\u030a \u212b \u1100\u1161\u11a8 \uac01",
]


def corpus():
    chooser = random.Random(1)
    words = " ".join(SENTENCES).split(" ")
    for _ in range(400):
        yield " ".join(chooser.choice(words) for _ in range(chooser.randint(3, 20)))
    yield from SENTENCES * 5


def assigned(code):
    """True for the characters of Unicode 14.0, and for three blocks that are new in 15.0."""
    if 0xD800 <= code <= 0xDFFF:
        return False
    new = (0x31350 <= code <= 0x323AF or 0x1E4D0 <= code <= 0x1E4F9 or 0x11F00 <= code <= 0x11F10 or
           0x11F12 <= code <= 0x11F3A or 0x11F3E <= code <= 0x11F59)
    return new or unicodedata.category(chr(code)) != "Cn"


def texts():
    chooser = random.Random(2)
    all_assigned = [chr(code) for code in range(0x110000) if assigned(code) and unicodedata.category(chr(code)) not in ("Co", "Cs")]
    spaces = [" ", "  ", "\n", "\r\n", "\t", "\u00a0", "\u2003", "\u3000", "\u0085", "\u2028", " \n ", "\n\n\n", "   \n"]
    words = " ".join(SENTENCES).split(" ") + ["'s", "'S", "'ll", "'LL", "'Ve", "'\u017f", "1", "22", "333", "4444", "٢٠٢٤", "½", "Ⅷ", "<|end|>", "<|endoftext|>",
                                              "<|end", "é", "e\u0301", "q\u0323\u0307", "\u1e9b\u0323", "_", "--", "!!!", "a\u200db", "\ufeff", "\x00", "\x1c"]
    yield from ["", " ", "  ", "\n", " \n", "\n ", "a", "'", "''", "'s", " 's", "don't", "DON'T", "\r\r\n\n", "  a", "\t\ta", "a  ", "a \n\n b", "<|end|>",
                "x<|end|><|endoftext|>y", " <|end|> ", "<|end|>of", "e\u0301<|end|>\u0301", "a" * 100, "ab" * 60, "the" * 40, " " * 70, "你" * 50, "\n" * 60]
    yield from SENTENCES
    for _ in range(130):
        yield "".join(chooser.choice(words) + chooser.choice(spaces + ["", "", " ", " "]) for _ in range(chooser.randint(1, 25)))
    for _ in range(60):
        yield "".join(chooser.choice(all_assigned) for _ in range(chooser.randint(1, 20)))
    for _ in range(60):
        yield "".join(chooser.choice(["a", "b", "1", " ", "\n", "\r", "'", ".", "é", "s", "t", "\u3000"]) for _ in range(chooser.randint(1, 30)))


def trained(pre_tokenizer, size):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizer
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=["<|endoftext|>"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    tokenizer.train_from_iterator(corpus(), trainer)
    return tokenizer


def split(pattern, **keys):
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), **keys), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def merges_of(tokenizer):
    return json.loads(tokenizer.to_str())["model"]["merges"]


def as_file(tokenizer, old_merges=False):
    data = json.loads(tokenizer.to_str())
    if old_merges:
        data["model"]["merges"] = [" ".join(pair) for pair in data["model"]["merges"]]
    return json.dumps(data, ensure_ascii=old_merges)


def signatures(pattern):
    """How the pattern cuts a text around each code point: the lengths of its pieces, in runs of code points."""
    pre_tokenizer = pre_tokenizers.Split(Regex(pattern), "isolated")
    seen, runs = {}, []
    for code in range(0x110000):
        index = -1
        if assigned(code):
            c = chr(code)
            text = f"x{c}x 1{c}1 !{c}! {c}{c} \n{c}\n'{c}s {c}"
            cut = " ".join(str(end - begin) for _, (begin, end) in pre_tokenizer.pre_tokenize_str(text))
            index = seen.setdefault(cut, len(seen))
        if not runs or runs[-1][1] != index:
            runs.append([code, index])
    return {"cuts": list(seen), "runs": runs}


def main():
    strings = list(texts())
    files, expected = {}, {}

    tokenizer = trained(pre_tokenizers.ByteLevel(add_prefix_space=False), 900)
    model = json.loads(tokenizer.to_str())["model"]
    model["vocab"]["<|end|>"] = len(model["vocab"])
    files["vocab.json"] = json.dumps(model["vocab"])
    files["merges.txt"] = "#version: 0.2\n" + "".join(f"{left} {right}\n" for left, right in model["merges"])
    special = ["<|endoftext|>", "<|end|>"]

    def gpt2(**keys):
        again = Tokenizer(models.BPE(vocab=dict(model["vocab"]), merges=[tuple(pair) for pair in model["merges"]], **keys))
        again.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        return again

    plain = gpt2()
    expected["plain"] = [plain.encode(text).ids for text in strings]
    plain.add_special_tokens(special)
    expected["special"] = [plain.encode(text).ids for text in strings]

    composed = gpt2()
    composed.normalizer = normalizers.NFC()
    composed.add_special_tokens(special)
    composed.add_tokens([AddedToken("e\u0301x", normalized=True), AddedToken("fox j", normalized=True)])
    files["nfc"] = as_file(composed, old_merges=True)
    expected["nfc"] = [composed.encode(text).ids for text in strings]

    whole = gpt2()
    whole.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    files["whole"] = as_file(whole)
    expected["whole"] = [whole.encode(text).ids for text in strings]

    twice = gpt2()
    twice.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(CL100K), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    files["twice"] = as_file(twice)
    expected["twice"] = [twice.encode(text).ids for text in strings]

    llama = trained(split(CL100K, behavior="isolated"), 1000)
    vocab = json.loads(llama.to_str())["model"]["vocab"]
    # These words are in the vocabulary, but merges do not lead to them.
    for word in ["\u0120jumps\u0120", "\u0120Zug", "encode(", "abab", "\u010a\u010a\u010a"]:
        vocab.setdefault(word, len(vocab))
    ignoring = Tokenizer(models.BPE(vocab=vocab, merges=[tuple(pair) for pair in merges_of(llama)], ignore_merges=True))
    ignoring.pre_tokenizer = split(CL100K, behavior="removed", invert=True)
    ignoring.add_special_tokens(special)
    files["cl100k"] = as_file(ignoring)
    expected["cl100k"] = [ignoring.encode(text).ids for text in strings]

    data = {"files": files, "texts": strings, "ids": expected, "nfc": [unicodedata.normalize("NFC", text) for text in strings],
            "patterns": {"gpt2": signatures(GPT2), "cl100k": signatures(CL100K)}}
    text = json.dumps(data, separators=(",", ":")).encode()
    target = HERE / "tokenizer_ids.json.gz"
    target.write_bytes(gzip.compress(text, 9, mtime=0))
    print(f"{target}: {target.stat().st_size} bytes, {len(strings)} texts", file=sys.stderr)


if __name__ == "__main__":
    main()
