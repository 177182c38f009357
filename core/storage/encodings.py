"""Which encoding a text is in, by its marks, its bytes and the letters that it has."""

from __future__ import annotations

import re
from itertools import pairwise

from midchart.core.errors import DataError

WESTERN = "Windows-1252"
_SAMPLE = 1 << 20
"""Characters by which the encoding of a text is recognised."""

_PUNCTUATION = "‘’“”–—…•·«»\xa0\xad´¨™®©°±×µ€£§²³¹½¼¾‰†‡‹›„‚º ª¿¡"
_BETWEEN_LETTERS = frozenset("‚ƒ„†‡ˆ‰‹˜™›¡¢£¤¥¦§¨©ª«¬®¯²³¶¸¹º»¼½¾¿")
_MOST_ODD = 0.1
"""Share of runs of letters beyond ASCII that may be odd in text of Western Europe."""
_NOT_WESTERN = re.compile(
    r"(?=.*[øï])(?=.*[ìèùò])(?!.*[åæÅÆ])|(?=.*õ)(?=.*û)|(?=.*\wþ)(?=.*[ýð])(?!.*[áéíóúæ])",
    re.DOTALL,
)
"""Czech, Slovak, Hungarian or Turkish that is read as Windows-1252."""
_OTHERS: tuple[tuple[str, str, str, str], ...] = (
    ("Windows-1251", "cp1251", "оеаинтсрвлкмдпу", "А-яЁёЂ-џҐґ"),
    ("KOI8-R", "koi8_r", "оеаинтсрвлкмдпу", "А-яЁё"),
    ("DOS 866", "cp866", "оеаинтсрвлкмдпу", "А-яЁё"),
    ("Mac Cyrillic", "mac_cyrillic", "оеаинтсрвлкмдпу", "А-яЁё"),
    ("Shift_JIS", "cp932", "ぁ-んァ-ヶー、。・「」", "一-龥々〇-〕！-ﾟ"),
    ("EUC-JP", "euc_jp", "ぁ-んァ-ヶー、。・「」", "一-龥々〇-〕！-ﾟ"),
    ("EUC-KR", "cp949", "이가을를은는에의로다고하환자있습니어지한서도사없음증혈통과",
     "가-힣ㄱ-ㆎ、。"),
    ("GB18030", "gb18030", "的一是不了在人有我他这中大来上个国和地到说时要就出会可也你对生能而子年"
     "日月者患病无痛血治疗院入既往史查体性未见为，。：、；", "一-龥（）《》“”"),
    ("Big5", "big5", "的一是不了在人有我他這中大來上個國和地到說時要就出會可也你對生能而子年"
     "日月者患病無痛血治療院入既往史查體性未見為，。：、；", "一-龥（）《》「」"),
    ("Windows-1253", "cp1253", "αοιετσνηυρπκλμάόίέήύώς", "Α-ώ"),
    ("Windows-1250", "cp1250", "ąęłśżźćńóáéíýčěřšžťňůúďľĺőűöüăâîşţđ", "À-žŔ-ż„”“–°"),
    ("Windows-1254", "cp1254", "ışğİçöü", "âîû"),
    ("DOS 850", "cp850", "éèàâçêëîïôùûöüäßñóíáúãõåæøÉÅÆØÖÄÜ°", "ìòÀ-ÿ«»"),
    ("Mac Roman", "mac_roman", "éèàâçêëîïôùûöüäßñóíáúãõåæøÉÅÆØÖÄÜ’‘“”–—…•°µ≤≥±",
     "ìòÀ-ÿœŒ«»\xa0"),
)  # fmt: skip
"""Encodings that are tried for text in no encoding of Western Europe: name, codec, the characters
beyond ASCII that are frequent in it, and others that it has."""
_MARKS = {b"\xff\xfe\x00\x00": "UTF-32", b"\x00\x00\xfe\xff": "UTF-32", b"\xff\xfe": "UTF-16",
          b"\xfe\xff": "UTF-16"}  # fmt: skip
