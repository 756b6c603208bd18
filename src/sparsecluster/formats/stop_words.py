"""Words that are left out of texts: those of a language, of a file, or listed one by one."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

EXTRA = "pip install 'sparsecluster[languages]'"


def find_stop_words(given: Any) -> str | tuple[str, ...] | None:
    """The words themselves, however they are named: who reads in the same way later may have
    neither the file nor the list of the language. "english" is scikit-learn's list and stays."""
    if given is None or given == "english":
        return given
    if not isinstance(given, str):
        words = sorted(given) if isinstance(given, set | frozenset) else given
        if not isinstance(words, list | tuple) or not all(isinstance(one, str) for one in words):
            raise ValueError(f"stop_words must be a name or a list of words, got {given!r}.")
        return tuple(words)
    if "," in given:
        return tuple(word.strip() for word in given.split(",") if word.strip())
    languages = _languages()
    if given.lower() in languages:
        return _of_language(given.lower())
    path = Path(given)
    if path.is_file():
        return _of_file(path)
    known = f"a language ({', '.join(languages)})" if languages else "the language 'english'"
    more = "" if languages else f" Other languages need an extra: {EXTRA}."
    raise ValueError(
        f"stop_words={given!r} is neither {known} nor a file of words, one per line, nor words "
        f"separated by commas. A single word is followed by a comma: '{given},'.{more}"
    )


def _languages() -> list[str]:
    """The names of languages that have a list; none without the library."""
    try:
        from stop_words import AVAILABLE_LANGUAGES
    except ImportError:
        return []
    return sorted(AVAILABLE_LANGUAGES)


def _of_language(name: str) -> tuple[str, ...]:
    """The words of a list; of those with an apostrophe or a hyphen the parts, because texts are
    taken apart there, too. Phrases are no words."""
    from stop_words import get_stop_words

    words = {word for word in get_stop_words(name) if len(word.split()) == 1}
    return tuple(sorted(words | {part for word in words for part in re.findall(r"\w\w+", word)}))


def _of_file(path: Path) -> tuple[str, ...]:
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"stop_words: {path} cannot be read as UTF-8 text ({error}).") from None
    words = {number: line.strip() for number, line in enumerate(lines, 1) if line.strip()}
    for number, word in words.items():
        if len(word.split()) > 1:
            raise ValueError(f"stop_words: line {number} of {path} has more than one word.")
    if not words:
        raise ValueError(f"stop_words: there are no words in {path}.")
    return tuple(words.values())
