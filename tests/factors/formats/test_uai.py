"""UAI's models and evidence: by hand, in both dialects, round trips, and each error with its line."""
from __future__ import annotations

import gzip
from pathlib import Path

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from jitfuse.errors import ModelError
from jitfuse.factors.formats import uai
from jitfuse.factors.formats.model import Model

GOOD = "MARKOV\n3\n2 2 3\n2\n2 2 0\n0\n\n6\n 0.5 1e-3 .25\n 1. +2 0\n1\n7\n"


@st.composite
def models(draw: st.DrawFn) -> Model:
    """Draw a model over variables 0, 1, ...; scopes in any order, some of them empty or the same."""
    sizes = draw(st.lists(st.integers(1, 3), max_size=5))
    scopes = draw(st.lists(st.lists(st.sampled_from(range(len(sizes))), unique=True) if sizes else st.just([])))
    number = st.floats(0, allow_nan=False, allow_infinity=False)
    factors = []
    for scope in scopes:
        shape = [sizes[variable] for variable in scope]
        values = draw(st.lists(number, min_size=int(np.prod(shape)), max_size=int(np.prod(shape))))
        factors.append((tuple(scope), np.array(values).reshape(shape)))
    return Model(dict(enumerate(sizes)), tuple(factors), {}, {})


def same(left: Model, right: Model) -> None:
    assert left.sizes == right.sizes and left.states == right.states
    assert [scope for scope, _ in left.factors] == [scope for scope, _ in right.factors]
    for (_, a), (_, b) in zip(left.factors, right.factors):
        assert a.shape == b.shape and a.dtype == np.float64
        np.testing.assert_array_equal(a, b)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("uai")


@pytest.mark.parametrize("spaces", ["\n", " \t", "\r\n", "\n\n\f "])
@pytest.mark.parametrize("ending", [".uai", ".uai.gz"])
def test_by_hand(tmp_path: Path, spaces: str, ending: str) -> None:
    path = tmp_path / ("m" + ending)
    data = spaces.join(GOOD.split()).encode()
    path.write_bytes(gzip.compress(data) if ending.endswith("gz") else data)
    (tmp_path / "e").write_text("1 2 1")
    model = uai.read_model(path, tmp_path / "e")
    table = np.array([[0.5, 1e-3], [0.25, 1], [2, 0]])
    same(model, Model({0: 2, 1: 2, 2: 3}, (((2, 0), table), ((), np.array(7.0))), {}, {}))
    assert model.evidence == {2: 1}


def test_byte_order_mark_and_bayes(tmp_path: Path) -> None:
    path = tmp_path / "m.uai"
    path.write_bytes(b"\xef\xbb\xbf" + b"bayes 1 2 1 1 0 2 .5 .5")
    assert uai.read_model(path).sizes == {0: 2}


@hypothesis.given(models(), st.sampled_from([".uai", ".uai.gz"]))
def test_round_trip(folder: Path, model: Model, ending: str) -> None:
    path = folder / ("m" + ending)
    uai.write_model(path, model)
    same(uai.read_model(path), model)
    content = path.read_bytes()
    uai.write_model(path, model)
    assert path.read_bytes() == content
    assert content.startswith(b"\x1f\x8b") == ending.endswith("gz")


def test_long_file(tmp_path: Path) -> None:
    """Numbers are parsed in chunks: none is cut, and the line of the wrong one is right."""
    table = np.random.default_rng(0).random((400, 400))
    model = Model({0: 400, 1: 400}, (((1, 0), table),), {}, {})
    uai.write_model(tmp_path / "m.uai", model)
    same(uai.read_model(tmp_path / "m.uai"), model)
    lines = (tmp_path / "m.uai").read_text().replace(" ", "\n").splitlines()
    lines[-2] = "x"
    (tmp_path / "m.uai").write_text("\n".join(lines))
    with pytest.raises(ModelError, match=f"m.uai:{len(lines) - 1}: expected a number, found 'x'"):
        uai.read_model(tmp_path / "m.uai")


