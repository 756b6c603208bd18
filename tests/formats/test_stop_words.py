"""Stop words by language, file or list; the words are what rows, stores and models keep."""

import builtins

import pytest

from sparsecluster import KMeans, TextOptions, convert, load_model, read
from sparsecluster.formats.stop_words import find_stop_words

TEXTS = ["der Hund und die Katze", "ein Haus am See", "Hund, Katze und Haus", "nur Haus"]


@pytest.fixture
def documents(tmp_path):
    path = tmp_path / "d.txt"
    path.write_text("\n".join(TEXTS) + "\n")
    return path


@pytest.fixture
def words(tmp_path):
    path = tmp_path / "words.txt"
    path.write_text("\ufeffder\n und \n\ndie\n", encoding="utf-8")
    return path


def test_a_language_is_left_out_by_its_name(documents):
    pytest.importorskip("stop_words")
    for given in ("german", "German"):
        rows = read(documents, stop_words=given)
        assert list(rows.feature_names) == ["haus", "hund", "katze", "see"]
    assert {"all'", "all"} <= set(find_stop_words("italian"))
    assert not any(" " in word for word in find_stop_words("vietnamese"))


def test_a_file_of_words_is_read(words):
    assert find_stop_words(str(words)) == ("der", "und", "die")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, None),
        ("english", "english"),
        ("der, und,die", ("der", "und", "die")),
        ("der,", ("der",)),
        (["und", "der"], ("und", "der")),
        (frozenset({"und", "der"}), ("der", "und")),
    ],
)
def test_words_can_be_listed(given, expected):
    assert find_stop_words(given) == expected
    assert TextOptions(stop_words=given).stop_words == expected


@pytest.mark.parametrize("given", ["klingon", "no-such-file.txt"])
def test_a_name_that_is_neither_is_refused_and_the_advice_helps(given):
    with pytest.raises(ValueError, match=rf"stop_words='{given}' is neither .*: '{given},'"):
        TextOptions(stop_words=given)
    assert find_stop_words(f"{given},") == (given,)


def test_without_the_library_the_extra_is_named(monkeypatch):
    importing = builtins.__import__

    def without(name, *arguments):
        if name == "stop_words":
            raise ImportError(name)
        return importing(name, *arguments)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ValueError, match=r"pip install 'sparsecluster\[languages\]'"):
        find_stop_words("german")
    assert find_stop_words("english") == "english"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"der Hund\n", "line 1 of .* has more than one word"),
        (b"\n\n", "there are no words in"),
        (b"\xff\xfe\x00", "cannot be read as UTF-8 text"),
    ],
)
def test_a_file_that_is_no_list_of_words_is_refused(tmp_path, content, message):
    path = tmp_path / "words.txt"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message):
        find_stop_words(str(path))


@pytest.mark.parametrize("given", [3, [1, 2], {"der": 1}])
def test_anything_else_is_refused(given):
    with pytest.raises(ValueError, match="stop_words must be a name or a list of words"):
        TextOptions(stop_words=given)


def test_a_model_does_not_need_the_file_later(tmp_path, documents, words):
    store = convert(documents, tmp_path / "d.store", stop_words=str(words))
    model = KMeans(2, random_state=0).fit(store)
    model.save(tmp_path / "m.st")
    # Asked for once more it is no contradiction.
    assert read(documents, like=model, stop_words=str(words)).shape == store.shape
    words.unlink()
    loaded = load_model(tmp_path / "m.st")
    assert loaded.recipe.described()["text"] == {"stop_words": ["der", "und", "die"]}
    assert loaded.predict(documents).tolist() == model.labels_.tolist()
    with pytest.raises(ValueError, match=r"stop_words=\['ein'\] is not how the other text was"):
        read(documents, like=loaded, stop_words="ein,")
