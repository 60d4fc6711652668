from dataclasses import replace

import numpy as np

from mirage.learn.hand_overs import COLUMNS, HISTORY, QUEUE_COLUMNS, HandOvers, chain_columns


def hand_overs(rows: int = 6) -> HandOvers:
    of = np.arange(rows, dtype=np.int64)
    return HandOvers(
        window_s=np.repeat([1000, 5000], rows // 2),
        link_nodes=np.full(rows, 2),
        link_limit_s=np.full(rows, 7200),
        wait_s=np.full(rows, 900),
        time_s=1900 + 600 * of,
        remaining_s=7200 - 600 * (of % (rows // 2) + 1),
        outcome_s=-600 * of,
        features=np.column_stack([of, 10 * of]).astype(np.float32),
        names=("a", "b"),
        snapshots=np.arange((HISTORY + rows) * QUEUE_COLUMNS, dtype=np.float32).reshape(-1, QUEUE_COLUMNS),
        last=HISTORY + of,
    )


def test_the_history_ends_with_the_snapshot_at_the_decision():
    data = hand_overs()
    history = data.history(np.array([0, 4]))
    assert history.shape == (2, HISTORY, COLUMNS)
    assert history[1, -1, :QUEUE_COLUMNS].tolist() == data.snapshots[data.last[4]].tolist()
    assert history[1, -2, :QUEUE_COLUMNS].tolist() == data.snapshots[data.last[4] - 1].tolist()


def test_the_chain_is_shown_as_it_was_at_each_snapshot():
    columns = chain_columns(np.array([2]), np.array([7200]), np.array([900]), np.array([600]))[0]
    assert columns[-1].tolist() == [120, 2, 900, 600, 120, 2, 0, 0]
    assert columns[-2].tolist() == [120, 2, 900, 0, 120, 2, 0, 0]  # it has just started
    assert columns[-3].tolist() == [120, 2, 300, 0, 120, 2, 0, 0]
    assert columns[-4, 2] == 0  # not submitted yet


def test_repeats_go_with_their_rows_and_are_lost_where_a_part_has_none():
    plain = hand_overs()
    data = replace(plain, repeats=plain.features)
    assert data[data.window_s == 5000].repeats[:, 1].tolist() == [30, 40, 50]
    assert plain[:2].repeats is None
    assert HandOvers.joined([data[:1], data[5:]]).repeats[:, 1].tolist() == [0, 50]
    assert HandOvers.joined([data, plain]).repeats is None


def test_rows_are_chosen_and_windows_found():
    data = hand_overs()
    assert data.windows().tolist() == [0, 3, 6]
    late = data[data.window_s == 5000]
    assert (len(late), late.column("b").tolist(), late.windows().tolist()) == (3, [30, 40, 50], [0, 3])
    assert data.history(np.array([3])).tolist() == late.history(np.array([0])).tolist()
