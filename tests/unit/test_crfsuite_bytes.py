"""CRFsuite's binary format: bytes written out by hand, and files that are damaged or unusual."""

from __future__ import annotations

import struct
from itertools import pairwise

import pytest

from fstcrf.errors import ModelFileError, OptionError, ShapeError
from fstcrf.ext.foreign.crfsuite import (
    STATE,
    TRANSITION,
    CRFsuiteModel,
    load_crfsuite,
    read_model,
    write_model,
)
from tests.support.crfsuite_models import (
    FIELDS,
    features,
    header,
    one_way,
    random_model,
    sized,
    small,
    with_word,
    word,
)


def words(*numbers: int) -> bytes:
    return struct.pack(f"<{len(numbers)}I", *numbers)


def string_table(*strings: bytes) -> bytes:
    """A table without hash tables: enough to go from numbers to strings."""
    records, places = b"", []
    for number, string in enumerate(strings):
        places.append(24 + 2048 + len(records))
        records += words(number, len(string) + 1) + string + b"\0"
    links_at = 24 + 2048 + len(records)
    size = links_at + 4 * len(strings)
    head = b"CQDB" + words(size, 0, 0x62445371, len(strings), links_at)
    return head + bytes(2048) + records + words(*places)


def by_hand(
    *,
    labels: bytes | None = None,
    attributes: bytes | None = None,
    weight: float = 1.5,
    owner: int = 0,
) -> bytes:
    """Labels A and B, the attribute x: x → B weighs 1.5, A → B −2."""
    feature = struct.pack("<IIId", STATE, owner, 1, weight)
    feature += struct.pack("<IIId", TRANSITION, 0, 1, -2.0)
    parts = [
        b"FEAT" + words(12 + len(feature), 2) + feature,
        labels or string_table(b"A", b"B"),
        attributes or string_table(b"x"),
    ]
    parts[2] += bytes(-sum(map(len, parts)) % 4)
    at = [48]
    for part in parts:
        at.append(at[-1] + len(part))
    label_refs = b"LFRF" + words(40, 2, at[3] + 20, at[3] + 28, 1, 1, 0, 0, 0)[:-4]
    attribute_refs_at = at[3] + len(label_refs)
    attribute_refs = b"AFRF" + words(24, 1, attribute_refs_at + 16, 1, 0)
    size = attribute_refs_at + len(attribute_refs)
    head = b"lCRF" + words(size) + b"FOMC" + words(100, 0, 2, 1, *at, attribute_refs_at)
    return b"".join([head, *parts, label_refs, attribute_refs])


def test_by_hand() -> None:
    model = read_model(by_hand())
    assert model.labels == ("A", "B")
    assert model.attributes == ("x",)
    assert model.features.tolist() == [(STATE, 0, 1, 1.5), (TRANSITION, 0, 1, -2.0)]


# --- Unusual, but sound ---------------------------------------------------------------------------


def test_a_feature_that_nothing_refers_to_does_not_count() -> None:
    data = by_hand()
    at = header(data)["attribute_refs_at"] + 16
    model = read_model(with_word(data, at, 0))
    assert model.features.tolist() == [(TRANSITION, 0, 1, -2.0)]


# --- Damaged --------------------------------------------------------------------------------------


def refused(data: bytes, place: int, value: int, message: str, where: str = "damaged") -> None:
    """With another word at a place, a model is damaged there."""
    with pytest.raises(ModelFileError, match=where) as caught:
        read_model(with_word(data, place, value))
    assert message in str(caught.value)


DAMAGES = {
    "empty": (b"", "an empty file"),
    "text": (b"B-NP\tw=the\n" * 20, "does not begin with lCRF"),
    "cut in the header": (by_hand()[:40], "header would be bytes 0 to 48 of 40"),
    "cut": (by_hand()[:-4], "its header announces"),
    "longer": (by_hand() + b"\0", "its header announces"),
    "other kind": (by_hand()[:8] + b"SEMI" + by_hand()[12:], "not a first-order model"),
    "other version": (with_word(by_hand(), FIELDS["version"], 101), "not a first-order model"),
    "no such chunk": (with_word(by_hand(), FIELDS["features_at"], 52), "no FEAT begins here"),
    "chunk outside": (with_word(by_hand(), FIELDS["label_refs_at"], 2**32 - 4), "LFRF would be"),
    "many labels": (with_word(by_hand(), FIELDS["labels"], 2**31), "2 strings, expected"),
    "no labels": (
        by_hand(labels=string_table()).replace(words(100, 0, 2), words(100, 0, 0)),
        "label 1 of 0",
    ),
    "label twice": (by_hand(labels=string_table(b"A", b"A")), "distinct"),
    "many features": (with_word(by_hand(), 56, 2**32 - 1), "4294967295 entries"),
    "not finite": (by_hand(weight=float("nan")), "weight nan"),
    "infinite": (by_hand(weight=float("-inf")), "weight -inf"),
    "label of a feature": (with_word(by_hand(), 60 + 8, 2), "label 2 of 2"),
    "type of a feature": (with_word(by_hand(), 60, 7), "belongs elsewhere"),
    "list of another": (by_hand(owner=1), "belongs elsewhere"),
    "NUL": (by_hand(attributes=string_table(b"x\0y")), "NUL in it"),
    "not UTF-8": (by_hand(attributes=string_table(b"na\xe9")), "not UTF-8"),
    "cut character": (by_hand(labels=string_table(b"A\xc3", b"\xa9B")), "not UTF-8"),
}