WRONG = [
    ("", "1: expected a text, found an empty file"),
    (" \n ", "1: expected a text, found an empty file"),
    ("MRKOV 1", "1: expected MARKOV or BAYES, found 'MRKOV'"),
    ("MARKOV", "1: expected the number of variables, found the end of the file"),
    ("MARKOV\n1.5", "2: expected the number of variables, a whole number from 0, found 1.5"),
    ("MARKOV\n-1", "2: expected the number of variables, a whole number from 0, found -1"),
    ("MARKOV\ninf", "2: expected the number of variables, a whole number from 0, found inf"),
    ("MARKOV\nnan", "2: expected the number of variables, a whole number from 0, found nan"),
    ("MARKOV\n1e300", "2: expected the number of variables, a whole number from 0, found 1e300"),
    ("MARKOV\n3\n2 2", "3: expected 3 numbers: the number of states of each variable, found 2 more before the end"),
    ("MARKOV\n2\n2\n0", "4: expected the number of states of each variable, a whole number from 1, found 0"),
    ("MARKOV\n1\n2", "3: expected the number of factors, found the end of the file"),
    ("MARKOV\n1\n2\n2\n1 0\n", "5: expected the number of variables of factor 1, found the end of the file"),
    ("MARKOV\n2\n2 2\n1\n2 0 2", "5: expected a variable of factor 0, a whole number from 0 to 1, found 2"),
    ("MARKOV\n2\n2 2\n1\n2 0 -1", "5: expected a variable of factor 0, a whole number from 0 to 1, found -1"),
    ("MARKOV\n2\n2 2\n1\n2 0 0", "5: expected another variable of factor 0, found 0 for the second time"),
    ("MARKOV\n1\n2\n1\n1 0\n3\n1 1 1", "6: expected 2, the size of the table of factor 0, found 3"),
    ("MARKOV\n1\n2\n1\n1 0\n2\n1", "7: expected 2 numbers: the table of factor 0, found 1 more before the end"),
    ("MARKOV\n1\n2\n1\n1 0\n2\n1\n-1", "8: expected a finite number from 0 up, found -1"),
    ("MARKOV\n1\n2\n1\n1 0\n2\nnan 1", "7: expected a finite number from 0 up, found nan"),
    ("MARKOV\n1\n2\n1\n1 0\n2\n1 1e400", "7: expected a finite number from 0 up, found 1e400"),
    ("MARKOV\n1\n2\n1\n1 0\n2\n1 2\n5 6", "8: expected the end of the file after the last table, found 2 more numbers"),
    ("MARKOV\n1\n2\n1\n1 0\n2\n1 1_0", "7: expected a number, found '1_0'"),
    ("MARKOV\n1\n2\n1\n1 0\n2\n1 1.2.3", "7: expected a number, found '1.2.3'"),
    ("MARKOV\n1\n2\n1\n1 0\n2\n1 \u0661", "7: expected a number, found '\u0661'"),
    ("MARKOV\n1\n2\n1\n1 0\n2\n1 # two", "7: expected a number, found '#'"),
    ("MARKOV\n65\n" + "1 " * 65 + "\n1\n65 " + " ".join(map(str, range(65))) + "\n1\n1", "5: expected at most 64"),
]


