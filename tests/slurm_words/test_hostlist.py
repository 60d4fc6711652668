import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirage.slurm_words.hostlist import count_hosts, expand_hosts


@pytest.mark.parametrize(
    ("hostlist", "hosts"),
    [
        ("", 0),
        ("None assigned", 0),
        ("(null)", 0),
        ("n1", 1),
        ("n[1-2]", 2),
        ("d09n08s[01-02],d13n[03,05,07-08,16]", 7),
        ("rack[0-1]n[1-4]", 8),
        ("gpu[001-003]-ib,login", 4),
        ("cpn-f13-03-[01-02],cpn-f13-04-[01-02],cpn-f13-05-[01-02],cpn-f13-06-[01-02]", 8),
    ],
)
def test_known_lists(hostlist, hosts):
    assert count_hosts(hostlist) == hosts


@pytest.mark.parametrize(
    "hostlist", ["n[1-", "n1]", "n[]", "n[3-1]", "n[a-b]", "n1,,n2", "n[[1]]", ",", "n[1-9999999999]"]
)
def test_a_broken_list_is_an_error(hostlist):
    with pytest.raises(ValueError, match="host list"):
        count_hosts(hostlist)


group = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 9)), min_size=1, max_size=4)
host = st.lists(group, min_size=0, max_size=2)


@given(st.lists(host, min_size=1, max_size=5))
def test_the_count_is_the_length_of_the_expanded_list(hosts):
    written, expanded = [], []
    for groups in hosts:
        pieces = [",".join(f"{a:02d}-{a + b:02d}" if b else f"{a:02d}" for a, b in group) for group in groups]
        written.append("node" + "".join(f"[{piece}]r" for piece in pieces))
        names = ["node"]
        for group in groups:
            names = [f"{name}{n:02d}r" for name in names for a, b in group for n in range(a, a + b + 1)]
        expanded += names
    assert count_hosts(",".join(written)) == len(expanded)


@pytest.mark.parametrize(
    ("hostlist", "hosts"),
    [
        ("n1", ["n1"]),
        ("n[08-10],m", ["n08", "n09", "n10", "m"]),
        ("r[0-1]n[1,3]-ib", ["r0n1-ib", "r0n3-ib", "r1n1-ib", "r1n3-ib"]),
        ("(null)", []),
    ],
)
def test_hosts_by_name(hostlist, hosts):
    assert expand_hosts(hostlist) == hosts
