"""FHIR resources in XML as the JSON objects of the same resources (HL7 FHIR R4, 2.6.2)."""

from __future__ import annotations

from typing import Any
from xml.etree.ElementTree import Element, tostring

from midchart.core.cohorts.files import parse_xml, xml_text
from midchart.core.errors import DataError

NAMESPACE = "http://hl7.org/fhir"
_XHTML = "{http://www.w3.org/1999/xhtml}div"
_BOOLEANS = frozenset((
    *("active", "doNotPerform", "wasNotTaken", "wasNotGiven", "notGiven", "notDone"),
    *("notPerformed", "negated", "primarySource", "preferred", "reported", "excluded", "refuted"),
    *("isSubpotent", "userSelected", "wasSubstituted", "wasNotPerformed", "asNeeded"),
))  # fmt: skip
"""Elements of type boolean, apart from those whose names say so."""
_SINGLE = frozenset(("resource", "contained"))
"""Elements that hold one resource each."""


def read_xml_document(data: bytes | str, name: str) -> Any:
    """The resource of an XML document as the value of its JSON; raises DataError."""
    text = data if isinstance(data, str) else xml_text(data, name)
    root = parse_xml(text.lstrip("\ufeff \t\r\n"), name)
    if not root.tag.startswith(f"{{{NAMESPACE}}}"):
        raise DataError(name, None, "is XML that is no FHIR", "export it as FHIR")
    return _resource(root)


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _name(element: Element) -> str:
    return element.tag.rpartition("}")[2]


def _resource(element: Element) -> dict[str, Any]:
    held: dict[str, Any] = {"resourceType": _name(element), **_element(element)}
    if held["resourceType"] == "Bundle" and "entry" in held:
        held["entry"] = _listed(held["entry"])
    return held


def _element(element: Element) -> dict[str, Any]:
    """The members of an element; those that are repeated are arrays."""
    held: dict[str, Any] = {
        name: value for name, value in element.attrib.items() if name in ("id", "url")
    }
    for child in element:
        name = _name(child)
        if child.tag == _XHTML:
            held[name] = tostring(child, encoding="unicode")
        elif name in _SINGLE and len(child) == 1 and _name(child[0])[:1].isupper():
            _add(held, name, _resource(child[0]))
        elif child.get("value") is None and not len(child):
            continue
        elif child.get("value") is not None:
            _add(held, name, _value(name, child.get("value", "")))
            if len(child):
                _add(held, f"_{name}", _element(child))
        elif all(_name(one) == "extension" for one in child) and _is_primitive(name, child):
            _add(held, f"_{name}", _element(child))
        else:
            _add(held, name, _element(child))
    return held


def _is_primitive(name: str, element: Element) -> bool:
    """Whether an element that holds extensions alone is a primitive without a value: all but
    extensions and elements of a complex type by their names."""
    complex_names = ("extension", "modifierExtension", "code", "subject")
    by_type = (
        "Quantity",
        "Concept",
        "Reference",
        "Period",
        "Range",
        "Ratio",
        "Attachment",
        "Timing",
    )
    return name not in complex_names and not name.endswith(by_type)


def _value(name: str, text: str) -> Any:
    if text in ("true", "false") and (name.endswith("Boolean") or name in _BOOLEANS):
        return text == "true"
    return text


def _add(held: dict[str, Any], name: str, value: Any) -> None:
    """Enter a member; a second one of its name makes an array."""
    if name not in held:
        held[name] = value
    elif isinstance(held[name], list):
        held[name].append(value)
    else:
        held[name] = [held[name], value]