"""Byte-order mark → encoding."""
_LEAST_NATURAL, _FEW = 0.6, 4
"""How natural a text must be in an encoding, and with fewer characters beyond ASCII less so."""


def decoded(data: bytes, name: str) -> tuple[str, str]:
    """The text of a file and its encoding, "" for UTF-8 (with or without a byte-order mark).

    UTF-16 and UTF-32 are read by their byte-order mark, UTF-16 also by its zero bytes, what is
    left by the letters that it has: Windows-1252 where they are those of Western Europe, else one
    of :data:`_OTHERS`. Raises DataError for another.
    """
    start = data[: 1 << 16]
    zeros = start.count(b"\0")
    encoding = next((name for mark, name in _MARKS.items() if data.startswith(mark)), "")
    if not encoding and zeros * 5 > len(start):
        halves = {"UTF-16-LE": start[1::2], "UTF-16-BE": start[::2]}
        encoding = next((name for name, half in halves.items() if half.count(b"\0") == zeros), "")
    if encoding:
        try:
            return data.decode(encoding).removeprefix("\ufeff"), encoding
        except UnicodeDecodeError:
            reason = f"begins like {encoding} text and is not"
            raise DataError(name, None, reason, "save it as UTF-8") from None
    try:
        return data.decode("utf-8-sig"), ""
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
    text = _western(data)
    if text is not None and not _NOT_WESTERN.match(text):
        return text, WESTERN
    natural, text, encoding = max((_natural(data, *one) for one in _OTHERS), key=lambda one: one[0])
    if natural < _LEAST_NATURAL:
        raise DataError(
            name, line, f"is text of no encoding that is recognised (the nearest is {encoding})",
            "save it as UTF-8 (iconv -f ENCODING -t UTF-8)",
        )  # fmt: skip
    return text, encoding


def _natural(
    data: bytes, encoding: str, codec: str, frequent: str, letters: str
) -> tuple[float, str, str]:
    """How natural text is in an encoding, at most 1; the text; the name of the encoding."""
    try:
        text = data.decode(codec)
    except UnicodeDecodeError:
        return -1.0, "", encoding
    sample = text[:_SAMPLE]
    beyond = "".join(re.findall(r"[^\x00-\x7f]", sample)) or "-"
    usual = len(re.findall(f"[{frequent}]", beyond, re.IGNORECASE))
    known = len(re.findall(f"[{letters}]", re.sub(f"(?i:[{frequent}])", "", beyond)))
    mixed = len(re.findall("[a-z](?=[Ͱ-ӿぁ-힣])|[Ͱ-ӿぁ-힣](?=[a-z])", sample))
    switches = mixed + sum(
        a.islower() and b.isupper() and not b.isascii() for a, b in pairwise(sample)
    )
    score = usual + known / 2 - (len(beyond) - usual - known) - 2 * switches
    certain = min(1.0, len(beyond) / _FEW)
    return certain * score / len(beyond), text, encoding


def _western(data: bytes) -> str | None:
    """Text in Windows-1252; None where bytes beyond ASCII make no words of Western Europe."""
    try:
        text = data.decode("cp1252")
    except UnicodeDecodeError:
        return None
    odd = total = 0
    for run in re.finditer(r"[^\x00-\x7f]+", text):
        characters, before = run[0], text[run.start() - 1 : run.start()]
        inside = before.isalpha() and text[run.end() : run.end() + 1].isalpha()
        capital = inside and before.islower() and characters[0].isupper()
        symbol = inside and not _BETWEEN_LETTERS.isdisjoint(characters)
        letters = any(map(str.isalpha, characters))
        long = len(characters.strip(_PUNCTUATION)) > 2 or (len(characters) > 3 and letters)
        total, odd = total + 1, odd + (capital or symbol or long)
    return None if odd > _MOST_ODD * total else text


def encoding_read(name: str, encoding: str) -> str:
    """A statement that a file was read in an encoding other than UTF-8."""
    doubt = "" if encoding.startswith("UTF") else " — if letters look wrong, save it as UTF-8"
    return f"{name}: read as {encoding}, as it is not UTF-8{doubt}"