@pytest.mark.parametrize(("data", "message"), DAMAGES.values(), ids=DAMAGES)
def test_damage(data: bytes, message: str) -> None:
    with pytest.raises(ModelFileError, match=r"^m\.crfsuite: .*") as caught:
        read_model(data, "m.crfsuite")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_damaged_string_tables() -> None:
    data = write_model(small())
    at = header(data)["attributes_at"]
    links_at = at + word(data, at + 20)
    first = at + word(data, links_at)
    for place, value, message in (
        (at + 4, 2**32 - 1, "would be bytes"),
        (at + 12, 0, "no string table begins here"),
        (at + 16, 4, "4 strings, expected 5"),
        (at + 20, 2**31, "entries at byte"),
        (links_at, 0, "a number without a string"),
        (links_at, 2**32 - 1, "an offset of 4294967295"),
        (first, 3, "are not 0, 1, 2"),
        (first + 4, 2**32 - 1, "longer than the table"),
        (first + 4, 0, "longer than the table"),
        (first + 4, 2, "does not end with NUL"),
    ):
        refused(data, place, value, message, "attributes")


def test_damaged_hash_tables() -> None:
    data = one_way(write_model(small()))
    at = header(data)["attributes_at"]
    table = next(at + 24 + 8 * k for k in range(256) if word(data, at + 24 + 8 * k))
    slots = at + word(data, table)
    for place, value, message in (
        (table, 2**31, "entries at byte"),
        (table + 4, 2**30, "more slots than there is room for"),
        (table, 0, "strings, expected 5"),
    ):
        refused(data, place, value, message)
    full = next(slots + 4 + 8 * k for k in range(2) if word(data, slots + 4 + 8 * k))
    refused(data, full, 2**32 - 1, "offset of 4294967295")


def test_damaged_references() -> None:
    data = write_model(small())
    at = header(data)["attribute_refs_at"]
    first = word(data, at + 12)
    for place, value, message in (
        (at + 8, 4, "4 lists, expected 5"),
        (at + 12, 2**32 - 1, "an offset of"),
        (at + 12, first + 2, "does not begin at a word"),
        (first, 2**31, "longer than their part"),
        (first + 4, 100, "feature 100 of 8"),
        (first + 4, 2, "belongs elsewhere"),
    ):
        refused(data, place, value, message, "AFRF")


def test_every_cut_is_noticed() -> None:
    data = write_model(small())
    for size in range(len(data)):
        for cut in (data[:size], sized(data[:size])):
            with pytest.raises(ModelFileError):
                read_model(cut)


def test_an_attribute_twice() -> None:
    model = small()
    twice = CRFsuiteModel.of(model.labels, ["x", "y", "x", "z", "t"], model.features)
    with pytest.raises(ModelFileError, match=r"^<bytes>: damaged: .*twice"):
        load_crfsuite(write_model(twice))


def test_more_labels_than_can_be_handled() -> None:
    model = CRFsuiteModel.of([f"L{k}" for k in range(5001)], [], features([]))
    with pytest.raises(
        ModelFileError, match="5,001 labels, but a model of CRFsuite has 5,000 at most"
    ):
        load_crfsuite(write_model(model))


# --- Models made in memory ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("labels", "row", "message"),
    [
        (["A"], (2, 0, 0, 1.0), "feature 0 is of type 2"),
        (["A"], (STATE, 1, 0, 1.0), "attribute or label 1, which is not there"),
        (["A"], (TRANSITION, 1, 0, 1.0), "attribute or label 1, which is not there"),
        (["A"], (STATE, 0, 1, 1.0), "label 1 of 1"),
        (["A"], (STATE, 0, 0, float("inf")), "weight inf"),
        ([], (STATE, 0, 0, 1.0), "label 0 of 0"),
        (["A", "A"], (STATE, 0, 0, 1.0), "distinct"),
    ],
)
def test_models_that_are_none(
    labels: list[str], row: tuple[int, int, int, float], message: str
) -> None:
    with pytest.raises(ShapeError, match=message):
        CRFsuiteModel.of(labels, ["x"], features([row]))


def test_strings_that_the_format_cannot_hold() -> None:
    with pytest.raises(OptionError, match="an attribute contains a NUL character"):
        write_model(CRFsuiteModel.of(["A"], ["x\0y"], features([])))
    with pytest.raises(OptionError, match="a label contains a NUL character"):
        write_model(CRFsuiteModel.of(["A\0"], ["x"], features([])))


def test_offsets_are_those_of_the_parts() -> None:
    data = write_model(random_model(5))
    found = header(data)
    names = ("features_at", "labels_at", "attributes_at", "label_refs_at", "attribute_refs_at")
    starts = [found[name] for name in names]
    assert [data[at : at + 4] for at in starts] == [b"FEAT", b"CQDB", b"CQDB", b"LFRF", b"AFRF"]
    assert all(a < b for a, b in pairwise(starts))
    assert found["size"] == len(data)
