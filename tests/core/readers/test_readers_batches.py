"""Batches of prompts: each prompt once, within the limits, shared prefixes."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from core.readers import local_batches

prompts_of_ids = st.lists(
    st.tuples(st.integers(0, 3), st.integers(1, 40), st.integers(0, 9)), max_size=12
)


@given(prompts_of_ids, st.integers(1, 5), st.integers(1, 400), st.booleans())
def test_a_plan_holds_each_prompt_once_within_its_room(prefixes, answer, room, share):
    ids = [
        np.array(
            [opening] * (300 if opening else 0) + [9] * own_tokens + [10 + last], dtype=np.int64
        )
        for opening, own_tokens, last in prefixes
    ]
    groups = local_batches.plan(ids, answer, room, share)
    planned = [i for group in groups for batch in group.batches for i in batch]
    assert sorted(planned) == list(range(len(ids)))
    for group in groups:
        members = [ids[i] for batch in group.batches for i in batch]
        assert share or group.shared == 0
        for one in members:
            assert group.shared < len(one)
            assert (one[: group.shared] == members[0][: group.shared]).all()
        if group.shared:
            assert len(members) > 1
            assert group.shared >= max(local_batches.LEAST_SHARED, max(map(len, members)) / 2)
        for batch in group.batches:
            lengths = [len(ids[i]) for i in batch]
            assert lengths == sorted(lengths, reverse=True)
            assert len(batch) == 1 or len(batch) * (lengths[0] + answer) <= room
    if share:
        long = [i for i, (opening, _, _) in enumerate(prefixes) if opening]
        alone = {i for group in groups if not group.shared for b in group.batches for i in b}
        for i in long:
            assert i not in alone or sum(prefixes[j][0] == prefixes[i][0] for j in long) == 1
