"""Text for users says things in the usual words: a short list of phrases to avoid."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DISCOURAGED = {
    r"what happened": "the outcome, the observed frequency",
    r"surely (better|worse|keeps?|kept)": "significantly, with 95% confidence",
    r"speaks? against": "there is no evidence of",
    r"too sure|sure enough|too timid": "over-confident, under-confident",
    r"belongs? together": "dependent rows",
    r"\bhonest": "calibrated",
    r"\b(is|are) no (scores?|calibrators?)\b": "is not a",
    r"said and happened|(what|than) (was|is) said": "predicted and observed",
    r"(?<!there )\b(is|are) no (probabilities|features|labels|numbers)\b": "are not",
    r"\bsurely\b": "significantly, certainly",
    r"\bmend(ed|s)?\b": "correct",
    r"(is|are) worth (about|as much|one|only)|what (it|they) (is|are) worth": "the effective sample size",
    r"(take[ns]?|took) for (margins|counts|probabilities)": "treated as",
    r"such as would|of that the|nothing below|right ones|by turns": "plain English",
    r"is there already": "already exists",
    r"\bwants\b": "needs, expects",
    r"(?-i:^(None: |Those of |The same (with|without|as) ))": "a whole sentence",
    r"\b(learnt|licence|colou?red? in|neighbours?|penalis|normalis(ed|es|ing|ation))\b": "American spelling",
}
PATTERN = re.compile("|".join(f"(?:{each})" for each in DISCOURAGED), re.IGNORECASE)
PAGES = [
    *ROOT.glob("*.md"),
    ROOT / "llms.txt",
    *(ROOT / "docs").rglob("*.md"),
    *(ROOT / "examples").glob("*.md"),
    *(ROOT / "src").rglob("*.html"),
    *(ROOT / "src").rglob("*.js"),
]
OUTPUT = re.compile(r"^```(?:text|console)\n.*?^```", flags=re.DOTALL | re.MULTILINE)
"""What the library prints: its strings are checked themselves."""


MODULES = [*(ROOT / "src").rglob("*.py"), *(ROOT / "docs").rglob("*.py")]


def find(text):
    """Discouraged phrases in a text, also across the end of a line."""
    return [found[0] for found in PATTERN.finditer(" ".join(text.split()))]


def strings(path):
    """The strings of a module: docstrings, messages and parts of f-strings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


def name(path):
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", PAGES, ids=name)
def test_pages_and_templates_use_the_usual_words(path):
    assert find(OUTPUT.sub("", path.read_text(encoding="utf-8"))) == []


def test_strings_and_docstrings_use_the_usual_words():
    found = [
        f"{name(path)}:{line}: {phrases}"
        for path in MODULES
        for line, text in strings(path)
        if (phrases := find(text))
    ]
    assert found == []


@pytest.mark.parametrize(
    "text",
    [
        "Isotonic regression of what\n    happened",
        "no other set is surely better",
        "Nothing speaks against it",
        "a model that is too sure of itself",
        "Rows with the same value belong together",
        "Honest probabilities",
        "What is no score gives NaN",
        "Columns that are no probabilities",
        "A set that is surely better",
        "Clip or mend them",
        "These rows are worth about 20 independent ones",
        "All scores are taken for margins",
        "The same with other weights",
        "It wants a probability",
    ],
)
def test_the_list_finds_what_it_is_for(text):
    assert find(text)
