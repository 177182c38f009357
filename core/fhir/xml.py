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
_COMPLEX = ("Quantity", "Concept", "Reference", "Period", "Range", "Ratio", "Attachment", "Timing")
"""How names of elements of a complex type end."""


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
        name, value = _name(child), child.get("value")
        if child.tag == _XHTML:
            held[name] = tostring(child, encoding="unicode")
            continue
        if name in _SINGLE and len(child) == 1 and _name(child[0])[:1].isupper():
            _add(held, name, _resource(child[0]))
            continue
        if value is not None:
            is_boolean = name.endswith("Boolean") or name in _BOOLEANS
            is_true = {"true": True, "false": False}.get(value, value) if is_boolean else value
            _add(held, name, is_true)
        if len(child):
            extended = value is not None or (_is_primitive(name) and _has_extensions_alone(child))
            _add(held, f"_{name}" if extended else name, _element(child))
    return held


def _has_extensions_alone(element: Element) -> bool:
    return all(_name(one) == "extension" for one in element)


def _is_primitive(name: str) -> bool:
    """Whether an element with extensions alone is a primitive without a value: all but extensions
    and elements of a complex type by their names."""
    is_complex = name in ("extension", "modifierExtension", "code", "subject")
    return not is_complex and not name.endswith(_COMPLEX)


def _add(held: dict[str, Any], name: str, value: Any) -> None:
    """Enter a member; a second one of its name makes an array."""
    if name not in held:
        held[name] = value
    elif isinstance(held[name], list):
        held[name].append(value)
    else:
        held[name] = [held[name], value]
