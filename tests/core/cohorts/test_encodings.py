"""Texts of many languages are read in the encoding that they have, or named."""

from __future__ import annotations

import pytest

from midchart.core.errors import DataError
from midchart.core.storage.encodings import decoded

TEXTS = (
    ("cp1251 koi8_r cp866 mac_cyrillic", "2021-05-10,Аллергия на пенициллин"),
    ("cp1251", "Алергія на пеніцилін. Пацієнт скаржиться на біль у грудях."),
    ("cp1250", "Pacjent zgłasza ból głowy i gorączkę. Uczulenie na penicylinę – obrzęk twarzy."),
    ("cp1250", "Pacient udává bolest hlavy. Alergie na penicilin, otok obličeje. Dříve zdráv."),
    ("cp1250", "A beteg fejfájásról panaszkodik. Penicillinallergia, szűrés később. Láz, köhögés."),
    ("cp1252 mac_roman", "Patient klagt über Übelkeit und Schwäche. Größe 180 cm, Gewicht 82 kg"),
    ("cp1252 mac_roman", "Œdème sévère, allergie à la pénicilline. L’état s’améliore."),
    ("cp1252 mac_roman", "Patienten har smerter på højre side. Ikke røget. Værre om aftenen."),
    ("cp1252", "Patsient kaebab õhupuudust. Köha, öine higistamine, väsimus."),
    ("cp1252 mac_roman", "Paciente com lesões, não tem alergias. Pressão 120/80. Coração normal."),
    ("cp1252", "Il paziente è allergico. Più tardi è già andato, così può tornare."),
    ("cp1254", "Hasta baş ağrısından şikayetçi. Penisilin alerjisi var, ateş yükseldi.."),
    ("cp932 euc_jp", "2021-05-10,ペニシリンでアナフィラキシーの既往がある。"),
    ("gb18030", "患者有青霉素过敏史，入院时无痛。血压正常。"),
    ("big5", "患者有青黴素過敏史，入院時無痛。血壓正常。"),
    ("cp949", "환자는 페니실린 알레르기가 있습니다. 혈압은 정상입니다."),
    ("cp1253", "Ο ασθενής έχει αλλεργία στην πενικιλίνη. Πόνος στο στήθος."),
    ("cp1252 mac_roman", "The patient’s temp is 38 °C – stable. “No pain”, café visit…"),
)  # fmt: skip
"""Encodings, and a sentence that people of their region write in them."""
ROWS = [(codec, text) for codecs, text in TEXTS for codec in codecs.split()]


@pytest.mark.parametrize(("codec", "text"), ROWS, ids=[f"{c}-{t[:9]}" for c, t in ROWS])
def test_a_text_is_read_in_its_encoding(codec: str, text: str) -> None:
    table = f"patient_id,text\np1,{text}\n"
    read, encoding = decoded(table.encode(codec), "notes.csv")
    assert read == table
    assert encoding


def test_bytes_of_no_encoding_are_named_with_a_remedy() -> None:
    with pytest.raises(DataError, match=r"no encoding that is recognised.*iconv"):
        decoded(b"patient_id,text\n1," + bytes(range(0x80, 0x100)) * 3, "notes.csv")
