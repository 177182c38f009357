"""A deterministic reader and judge for tests of runs, with adjustable delay.

``enter`` puts them into the registries of this process; the worker of a run gets them through a
``sitecustomize`` that :func:`tests.support.run_helpers.place` writes.
"""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path

from midchart.core.judges import JUDGES
from midchart.core.readers import READERS
from midchart.core.text import count_tokens, words
from midchart.core.types import Answer, Verdict


class EchoReader:
    """Says the context line that shares most words with the question; fails where told to.

    Told to hold (``count:file``), it reads so many and then waits while the file is there.
    """

    name, title, window = "test_echo", "Echo", 4000

    def __init__(self, protocol, shout=False):
        self.shout = shout
        count, _, file = os.environ.get("TEST_READER_HOLD", "0:").partition(":")
        self.left, self.hold = int(count), Path(file) if file else None
        self.delay_s = float(os.environ.get("TEST_READER_DELAY_S", "0"))
        self.fail_on = os.environ.get("TEST_READER_FAILS_ON", "")
        self.exit_on = os.environ.get("TEST_READER_EXITS_ON", "")

    def count_tokens(self, text):
        return count_tokens(text)

    def read(self, prompt):
        while self.hold and self.left <= 0 and self.hold.exists():
            time.sleep(0.005)
        self.left -= 1
        time.sleep(self.delay_s)
        if self.fail_on and self.fail_on in prompt.question:
            raise RuntimeError(f"the record says: {prompt.text}")
        if self.exit_on and self.exit_on in prompt.text:
            os._exit(1)
        if port := os.environ.get("TEST_READER_CALLS"):
            socket.create_connection(("127.0.0.1", int(port))).close()
        asked = set(words(prompt.question))
        best = max(prompt.context, key=lambda line: len(asked & set(words(line.text))))
        text = best.text.upper() if self.shout else best.text
        return Answer(text, sources=(best.sentence_id,), prompt_tokens=prompt.tokens)


class GroupEcho(EchoReader):
    """The echo, in groups and last one first; notes each group's questions in a file."""

    name, group = "test_group", 10

    def read_many(self, prompts):
        with open(os.environ["TEST_GROUPS"], "a") as file:  # noqa: PTH123
            print("\t".join(prompt.question for prompt in prompts), file=file)
        for index in reversed(range(len(prompts))):
            yield index, self.read(prompts[index])


class WordJudge:
    """Correct where the answer holds the reference's last word; shy where it holds a nought."""

    name, title = "test_words", "Words"

    def __init__(self, protocol, strict=False):
        pass

    def judge(self, instruction, gold, answer):
        if "unparsable" in instruction.question:
            return Verdict("unparsed", raw="perhaps")
        right = words(gold.answer)[-1] in words(answer.text)
        return Verdict("correct" if right else "incorrect", raw="YES" if right else "NO")


class LengthJudge:
    """Correct where the answer has an even number of characters."""

    name, title = "test_even", "Even"

    def __init__(self, protocol):
        pass

    def judge(self, instruction, gold, answer):
        return Verdict("correct" if len(answer.text) % 2 == 0 else "incorrect")


class GroupWords(WordJudge):
    """The judge of words, in groups and last one first."""

    name, group = "test_group_words", 7

    def judge_many(self, items):
        for index in reversed(range(len(items))):
            yield index, self.judge(*items[index])


READER_CLASSES = (EchoReader, GroupEcho)
JUDGE_CLASSES = (WordJudge, LengthJudge, GroupWords)


def registered(readers, judges):
    """Functions that put classes into the registries of this process, and take them out again."""
    families = ((READERS, readers), (JUDGES, judges))

    def enter():
        for registry, classes in families:
            for one in classes:
                registry.register(one.name)(one)

    def leave():
        for registry, classes in families:
            for one in classes:
                registry._factories.pop(one.name, None)

    return enter, leave


enter, leave = registered(READER_CLASSES, JUDGE_CLASSES)
