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


@pytest.mark.parametrize("no_hosts", ["", "None assigned", "none", "(null)", "N/A", "Unknown", " (null)\n"])
def test_no_hosts(no_hosts):
    assert count_hosts(no_hosts) == 0
    assert expand_hosts(no_hosts) == []


@pytest.mark.parametrize(
    ("hostlist", "complaint"),
    [
        ("n[1-9999999999]", "names 9999999999 hosts"),
        ("n[1-1000000000]", "names 1000000000 hosts"),
        ("n[3-1]", "the range '3-1' of the host list 'n\\[3-1\\]' is descending"),
        ("n[a]", "'a' is not a range in the host list"),
        ("n[1", "'n\\[1' is not a host list"),
        ("n1]", "is not a host list"),
        ("a,,b", "is not a host list"),
        ("n[1-2-3]", "is not a range"),
        ("n[1234567890123456]", "is not a range"),
    ],
)
def test_an_error_of_a_list_is_reported(hostlist, complaint):
    with pytest.raises(ValueError, match=complaint):
        count_hosts(hostlist)


def test_a_billion_hosts_are_too_many_and_one_less_is_not():
    assert count_hosts("n[1-999999999]") == 999_999_999
    assert count_hosts(" n[3-3],m ") == 2


def test_more_than_a_million_hosts_are_counted_but_not_named():
    with pytest.raises(ValueError, match=r"'n\[1-1048577\]' names 1,048,577 hosts; at most 1,048,576 are read"):
        expand_hosts("n[1-1048577]")
    with pytest.raises(ValueError, match="names 999,999,999 hosts"):
        expand_hosts("n[1-999999999]")


def test_hosts_retain_their_zeros_and_their_order():
    assert expand_hosts("n[9-11],n[009-010]") == ["n9", "n10", "n11", "n009", "n010"]
    assert expand_hosts(" b2,a[3,1] ") == ["b2", "a3", "a1"]
