"""All methods by name, with those of packages that offer more under the entry point ``ikmap.methods``."""

from __future__ import annotations

import os
import sys
from collections.abc import Container, Iterable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ikmap.methods.adaraker import ADARAKER, RAKER
from ikmap.methods.additive_chi2 import ADDITIVE_CHI2
from ikmap.methods.anne import ANNE
from ikmap.methods.binning import BINNING
from ikmap.methods.chi2 import CHI2_LINEAR, CHI2_SVM
from ikmap.methods.composed import AND, composed, names_of
from ikmap.methods.fourier import FOURIER_LINEAR
from ikmap.methods.gaussian import GAUSSIAN
from ikmap.methods.gcws import GCWS
from ikmap.methods.gmm import COSINE_RBF, GMM_KERNELS
from ikmap.methods.idk import IDK
from ikmap.methods.iforest import IFOREST
from ikmap.methods.iforest_score import IFOREST_SCORE
from ikmap.methods.inne import INNE
from ikmap.methods.isolation import ISOLATION
from ikmap.methods.kernel import KERNELS, KernelMethod
from ikmap.methods.kernel_ogd import KERNEL_OGD
from ikmap.methods.kernel_svm import ISOLATION_SVM, KERNEL_SVM
from ikmap.methods.laplacian import LAPLACIAN
from ikmap.methods.learner import Learner
from ikmap.methods.learners import CountsLearner, DualLearner, StreamLearner, WholeLearner
from ikmap.methods.linear_kernel import COSINE, LINEAR
from ikmap.methods.linear_on_cells import LOGISTIC, SVM
from ikmap.methods.map import Map
from ikmap.methods.mondrian import MONDRIAN
from ikmap.methods.nogd import NOGD
from ikmap.methods.norma import NORMA
from ikmap.methods.norma_dual import NORMA_DUAL
from ikmap.methods.ogd import OGD, OGD_DUAL, OGD_NAIVE
from ikmap.methods.options import OptionError, Spec
from ikmap.methods.quantile import QUANTILE
from ikmap.methods.reserved import reserved_among
from ikmap.methods.ridge import RIDGE
from ikmap.methods.rounds import RoundsLearner
from ikmap.methods.svr import SVR
from ikmap.tasks import METRICS, TASKS, Criterion, TaskKind, task_words
from ikmap.tasks import register as register_task

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "ikmap.methods"
"""Entry points of packages with more methods; each names one: a map, a learner or a kernel."""

type Method = Map | Learner | KernelMethod

MAPS: dict[str, Map] = {}
LEARNERS: dict[str, Learner] = {}
PACKAGES: dict[str, str] = {}
"""The package that a method comes from, by name; of ours there is none."""
FAULTS: list[str] = []
"""What is wrong with packages that offer methods: a line each, that says what to type."""


def known(name: str) -> Method | None:
    """The method of that name, or the map put together from several ("iforest,anne"); None: there is none here.

    Raises
    ------
    OptionError
        A map is there twice.
    """
    of_maps = [MAPS[part] for part in names_of(name) if part in MAPS]
    if AND in name:
        return composed(tuple(of_maps)) if len(of_maps) == len(names_of(name)) else None
    return MAPS.get(name) or LEARNERS.get(name) or KERNELS.get(name)


def method(name: str) -> Method:
    """The method of that name.

    Raises
    ------
    OptionError
        There is none here.
    """
    found = known(name)
    if found is None:
        from socket import gethostname

        if AND in name:
            name = next(part for part in names_of(name) if part not in MAPS)
            if name in methods():
                raise OptionError(f"--partitioner: found {name!r}, expected some of {', '.join(MAPS)}")

        why = "; ".join(FAULTS) or "install the package that has it on this machine too, with pip"
        raise OptionError(f"method {name!r} is not known on {gethostname()}: {why}")
    return found


def methods() -> dict[str, Method]:
    """All of them: maps first."""
    return {**MAPS, **LEARNERS, **KERNELS}


def register(one: Method | TaskKind | type[TaskKind] | type[Criterion], package: str = "") -> None:
    """Make a method, a kind of task or a metric known.

    Raises
    ------
    OptionError
        Its name is taken, or one of its options has a name that commands have themselves.
    """
    if isinstance(one, type) and issubclass(one, Criterion):
        _refuse_taken("metric", (one.metric.key,), METRICS, package)
        register_task(one)
        return
    if isinstance(one, TaskKind) or (isinstance(one, type) and issubclass(one, TaskKind)):
        _refuse_taken("task", (one.name, *one.words), {"auto", *task_words(), *TASKS}, package)
        register_task(one)
        return
    if not isinstance(one, Map | Learner | KernelMethod):
        raise OptionError(
            f"package {package}: found {type(one).__name__} in its entry point, expected a Map, a Learner or "
            f"a KernelMethod of ikmap.methods, or a TaskKind or a Criterion of ikmap.tasks; pip uninstall {package}, "
            "or mend it"
        )
    _refuse_taken("method", (one.name,), methods(), package)
    if taken := reserved_among(one.Options.specs()):
        raise OptionError(
            f"package {package}: its method {one.name!r} has an option {taken[0]!r}, a name that the commands use "
            f"themselves; pip uninstall {package}, or give the option another name there"
        )
    if isinstance(one, Map):
        MAPS[one.name] = one
    elif isinstance(one, Learner):
        LEARNERS[one.name] = one
    else:
        KERNELS[one.name] = one
    if package:
        PACKAGES[one.name] = package


