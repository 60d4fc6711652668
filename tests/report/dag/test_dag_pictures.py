"""Pictures of stage schedulers: trees with rules, means with intervals, executors."""

import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from mirage.cli.commands.dag import dag
from mirage.cli.commands.distill import distill
from mirage.dag.distilled.candidate_columns import FEATURES
from mirage.dag.distilled.executor_rule import Cap, ExecutorRule
from mirage.dag.distilled.tree_policy import shipped_tree
from mirage.dag.schedulers.stage_schedulers import make_scheduler
from mirage.dag.simulator.dag_simulation import DagSimulation
from mirage.dag.simulator.dag_world import DagCluster
from mirage.dag.workload.dag_arrivals import poisson_arrivals
from mirage.dag.workload.generated import generated_templates
from mirage.distill.tree import Leaf, Split, Tree
from mirage.distill.units import FLAG_THRESHOLD, Unit
from mirage.errors import ConfigurationError
from mirage.report.dag.comparison_charts import EpisodeLog, executors_chart
from mirage.report.dag.distillation_chart import students_chart
from mirage.report.dag.tree_picture import FEATURE_WORDS, head_words, laid_out, rule_words, tree_picture
from mirage.report.svg import svg_of


def words_of(svg: str) -> list[str]:
    return re.findall(r"<text[^>]*>([^<]+)</text>", svg)


def test_a_drawn_tree_has_the_questions_and_answers_of_its_text():
    words = words_of(svg_of(tree_picture(shipped_tree(), "ours")))
    for question in ("own?", "holds &lt; 1?", "crowding &lt; 20 %?", "drains in &lt; 25s?", "drains in &lt; 2min?"):
        assert question in words
    assert (words.count("yes"), words.count("no")) == (7, 7)
    assert sorted(word for word in words if word in ("-1", "1", "2", "3", "4")) == ["-1", "1", "2", "3", *"4444"]
    assert "1.8 × a share by work to the power 0.4" in words
    assert "from 20 % on" in words
    assert words[words.index("drains in") + 1] == "work of the job over the executors that it holds"
    assert "age" not in words


def test_every_feature_has_words():
    assert list(FEATURE_WORDS) == [feature.name for feature in FEATURES]


def test_each_answer_is_after_its_question_in_a_row_of_its_own():
    root = Split("own", FLAG_THRESHOLD, Split("work", 60.0, Leaf(-1.0, 0.5), Leaf(2.0, 0.2)), Leaf(3.0, 0.3))
    boxes = laid_out(Tree(FEATURES, Unit.NUMBER, root)).boxes
    assert [(box.text, box.answer) for box in boxes] == [
        ("own?", ""), ("3  (30 %)", "yes"), ("work < 1min?", "no"), ("-1  (50 %)", "yes"), ("2  (20 %)", "no"),
    ]  # fmt: skip
    leaves = [box for box in boxes if box.is_leaf]
    assert len({box.y for box in leaves}) == len(leaves)
    assert [box.is_left_alone for box in leaves] == [False, True, False]
    assert all(box.x > boxes[box.above].x + boxes[box.above].width for box in boxes[1:])


def test_the_rule_is_described_where_it_limits_something():
    assert [(line.about, line.limits) for line in rule_words(ExecutorRule())] == [("executors", ("all that are free",))]
    rule = ExecutorRule(
        Cap(source_share=1.35), ((0.2, Cap(factor=2.0, even=True)), (0.6, Cap(factor=2.0, spare=False)))
    )
    assert [(line.about, line.limits) for line in rule_words(rule)] == [
        ("a job holds at most", ("no limit", "2 × an equal share", "2 × an equal share")),
        ("the job whose executors these are", ("135 % of its cap", "no limit", "no limit")),
        ("where no job has room", ("caps are lifted", "caps are lifted", "executors stay idle")),
        ("the tasks of a stage", ("no limit", "in as many rounds with as few executors", "no limit")),
    ]
    lines = [(line.about, line.limits) for line in rule_words(ExecutorRule(Cap(new=0.8, even=True, usual=True)))]
    assert lines == [
        ("a job that has none", ("80 % of its cap",)),
        ("the tasks of a stage", ("in as many rounds with as few executors",)),
        ("work counts", ("by usual durations, not by the last task's",)),
    ]
    assert head_words(rule).limits == ("below 20 % jobs per executor", "from 20 % on", "from 60 % on")
    drawn = words_of(svg_of(tree_picture(Tree(FEATURES, Unit.NUMBER, Leaf(0.0), rule.settings()), "three loads")))
    assert drawn.count("2 × an equal share") == 2


