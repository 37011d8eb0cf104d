"""Every task and metric does what all have to do; and the checks find tasks and metrics that do not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import pytest

from ikmap.methods.checks import main
from ikmap.tasks import (
    CLASSIFICATION,
    METRICS,
    NOVELTY,
    REGRESSION,
    TASKS,
    Criterion,
    LabelRequest,
    Metric,
    Sentences,
    Task,
    TaskKind,
)
from ikmap.tasks.capabilities import StoresOtherwise, WeighsRows
from ikmap.tasks.checks import check_criterion, check_task, checks_of_criterion, checks_of_task
from ikmap.tasks.sections import Section, Table
from ikmap.tasks.task import Codec, MetricsSchema, PartLabels, Usual
from tests.plugins import registered
from tests.plugins.number_task import KIND, Errors, ErrorScorer, Numbers, NumbersCodec, NumbersPresenter, Rmse, known
from tests.plugins.weighted import Curved, Heavy, TwoColumns
from tests.plugins.within_metric import Within

OURS = ("accuracy", "balanced_accuracy", "roc_auc", "log_loss", "brier", "r2", "alert_rate")


@pytest.fixture(autouse=True)
def _known() -> Iterator[None]:
    with known():
        yield


@pytest.mark.parametrize("kind", [CLASSIFICATION, REGRESSION, NOVELTY, KIND, Curved, Heavy], ids=lambda kind: kind.name)
def test_tasks_do_what_all_have_to(kind: TaskKind | type[TaskKind]) -> None:
    assert check_task(kind) == []


@pytest.mark.parametrize("key", OURS)
def test_metrics_do_what_all_have_to(key: str) -> None:
    assert check_criterion(METRICS[key]) == []


def test_metrics_of_other_packages_do_too() -> None:
    assert check_criterion(Rmse) == []
    assert check_criterion(Within) == []


def test_each_task_is_checked_on_the_labels_that_it_takes() -> None:
    titles = {kind.name: " ".join(map(str, checks_of_task(kind))) for kind in (CLASSIFICATION, REGRESSION, NOVELTY)}
    assert "on_words" in titles["classification"]
    assert "on_words" not in titles["regression"]
    assert "scorer_on_no_labels" in titles["novelty"]
    assert "one_of_them_normal" in titles["novelty"]
    assert "stored_targets_on_three_numbers,_two_of_them_as_one_class" in titles["classification"]
    for ability in ("calibration", "census", "fewer_classes", "targets_by_which_words_are_encoded"):
        assert f"{ability}_on" in titles["classification"]
    assert len(list(checks_of_criterion(METRICS["r2"]))) > 3


def the_line(lines: Sequence[str], *parts: str) -> None:
    """Refuse lines none of which has all of some words, and lines that are several."""
    assert all("\n" not in line for line in lines)
    assert [line for line in lines if all(part in line for part in parts)], lines


# Codecs


class WithCodec(Numbers):
    """The task of numbers with another codec."""

    codec: ClassVar[type[NumbersCodec]] = NumbersCodec

    def of(self, mean: float) -> Task:
        return replace(super().of(mean), codec=self.codec(mean))


def with_codec(codec: type[NumbersCodec]) -> type[WithCodec]:
    return type("WithCodec", (WithCodec,), {"codec": codec})


class RaisingCodec(NumbersCodec):
    def targets(self, stored: np.ndarray, part: PartLabels) -> np.ndarray:  # noqa: ARG002
        raise KeyError("no such number")


@dataclass(frozen=True)
class LogCodec(NumbersCodec):
    """Targets are logarithms of labels: targets of targets are others."""

    def targets(self, stored: np.ndarray, part: PartLabels) -> np.ndarray:  # noqa: ARG002
        return np.log1p(stored)

    def encode(self, labels: np.ndarray | None, n: int) -> np.ndarray:
        return np.log1p(super().encode(labels, n))

    def decode(self, targets: np.ndarray) -> np.ndarray:
        return np.expm1(targets)


@dataclass(frozen=True)
class StoredLogCodec(LogCodec, StoresOtherwise):
    logs: bool = True

    def targets(self, stored: np.ndarray, part: PartLabels) -> np.ndarray:
        return super().targets(stored, part) if self.logs else stored

    def settled(self) -> Codec:
        return replace(self, logs=False)

    def stored(self, targets: np.ndarray) -> tuple[np.ndarray, PartLabels]:
        return targets, {}


class StoredTwiceCodec(StoredLogCodec):
    def settled(self) -> Codec:
        return self


class StoredLogs(WithCodec):
    codec = StoredLogCodec

    def from_json(self, values: Mapping[str, Any]) -> Task:
        task = self.of(values["mean"])
        codec: Any = task.codec
        return replace(task, codec=replace(codec, logs=values["logs"]))


class StoredTwice(StoredLogs):
    codec = StoredTwiceCodec


class OtherLabelsCodec(NumbersCodec):
    def decode(self, targets: np.ndarray) -> np.ndarray:
        return targets + 1.0


class NarrowCodec(NumbersCodec):
    def targets(self, stored: np.ndarray, part: PartLabels) -> np.ndarray:  # noqa: ARG002
        return stored.astype(np.float32)


class LabelsOfNothingCodec(NumbersCodec):
    def unknown(self, targets: np.ndarray) -> np.ndarray:
        return np.zeros(targets.size, dtype=bool)


@pytest.mark.parametrize(
    ("codec", "parts"),
    [
        (RaisingCodec, ("RaisingCodec.targets raises KeyError: 'no such number'",)),
        (LogCodec, ("stored targets on ", "LogCodec.targets: targets of stored targets", "has to be StoresOtherwise")),
        (OtherLabelsCodec, ("OtherLabelsCodec.decode: targets of the labels of targets",)),
        (NarrowCodec, ("NarrowCodec.targets: targets: found float32, expected float64 as dtype says",)),
        (LabelsOfNothingCodec, ("LabelsOfNothingCodec.encode: rows without labels have targets",)),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_broken_codecs_are_found(codec: type[NumbersCodec], parts: tuple[str, ...]) -> None:
    the_line(check_task(with_codec(codec)), *parts)


class WithRaisingCodec(WithCodec):
    codec = RaisingCodec


def test_a_codec_that_raises_has_one_line_for_all_that_meet_it() -> None:
    assert len(check_task(WithRaisingCodec)) == 1


def test_a_codec_may_store_targets_in_another_form() -> None:
    assert check_task(StoredLogs) == []
    the_line(check_task(StoredTwice), "StoredTwiceCodec.stored: targets that the settled codec makes of stored values")


# Kinds of task


class Unpresented(TaskKind):
    name = "unpresented"
    read, find, from_json = Numbers.read, Numbers.find, Numbers.from_json


class Unfinished(TaskKind):
    name = "unfinished"
    presenter = Numbers.presenter

    def read(self, labels: np.ndarray | None, n: int) -> tuple[np.ndarray, PartLabels]:
        return KIND.read(labels, n)


class Forgetful(Numbers):
    def from_json(self, values: Mapping[str, Any]) -> Task:  # noqa: ARG002
        return self.of(0.0)


class Choosy(Numbers):
    def read(self, labels: np.ndarray | None, n: int) -> tuple[np.ndarray, PartLabels]:  # noqa: ARG002
        raise ValueError("found labels, expected none")


class Clumsy(Numbers):
    """Words are no ValueError."""

    def read(self, labels: np.ndarray | None, n: int) -> tuple[np.ndarray, PartLabels]:
        assert labels is not None
        return labels + 0.5, super().read(labels, n)[1]


class ByParts(Numbers):
    """Each part counts the same, however many rows it has."""

    def find(self, parts: Sequence[Any], request: LabelRequest) -> Task:  # noqa: ARG002
        return self.of(sum(part["total"] / max(part["rows"], 1) for part in parts) / len(parts))


class Arrays(Numbers):
    def read(self, labels: np.ndarray | None, n: int) -> tuple[np.ndarray, PartLabels]:
        stored, part = super().read(labels, n)
        return stored, {**part, "labels": stored}  # type: ignore[dict-item]


class Criterionless(Numbers):
    usual = Usual(criterion="accuracy")


@pytest.mark.parametrize(
    ("kind", "parts"),
    [
        (Unpresented, ("Unpresented lacks the member presenter",)),
        (Unfinished, ("Unfinished lacks the member find, from_json",)),
        (Forgetful, ("Forgetful.from_json: record of the task that a store gives back, mean: found 0.0, expected",)),
        (Choosy, ("Choosy.read: takes neither numbers nor words for labels", "found labels, expected none")),
        (Clumsy, ("Clumsy.read raises ", "Error")),
        (ByParts, ("ByParts.find: task of several parts, mean: found",)),
        (Arrays, ("Arrays.read: labels of the part: found", "expected JSON values")),
        (Criterionless, ("Criterionless.usual: criterion: found 'accuracy', expected one of rmse",)),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_broken_kinds_are_found(kind: type[TaskKind], parts: tuple[str, ...]) -> None:
    the_line(check_task(kind), *parts)


# Decisions and scorers


class Constant(TwoColumns):
    """Predictions depend on the rows beside them."""

    def predict(self, decision: np.ndarray) -> np.ndarray:
        return np.full(len(decision), decision[:, 0].mean())


class Columns(TwoColumns):
    def predict(self, decision: np.ndarray) -> np.ndarray:
        return decision


class Unnamed(TwoColumns):
    def values(self, decision: np.ndarray) -> Mapping[str, np.ndarray]:
        return {"number": decision[:, 0]}


@pytest.mark.parametrize(
    ("decisions", "parts"),
    [
        (Constant, ("Constant.predict: predictions of rows 10 to 19 alone, against those among all rows: found",)),
        (Columns, ("Columns.predict: predictions: found the shape (90, 2), expected (90,)",)),
        (Unnamed, ("Unnamed.values: found ['number'], expected ['prediction'] as columns says",)),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_broken_decisions_are_found(decisions: type[TwoColumns], parts: tuple[str, ...]) -> None:
    class WithDecisions(Numbers):
        def of(self, mean: float) -> Task:
            return Task(self, NumbersCodec(mean), decisions(), ErrorScorer())

    the_line(check_task(WithDecisions), *parts)


class Largest(Errors):
    """Its shards do not add up."""

    def __add__(self, other: Self) -> Self:
        return replace(super().__add__(other), absolute=max(self.absolute, other.absolute))


class Unrecorded(Errors):
    def as_json(self) -> Any:
        return [self.rows, self.squared, 0.0, self.total, self.squares]

    def __add__(self, other: Self) -> Self:
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return type(self)(*(a + b for a, b in pairs))


class NotANumber(Errors):
    def metrics(self) -> Any:
        return {**super().metrics(), "mae": float("nan")}


class Undescribed(Errors):
    def metrics(self) -> Any:
        return {**super().metrics(), "median": 0.0}


class WithState(ErrorScorer):
    """The scorer of numbers with states of another class."""

    state: ClassVar[type[Errors]] = Errors

    def accumulate(self, target: np.ndarray, decision: np.ndarray, numbers: np.ndarray | None = None) -> Errors:
        return self.state(**vars(super().accumulate(target, decision, numbers)))

    def state_from(self, values: Any) -> Errors:
        return self.state(*values or ())


class Scored(Numbers):
    def of(self, mean: float) -> Task:
        return replace(super().of(mean), scorer=WithState())


@pytest.mark.parametrize(
    ("state", "parts"),
    [
        (Largest, ("scorer on ", "Largest.__add__: metrics of the sum of shards in their order, mae: found")),
        (Unrecorded, ("WithState.state_from: metrics of the state that a record gives back, mae: found 0.0",)),
        (NotANumber, ("NotANumber.metrics: metrics: found", "expected JSON values")),
        (Undescribed, ("Undescribed.metrics: found ['median'], which schema.learner of the presenter does not",)),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_broken_scorers_are_found(state: type[Errors], parts: tuple[str, ...]) -> None:
    class ScoredOtherwise(Numbers):
        def of(self, mean: float) -> Task:
            scorer = type("WithState", (WithState,), {"state": state})()
            return replace(super().of(mean), scorer=scorer)

    assert check_task(Scored) == []
    the_line(check_task(ScoredOtherwise), *parts)


# Presenters


class OtherMetric(NumbersPresenter):
    metric = Metric("rms", "number", Sentences.about("Root of the mean squared error"))


class FullOnly(NumbersPresenter):
    def summary(self, learner: Mapping[str, Any]) -> Any:
        return [("mean absolute error", learner["mae"], "number")]


class Percents(NumbersPresenter):
    def summary(self, learner: Mapping[str, Any]) -> Any:
        return [("mean absolute error", learner.get("mae"), "percent")]


class Ragged(NumbersPresenter):
    def sections(self, metrics: Mapping[str, Any]) -> Sequence[Section]:  # noqa: ARG002
        return [Section("off", "Off", [Table("Off", ("", "mae"), [("all",)])])]


class Wordy(NumbersPresenter):
    def sections(self, metrics: Mapping[str, Any]) -> Any:  # noqa: ARG002
        return ["Off by how much"]


class NoSchema(NumbersPresenter):
    schema = MetricsSchema(NumbersPresenter.schema.labels, NumbersPresenter.schema.rows, {"mae": {"type": "float"}})


class WrongSchema(NumbersPresenter):
    schema = replace(NumbersPresenter.schema, learner={"mae": {"type": "string"}, "r2": {"type": "number"}})


@pytest.mark.parametrize(
    ("presenter", "parts"),
    [
        (OtherMetric, ("OtherMetric.metric: found 'rms', expected the key of a registered metric of the task",)),
        (OtherMetric, ("Errors.metrics: found rmse, mae, r2, expected the main metric 'rms' of the presenter too",)),
        (FullOnly, ("FullOnly.summary raises KeyError: 'mae' (of the main metric alone)",)),
        (Percents, ("Percents.summary: mean absolute error: found the unit 'percent'", "(of all metrics)")),
        (Ragged, ("Ragged.sections: off, Off: found rows of [1] cells",)),
        (Wordy, ("Wordy.sections: found a str, expected an ikmap.tasks.sections.Section",)),
        (NoSchema, ("NoSchema.schema: learner, mae: found the type 'float', expected one of null",)),
        (WrongSchema, ("WrongSchema.schema: learner, mae: found", "expected string as the schema says")),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_broken_presenters_are_found(presenter: type[NumbersPresenter], parts: tuple[str, ...]) -> None:
    the_line(check_task(type("Presented", (Numbers,), {"presenter": presenter()})), *parts)


# Capabilities


class ByLargest(Numbers, WeighsRows):
    """A weight depends on the rows beside it."""

    def sample_weight(self, codec: Codec, targets: np.ndarray) -> np.ndarray:  # noqa: ARG002
        return targets / targets.max()


class Hungry(Heavy):
    def threshold_refusal(self, codec: Codec) -> Any:  # noqa: ARG002
        return None

    def narrowed(self, task: Task, targets: np.ndarray) -> Any:
        fewer = super().narrowed(task, targets)
        return replace(fewer, decisions=lambda decision: decision)


class MeanCensus(NumbersCodec):
    def census(self, targets: np.ndarray) -> Any:
        return [0.0, float(targets.mean())]


@pytest.mark.slow
def test_broken_capabilities_are_found() -> None:
    the_line(check_task(ByLargest), "ByLargest.sample_weight: weights of rows 10 to 19 alone")
    the_line(check_task(Hungry), "Hungry.threshold_refusal: found None, expected text")
    the_line(check_task(Hungry), "Hungry.narrowed: decisions: found the shape")
    the_line(
        check_task(with_codec(MeanCensus)), "MeanCensus.counted: fields of three parts, target_range, item 1: found"
    )


# Metrics


class Centred(Rmse):
    def row_scores(self, target: np.ndarray, predicted: np.ndarray) -> np.ndarray:
        return super().row_scores(target, predicted - predicted.mean())


class Backwards(Rmse):
    def row_scores(self, target: np.ndarray, predicted: np.ndarray) -> np.ndarray:
        return np.abs(target - predicted)

    def score(self, total: Any, rows: Any) -> Any:
        return total / rows


class OfAll(Rmse):
    def row_scores(self, target: np.ndarray, predicted: np.ndarray) -> np.ndarray:
        return super().row_scores(target, predicted).mean(keepdims=True)


class Infinite(Rmse):
    def row_scores(self, target: np.ndarray, predicted: np.ndarray) -> np.ndarray:  # noqa: ARG002
        return np.full(target.size, -np.inf)


class Shares(Rmse):
    metric = Metric("shares", "share", Sentences.about("Share"), higher_is_better=False)


class Braces(Rmse):
    metric = Metric("braces", "number", Sentences.about("Error {here}"), higher_is_better=False)


class Nowhere(Rmse):
    tasks = frozenset({"juggling"})


class Nameless(Criterion):
    def row_scores(self, target: np.ndarray, predicted: np.ndarray) -> np.ndarray:
        return target == predicted


@pytest.mark.parametrize(
    ("criterion", "parts"),
    [
        (Centred, ("Centred.row_scores: scores of rows 0 to 0 alone, against those among all rows: found",)),
        (Backwards, ("Backwards.score: found", "expected a lower value for larger")),
        (OfAll, ("OfAll.row_scores: scores: found the shape (1,), expected (90,)",)),
        (Infinite, ("Infinite.row_scores: scores: found numbers that are not finite",)),
        (Shares, ("Shares.score: found", "expected a share in [0, 1]")),
        (Braces, ("Braces.metric: sentences, of_test: found 'here' in",)),
        (Nowhere, ("Nowhere.tasks: found juggling, expected some of classification",)),
        (Nameless, ("Nameless lacks the member metric, tasks",)),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_broken_metrics_are_found(criterion: type[Criterion], parts: tuple[str, ...]) -> None:
    the_line(check_criterion(criterion), *parts)


# The command


def test_the_command_knows_tasks_and_metrics(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["regression", "r2"]) == 0
    assert capsys.readouterr().out == "regression: passed\nr2: passed\n"
    monkeypatch.setitem(TASKS, "numbers", Unpresented())
    assert main(["numbers"]) == 1
    assert capsys.readouterr().out == "numbers: 1 faults\nUnpresented lacks the member presenter\n"


def test_the_usual_learner_has_to_be_known(capsys: pytest.CaptureFixture[str]) -> None:
    for usual, line in (
        ("nobody", "figures, usual learner: Figures.usual: learner: found 'nobody', expected the name of a learner"),
        ("logistic", "Figures.usual: learner: found 'logistic', expected a learner with 'figures' in about.tasks"),
    ):
        with registered(type("Figures", (Numbers,), {"name": "figures", "usual": Usual(usual)})):
            assert main(["figures"]) == 1
        assert line in capsys.readouterr().out


def test_the_help_names_tasks_and_metrics(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["--help"])
    assert stop.value.code == 0
    assert "a task or a metric" in " ".join(capsys.readouterr().out.split())
