"""XML of tools: elements with lines, and what is refused."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.facts.formats.format import Text
from compiler.facts.formats.xml import MAX_DEPTH, MAX_ELEMENTS, parse_xml, root_tag
from compiler.facts.partial import ReadError


def parse(text: str):
    return parse_xml(Text("f.xml", text))


def refused(text: str) -> ReadError:
    with pytest.raises(ReadError) as caught:
        parse(text)
    return caught.value


LOG = """
<?xml version="1.0" encoding="UTF-16"?>
<!DOCTYPE log SYSTEM "log_v11.dtd">
<log>
  <gpu id="00000000:01:00.0">
    <name>
      A &amp; B
    </name>
    <mig><mode>Enabled</mode></mig>
  </gpu>
  <gpu id=" 2 "/>
</log>
"""


def test_elements_know_their_line_text_and_attributes() -> None:
    root = parse(LOG)
    first, second = root.all("gpu")
    assert (root.tag, root.line, first.line, second.line) == ("log", 4, 5, 11)
    assert first.value("name") == "A & B"
    assert first.value("mig", "mode") == "Enabled"
    assert first.value("mig", "none") is None
    assert first.find("none", "mode") is None
    assert second.get("id") == "2"
    assert second.get("other") is None
    assert second.text == ""
    assert [one.tag for one in root.walk()] == ["log", "gpu", "name", "mig", "mode", "gpu"]


def test_an_encoding_that_is_declared_does_not_count() -> None:
    assert (
        parse('<?xml version="1.0" encoding="nonsense"?><a b="\u00fc">\u20ac</a>').text == "\u20ac"
    )


@pytest.mark.parametrize(
    ("text", "message", "line"),
    [
        ("<a>\n<b>\n</a>", "mismatched tag", 3),
        ("<a>\n", "no element found", 2),
        ("", "no element found", 1),
        ("<a/>\n<b/>", "junk after document element", 2),
        ("<a>\n\0</a>", "not well-formed", 2),
        ("<a>\n\ud800</a>", "not well-formed", 2),
        ('<a\nx="1" x="2"/>', "duplicate attribute", 2),
        ("<a>\n&nosuch;</a>", "undefined entity", 2),
        ('<!DOCTYPE a SYSTEM "a.dtd">\n<a>&nosuch;</a>', "uses the entity nosuch", 2),
        ('<!DOCTYPE a [\n<!ENTITY x "y">]>\n<a>&x;</a>', "declares the entity x", 2),
        ('<!DOCTYPE a [<!ENTITY % x SYSTEM "file:///etc/passwd"> %x;]><a/>', "the entity x", 1),
        ('<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><a>&x;</a>', "the entity x", 1),
    ],
)
def test_what_is_refused_names_its_line(text: str, message: str, line: int) -> None:
    error = refused(text)
    assert message in error.message
    assert error.line == line


def test_the_lines_of_errors_count_blank_lines_before_the_document() -> None:
    assert refused("\n\n<a>\n</b>").line == 4


def test_depth_elements_and_attributes_are_bounded() -> None:
    deepest = parse("<a>" * MAX_DEPTH + "</a>" * MAX_DEPTH)
    assert sum(1 for _ in deepest.walk()) == MAX_DEPTH
    assert f"more than {MAX_DEPTH} deep" in refused("<a>" * (MAX_DEPTH + 1)).message
    many = "".join(f' a{n}=""' for n in range(201))
    assert "more than 200 attributes" in refused(f"<a{many}/>").message
    assert f"more than {MAX_ELEMENTS} elements" in refused("<a>" + "<b/>" * MAX_ELEMENTS).message


@pytest.mark.parametrize(
    ("text", "tag"),
    [
        (LOG, "log"),
        ("<!-- <b> --> <?x <c> ?><a>", "a"),
        ("<!DOCTYPE a [<!ELEMENT a (b>)> ]>\n<a/>", "a"),
        ("<a", None),
        ("<a/>", "a"),
        ("text <a>", None),
        ("<!-- never ends <a>", None),
        ("<?never ends <a>", None),
        ("<!DOCTYPE never ends", None),
        ("<!DOCTYPE a [never ends>", None),
        ("", None),
        ("{}", None),
    ],
)
def test_the_root_is_known_from_the_beginning(text: str, tag: str | None) -> None:
    assert root_tag(text) == tag


NAMES = st.sampled_from(["a", "b", "c-d", "e1"])
TREES = st.recursive(
    st.tuples(NAMES, st.text("xyz <&\"'\u00e9", max_size=5), st.just([])),
    lambda inner: st.tuples(
        NAMES, st.text("xyz <&\"'\u00e9", max_size=5), st.lists(inner, max_size=3)
    ),
    max_leaves=8,
)


def built(tree) -> ET.Element:
    tag, text, children = tree
    element = ET.Element(tag, {"v": text})
    element.text = text
    element.extend([built(child) for child in children])
    return element


@given(TREES)
@settings(max_examples=50)
def test_it_reads_what_the_standard_library_writes(tree) -> None:
    expected = built(tree)
    root = parse(ET.tostring(expected, encoding="unicode"))
    assert root_tag(ET.tostring(expected, encoding="unicode")) == expected.tag
    assert [(one.tag, one.attributes["v"], one.text) for one in root.walk()] == [
        (one.tag, one.get("v"), (one.text or "").strip()) for one in expected.iter()
    ]


@given(st.text("<>/=\"'a &;!-?[]x\n", max_size=40))
@settings(max_examples=100)
def test_any_text_is_read_or_refused(text: str) -> None:
    root_tag(text)
    line = None
    try:
        parse(text)
    except ReadError as error:
        line = error.line
    assert line in (None, *range(1, text.count("\n") + 2))