@pytest.mark.parametrize(
    ("kind", "begin"), [(".svg", b"<svg"), pytest.param(".png", b"\x89PNG", marks=pytest.mark.slow)]
)
def test_a_tree_is_drawn_into_a_file(tmp_path: Path, kind: str, begin: bytes):
    out = tmp_path / f"tree{kind}"
    assert CliRunner().invoke(distill, ["draw", "-o", str(out)], catch_exceptions=False).exit_code == 0
    assert out.read_bytes().startswith(begin)


def test_a_picture_of_another_kind_is_refused(tmp_path: Path):
    with pytest.raises(ConfigurationError, match=r"must end in \.svg"):
        CliRunner().invoke(distill, ["draw", "-o", str(tmp_path / "tree.gif")], catch_exceptions=False)


def test_a_stretch_is_what_an_executor_does_for_one_job_without_a_break():
    fair, arrivals = make_scheduler("fair"), poisson_arrivals(6, 1)
    played = DagSimulation(generated_templates(), arrivals, DagCluster(5), seed=1, log=True)
    outcome = played.run(fair.decider, fair.parameters_for(1))
    log = EpisodeLog.of("fair", played.world, played.runs)
    assert log.done_s - log.arrival_s == pytest.approx(outcome.jct_s)
    work_s = (played.runs.end_ms - played.runs.start_ms).sum() / 1000
    assert (log.end_s - log.begin_s).sum() == pytest.approx(work_s)
    assert len(log.job) < len(played.runs)
    for executor in range(5):
        mine = log.executor == executor
        assert (log.begin_s[mine][1:] >= log.end_s[mine][:-1]).all()
    drawn = svg_of(executors_chart([log], "a small one"))
    wide = [float(width) for width in re.findall(r"h([\d.]+)v8", drawn)]
    share = np.sum(wide) / (5 * (940 - 84 - 24))
    assert share == pytest.approx(work_s / 5 / log.end_s.max(), abs=0.01)


def test_a_comparison_is_drawn_into_a_folder(tmp_path: Path):
    words = ["compare", "--setting", "5/6,10/4", "--seeds", "1-3", "--policies", "fifo,fair", "--plot"]
    result = CliRunner().invoke(dag, [*words, str(tmp_path / "new"), "--json"], catch_exceptions=False)
    assert result.exit_code == 0
    names = ["dag-executors-10-4.svg", "dag-executors-5-6.svg", "dag-jct.svg"]
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == names
    jct, episode = ((tmp_path / "new" / name).read_text() for name in ("dag-jct.svg", "dag-executors-5-6.svg"))
    assert {"5 executors, 6 jobs", "10 executors, 4 jobs", "fifo", "fair"} <= set(words_of(jct))
    (heading,) = (word for word in words_of(episode) if word.startswith("5 executors, 6 jobs, seed 1;"))
    assert "colour" in heading


def test_a_frontier_names_the_file_of_a_teacher_without_its_folder():
    shares = {"stage": 0.5, "job": 0.6}
    student = {"method": "cart", "leaves": 8, "states_of_teacher": shares, "own_states": shares}
    rows = [{**student, "mean_jct_s": {"10/5": 40.0}}, {**student, "leaves": 16, "mean_jct_s": {"10/5": 50.0}}]
    picture = svg_of(students_chart(rows, "decima-argmax:/home/someone/weights.npz"))
    assert "teacher decima-argmax:weights.npz;" in picture
    assert "someone" not in picture