def _refuse_taken(kind: str, names: Iterable[str], taken: Container[str], package: str) -> None:
    for name in names:
        if name in taken:
            owner = PACKAGES.get(name, "ikmap")
            raise OptionError(
                f"package {package}: its {kind} {name!r} has a name that {owner} has taken; pip uninstall {package}, "
                f"or give the {kind} another name there"
            )


def plain_options(of: Mapping[str, Method]) -> dict[str, dict[str, Spec]]:
    """For each option that any of these methods has, what each of them says of it, by their names."""
    found: dict[str, dict[str, Spec]] = {}
    for name, one in of.items():
        for spec in one.Options.specs().values():
            found.setdefault(spec.name, {})[name] = spec
    return found


def import_models() -> None:
    """Make the kinds of all models known: each is, once its module is imported."""
    for module in {module for one in methods().values() for module in one.models}:
        import_module(module)


def stream_learner(name: str) -> StreamLearner:
    """The learner of that name, which learns from one row after the other."""
    learner = method(name)
    assert isinstance(learner, StreamLearner), name
    return learner


def dual_learner(name: str) -> DualLearner:
    """The learner of that name, a linear one on cells."""
    learner = method(name)
    assert isinstance(learner, DualLearner), name
    return learner


def whole_learner(name: str) -> WholeLearner:
    """The learner of that name, which learns from all rows at once."""
    learner = method(name)
    assert isinstance(learner, WholeLearner), name
    return learner


def counts_learner(name: str) -> CountsLearner:
    """The learner of that name, which learns from counts."""
    learner = method(name)
    assert isinstance(learner, CountsLearner), name
    return learner


def rounds_learner(name: str) -> RoundsLearner:
    """The learner of that name, which learns in rounds."""
    learner = method(name)
    assert isinstance(learner, RoundsLearner), name
    return learner


def map_of(name: str) -> Map:
    """The map of that name."""
    found = method(name)
    assert isinstance(found, Map), name
    return found


def load_packages() -> None:
    """Make the methods of other packages known, once those of ours are."""
    for point in sorted(offered(GROUP), key=lambda point: (point.name, point.value)):
        _load(point)


def offered(group: str) -> Iterator[EntryPoint]:
    """Entry points of installed packages in a group.

    importlib.metadata takes longer to import, and to look at all packages, than all of ``--help`` does otherwise: it
    is asked about those only whose file of entry points has the group. With ``IKMAP_PACKAGES=off`` in the environment
    there are none.
    """
    if os.environ.get("IKMAP_PACKAGES") == "off":
        return
    seen = set()
    for folder in dict.fromkeys(sys.path):
        try:
            names = [name for name in os.listdir(folder or ".") if name.endswith((".dist-info", ".egg-info"))]
        except OSError:
            continue
        for name in names:
            place = Path(folder, name)
            try:
                offers = f"[{group}]" in (place / "entry_points.txt").read_text(encoding="utf-8", errors="replace")
            except OSError:
                continue
            package = name.partition("-")[0]
            if offers and package not in seen:  # the first on the path is what is imported
                from importlib.metadata import Distribution

                seen.add(package)
                yield from Distribution.at(place).entry_points.select(group=group)


def _load(point: EntryPoint) -> None:
    """Make what an entry point names known, or note why it cannot be: no command ends for a method it does not use."""
    package = point.dist.name if point.dist is not None else point.value.partition(":")[0]
    try:
        found: Any = point.load()
        register(found, package)
    except OptionError as error:
        FAULTS.append(str(error))
    except Exception as error:  # whatever a stranger's package does wrong
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        FAULTS.append(
            f"package {package}: its method {point.name!r} cannot be imported ({reason}); pip install --upgrade "
            f"{package}, or pip uninstall {package}"
        )


for _one in (
    LAPLACIAN,
    GAUSSIAN,
    ADDITIVE_CHI2,
    LINEAR,
    COSINE,
    COSINE_RBF,
    *GMM_KERNELS,
    ISOLATION,
    ANNE,
    IFOREST,
    INNE,
    GCWS,
    MONDRIAN,
    BINNING,
    SVM,
    LOGISTIC,
    RIDGE,
    SVR,
    OGD,
    OGD_NAIVE,
    OGD_DUAL,
    NORMA,
    ISOLATION_SVM,
    QUANTILE,
    KERNEL_OGD,
    NORMA_DUAL,
    NOGD,
    ADARAKER,
    RAKER,
    KERNEL_SVM,
    CHI2_SVM,
    CHI2_LINEAR,
    FOURIER_LINEAR,
    IDK,
    IFOREST_SCORE,
):
    register(_one)