@pytest.mark.parametrize(("content", "message"), WRONG)
def test_errors(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "m.uai"
    path.write_text(content)
    with pytest.raises(ModelError) as caught:
        uai.read_model(path)
    assert str(caught.value).startswith(f"{path}:{message}")


@pytest.mark.parametrize(("content", "message"), [
    (b"MARKOV\n1\n\xff\xfe", "3: expected text in UTF-8, found the byte 0xff: the file is binary"),
    (b"MARKOV\n\0", "2: expected text in UTF-8, found the byte 0x00: the file is binary"),
    (gzip.compress(GOOD.encode(), mtime=0)[:-9], "1: expected a gzipped text, found a damaged file"),
    (gzip.compress(b"MARKOV\nx", mtime=0), "2: expected a number, found 'x'"),
])
def test_binary(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "m.uai"
    path.write_bytes(content)
    with pytest.raises(ModelError) as caught:
        uai.read_model(path)
    assert str(caught.value).startswith(f"{path}:{message}")
    with pytest.raises(FileNotFoundError):
        uai.read_model(tmp_path / "missing.uai")


def test_bayes_needs_children(tmp_path: Path) -> None:
    table = np.full((2, 2), 0.5)
    network = Model({"a": 2, "b": 2}, ((("a",), table[0]), (("a", "b"), table)), {}, {})
    uai.write_model(tmp_path / "m.uai", network, "BAYES")
    assert (tmp_path / "m.uai").read_text().split()[:10] == ["BAYES", "2", "2", "2", "2", "1", "0", "2", "0", "1"]
    twice = Model(network.sizes, ((("a",), table[0]), (("b", "a"), table)), {}, {})
    empty = Model(network.sizes, (*network.factors, ((), np.array(1.0))), {}, {})
    for model, message in ((twice, "ends in 'a', not 2"), (empty, "no factor without variables")):
        with pytest.raises(ModelError, match=message):
            uai.write_model(tmp_path / "m.uai", model, "BAYES")


@pytest.mark.parametrize(("content", "expected"), [
    ("0", [{}]), ("1 2 1", [{2: 1}]), ("2\n0 1\n2 2\n", [{0: 1, 2: 2}]), ("2 0 1 2 2", [{0: 1, 2: 2}]),
    ("1 0", [{}]), ("1\n1 2 1", [{2: 1}]), ("1\n2 0 1 2 2", [{0: 1, 2: 2}]), ("2\n1 0 1\n1 1 1", [{0: 1}, {1: 1}]),
    ("2\n0\n1 2 1\n", [{}, {2: 1}]), ("2 0 1 2 1", [{0: 1, 2: 1}]), ("2\n0\n0", [{}, {}]),
])
def test_evidence(tmp_path: Path, content: str, expected: list[dict[int, int]]) -> None:
    (tmp_path / "e").write_text(content)
    assert list(uai.read_evidence(tmp_path / "e", [2, 2, 3])) == expected


@pytest.mark.parametrize(("content", "message"), [
    ("", "1: expected a text, found an empty file"),
    ("1\n3 0", "2: expected a variable from 0 to 2, found 3"),
    ("1\n0\n2", "3: expected a state from 0 to 1 of variable 0, found 2"),
    ("2\n0 1\n0 1", "3: expected another variable, found 0 for the second time"),
    ("1 0 -1", "1: expected a count, variable, or state, a whole number from 0, found -1"),
    ("1 0 0.5", "1: expected a count, variable, or state, a whole number from 0, found 0.5"),
    ("2 0 1", "1: expected a count and as many pairs, or a number of samples and this for each, found 3 numbers"),
    ("1 0 1\n1 1", "2: expected a count and as many pairs, or a number of samples and this for each, found 5 numbers"),
    ("9 1 0 0", "1: expected a count and as many pairs"),
    ("1\n1 x 1", "2: expected a number, found 'x'"),
])
def test_evidence_errors(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "m.uai.evid"
    path.write_text(content)
    with pytest.raises(ModelError) as caught:
        uai.read_evidence(path, [2, 2, 3])
    assert str(caught.value).startswith(f"{path}:{message}")


@hypothesis.given(st.lists(st.dictionaries(st.integers(0, 3), st.integers(0, 1)), min_size=1, max_size=4))
def test_evidence_round_trip(folder: Path, samples: list[dict[int, int]]) -> None:
    uai.write_evidence(folder / "e.gz", samples)
    assert list(uai.read_evidence(folder / "e.gz", [2] * 4)) == samples
    uai.write_evidence(folder / "e", samples[0])
    assert uai.read_evidence(folder / "e", [2] * 4) == (samples[0],)


def test_several_samples_are_no_model(tmp_path: Path) -> None:
    (tmp_path / "m").write_text(GOOD)
    uai.write_evidence(tmp_path / "e", [{0: 1}, {1: 1}])
    with pytest.raises(ModelError, match="e:1: expected the evidence of one sample, found 2 samples"):
        uai.read_model(tmp_path / "m", tmp_path / "e")
    with pytest.raises(ModelError, match="0 samples"):
        uai.write_evidence(tmp_path / "e", [])
