"""Plain English in every text that users see: no banned turns, and at most 25 words a sentence.

The texts are string literals of the sources, the documents, and the comments of jobs. Usage:
  words_test.py             runs the test
  words_test.py PATH...     lists what it finds below these paths
"""
import pathlib
import re
import sys
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
LONGEST = 25  # words in a sentence

# A pattern, and what to write instead.
BANNED = [
    (r"\b(is|are|was) told\b|\btold (of|apart|as|to)\b", "reported, distinguished"),
    (r"\btells? (of|all|how|what|where|which|when|whether|who)\b", "reports, shows, describes"),
    (r"\b(is|are) none\b", "is not one, no"),
    (r"(?<!there )(?<!There )\b(is|are) no (?!longer\b|more\b|less\b|larger\b|smaller\b|fewer\b|other\b)", "is not a"),
    (r"\bthat which\b", "what, the"),
    (r"\bstands?\b(?!-)|\bstood\b", "is"),
    (r"\b(goes|go|went|going) on\b", "continues"),
    (r"\banew\b", "again, resets"),
    (r"\b(does|do|did) as\b", "behaves like"),
    (r"\bso many\b", "the number of, too many"),
    (r"\bof which\b|\bof whom\b", "a second sentence"),
    (r"\b(there|here|where)(of|in|by|upon|after)\b(?<!thereafter)", "of it, in it"),
    (r"\balone\b", "only"),
    (r"\bbeside\b", "next to, with"),
    (r"\b(lest|whence|whither|hence|nought|ere)\b", "plain words"),
    (r"\b(same|its|other|these|those|different|all|to the|change[sd]? no) bits?\b", "bit-identical, results"),
    (r"\bwants? (no|more|to)\b", "accepts no, needs"),
    (r"\bmen(d|ds|ded|ding)\b", "fix"),
    (r"\bneed not\b|\bneeds not\b", "does not need to"),
    (r"\bnothing but\b", "only"),
    (r"\bsays otherwise\b", "overrides"),
    (r"\b(to|of) whoever\b|\bwho(ever)? (loads|reads|writes|wants|calls)\b", "a reader, the caller"),
    (r"\bas many as\b.*\bas there are\b", "one for each"),
]
BANNED = [(re.compile(pattern, re.I), instead) for pattern, instead in BANNED]

LITERALS = re.compile(r'(?:"(?:[^"\\\n]|\\.)*"\s*)+')
LITERAL = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
COMMENT = re.compile(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*|/\*.*?\*/', re.S)


def without_comments(code):
    return COMMENT.sub(lambda match: match[0] if match[0][0] == '"' else "\n" * match[0].count("\n"), code)


def texts_of_code(code):
    """(line, text) of each run of string literals that reads as English: three words or more."""
    code = re.sub(r'^\s*#.*$', "", without_comments(code), flags=re.M)
    for match in LITERALS.finditer(code):
        joined = "".join(LITERAL.findall(match[0]))
        text = joined.replace('\\"', '"').replace("\\n", "\n").replace("\\\\", "\\")
        # Indented lines are examples.
        text = "\n".join(line for line in text.split("\n") if not line.startswith("    "))
        if re.search(r"[A-Za-z]{2,} [A-Za-z]{2,} [A-Za-z]{1,}", text):
            yield code.count("\n", 0, match.start()) + 1, text


def texts_of_markdown(page):
    """(line, text) of each paragraph, list item and cell of a table, without code."""
    page = re.sub(r"^(```|~~~).*?^\1", lambda match: "\n" * match[0].count("\n"), page, flags=re.M | re.S)
    page = re.sub(r"<!--.*?-->", lambda match: "\n" * match[0].count("\n"), page, flags=re.S)
    page = re.sub(r"<[^>\n]+>", "", page)
    begin, lines = 1, []
    for number, line in enumerate([*page.split("\n"), ""], 1):
        line = re.sub(r"`[^`]*`", "code", line)
        line = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", line)
        new = not line.strip() or re.match(r"\s*([-*+]|\d+\.|#+|\||>) ?", line)
        if new and lines:
            yield begin, " ".join(lines)
            lines = []
        if line.lstrip().startswith("|"):
            for cell in line.strip().strip("|").split("|"):
                yield number, cell.strip()
        elif line.strip():
            if not lines:
                begin = number
            lines.append(re.sub(r"^\s*([-*+]|\d+\.|#+|>) ?", "", line).strip())
    if lines:
        yield begin, " ".join(lines)


def texts_of_comments(script):
    """(line, text) of each block of comments of a YAML file or a script."""
    begin, lines = 1, []
    for number, line in enumerate([*script.split("\n"), ""], 1):
        match = re.match(r"\s*#(?!!)\s?(.*)", line)
        if match and match[1].strip() and not match[1].startswith("  "):
            if not lines:
                begin = number
            lines.append(match[1])
        else:
            if lines:
                yield begin, " ".join(lines)
            lines = []
            after = re.search(r"\s#\s(.*)", line)
            if after:
                yield number, after[1]


def sentences(text):
    for paragraph in text.split("\n"):
        yield from re.split(r"(?<=[.!?])[\"')]*\s+", re.sub(r"\b(e\.g|i\.e|cf|vs)\.", r"\1", paragraph))


def findings(path):
    name = path.relative_to(SOURCE)
    content = path.read_text()
    if path.suffix == ".md":
        texts = texts_of_markdown(content)
    elif path.suffix in (".cpp", ".h", ".def", ".cu", ".cuh"):
        texts = texts_of_code(content)
    else:
        texts = texts_of_comments(content)
    for line, text in texts:
        for pattern, instead in BANNED:
            for match in pattern.finditer(text):
                around = " ".join(text[max(0, match.start() - 30):match.end() + 30].split())
                yield f'{name}:{line}: "{match[0]}" in "... {around} ..."; write: {instead}'
        for sentence in sentences(text):
            words = [word for word in sentence.split() if re.search(r"\w|\{", word)]
            if len(words) > LONGEST:
                yield f'{name}:{line}: {len(words)} words in a sentence: "{" ".join(words[:8])} ..."'


def files(roots):
    for root in roots:
        root = (SOURCE / root).resolve()
        for path in [root] if root.is_file() else sorted(root.rglob("*")):
            if path.suffix in (".md", ".cpp", ".h", ".def", ".cu", ".cuh") or (path.suffix in (".yaml", ".sh", ".py") and "jobs" in path.parts):
                yield path


# `runs` and `build` are made by programs.
ROOTS = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs", "ops", "compiler", "cli", "runtime", "jobs"]


class Words(unittest.TestCase):
    def test_texts_are_plain_english(self):
        found = [one for path in files(root for root in ROOTS if (SOURCE / root).exists()) for one in findings(path)]
        self.assertEqual([], found, f"\n{len(found)} places, written by the rules of CONTRIBUTING.md")

    def test_the_rules_find_what_they_are_for(self):
        old = 'error("`{}` is no source, and stands twice", x); // comment is none'
        self.assertEqual(1, len(list(texts_of_code(old))))
        text = next(texts_of_code(old))[1]
        self.assertEqual(2, sum(bool(pattern.search(text)) for pattern, _ in BANNED))
        self.assertEqual(["One.", "Two e.g three."], list(sentences("One. Two e.g. three.")))


if __name__ == "__main__":
    if len(sys.argv) > 1 and all((SOURCE / path).exists() for path in sys.argv[1:]):
        found = [one for path in files(sys.argv[1:]) for one in findings(path)]
        print("\n".join([*found, f"{len(found)} places"]))
        sys.exit(bool(found))
    unittest.main()
