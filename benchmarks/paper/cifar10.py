"""Sections 6.1 and 7 of the paper, a network on CIFAR-10: ``python -m benchmarks.paper.cifar10``.

Six trainings: five folds of the 50,000 images, and all of them. The first fold is also
the hold-out experiment: trained on 40,000, calibrated on 10,000. Writes ``CIFAR10.md``,
``cifar10_holdout.png`` (figure 2 a, b) and ``cifar10_crossvalidated.png`` (c, d) beside
this file. Needs torch, and npm for the images; weights and results are kept in the
folder ``CALSPLINE_CACHE``, or ``~/.cache/calspline``, and an interrupted run goes on
from there. Trainings are independent: ``--only fold-1 --threads 1`` in one shell and
``--only fold-2 --threads 1`` in another take two thirds of the time of one after the
other, and the run without ``--only`` then finds them done.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import accuracy_score, log_loss

import calspline
from benchmarks.paper import cache, cifar_images
from benchmarks.paper.cifar_images import Images, Labels
from benchmarks.paper.progress import Progress
from benchmarks.tables import table
from calspline import ClippingCalibrator, SplineCalibrator
from calspline.fits.baselines import PAPERS_FLOORS

if TYPE_CHECKING:
    from benchmarks.paper.cifar_network import Settings

Array = NDArray[np.float64]

RESULT = Path(__file__).with_name("CIFAR10.md")
FOLDS = 5
ALL_IMAGES = 50_000
SCORES = ("loss", "accuracy")
FULL, HOLD_OUT_RUN = "full", "fold-0"
RUNS = [HOLD_OUT_RUN, FULL, *(f"fold-{i}" for i in range(1, FOLDS))]
RAW, CLIPPED, ALGORITHM_3, DEFAULT = (
    "uncalibrated",
    "clipped, best of four",
    "Algorithm 3",
    "calspline's default",
)


class Told(NamedTuple):
    """The paper's end points: log-loss and accuracy."""

    loss: dict[str, float]
    accuracy: dict[str, float]


HOLD_OUT = Told(
    {RAW: 0.4361, CLIPPED: 0.4150, ALGORITHM_3: 0.3633},
    {RAW: 0.8764, ALGORITHM_3: 0.8788},
)
CROSS_VALIDATED = Told(
    {RAW: 0.3704, CLIPPED: 0.3586, ALGORITHM_3: 0.3286},
    {RAW: 0.8886, ALGORITHM_3: 0.8904},
)


class Plan(NamedTuple):
    """What to train, how long, and where results are kept."""

    images: Images
    settings: Settings
    checkpoints: list[int]
    hold_out: list[int]
    place: str

    @property
    def options(self) -> str:
        """Of the command that makes the same page again."""
        settings, every, epochs = (
            self.settings,
            self.checkpoints[0],
            self.checkpoints[-1],
        )
        said = f"--epochs {epochs} --hold-out-epochs {self.hold_out[-1]} --every {every} --batch {settings.batch}"
        said += (
            f" --rate {settings.rate:g}"
            + " --adam" * settings.adam
            + " --plain" * (not settings.augment)
        )
        said += f" --average {settings.average}" * (settings.average > 1)
        return said + f" --images {len(self.images.y)}" * (
            len(self.images.y) < ALL_IMAGES
        )

    def of(self, run: str) -> list[int]:
        """The checkpoints of a run: the first fold, being the hold-out experiment too, may go on for longer."""
        return self.hold_out if run == HOLD_OUT_RUN else self.checkpoints

    def fold(self, run: str) -> NDArray[np.bool_]:
        """The rows that a run leaves out."""
        rows = np.random.default_rng(0).permutation(len(self.images.y)) % FOLDS
        return (
            np.asarray(rows == int(run.removeprefix("fold-")))
            if run != FULL
            else np.zeros(len(rows), dtype=bool)
        )

    def name(self, run: str, epoch: int) -> str:
        """Of the probabilities at a checkpoint, in the cache."""
        return f"{self.place}/{run}-epoch-{epoch}"


def train(plan: Plan, run: str, progress: Progress) -> None:
    """Train one network, keeping at each checkpoint its probabilities for the rows left out and the test rows."""
    checkpoints = plan.of(run)
    if all(cache.has(plan.name(run, epoch)) for epoch in checkpoints):
        for epoch in range(checkpoints[-1]):
            progress.step(f"{run}, epoch {epoch + 1}", cached=True)
        return
    from benchmarks.paper.cifar_network import Training

    left_out, images = plan.fold(run), plan.images
    folder = cache.folder() / plan.place
    folder.mkdir(parents=True, exist_ok=True)
    seed = FOLDS if run == FULL else int(run.removeprefix("fold-"))
    state = folder / f"{run}.pt"
    training = Training(state, plan.settings, seed)
    if not all(
        cache.has(plan.name(run, epoch))
        for epoch in checkpoints
        if epoch < training.epoch
    ):
        state.unlink()  # what it said earlier is lost: begin anew
        training = Training(state, plan.settings, seed)
    for epoch in range(training.epoch):
        progress.step(f"{run}, epoch {epoch + 1}", cached=True)
    for epoch in checkpoints:
        if epoch < training.epoch:
            continue
        training.train(
            images.X[~left_out],
            images.y[~left_out],
            epoch,
            lambda: progress.step(f"{run}, epoch {training.epoch}"),
        )
        held = (
            training.probabilities(images.X[left_out])
            if left_out.any()
            else np.empty((0, 10), dtype=np.float32)
        )
        found = {"held": held, "test": training.probabilities(images.test_images)}
        # Probabilities first: a state without them could not be gone back to.
        cache.kept(plan.name(run, epoch), lambda found=found: found)  # type: ignore[misc]
        training.save()


Rows = Callable[[Plan, int], tuple[Array, Labels, Array]]


class Judged(NamedTuple):
    """Test log-loss and accuracy of each method at each checkpoint."""

    loss: dict[str, list[float]]
    accuracy: dict[str, list[float]]


def _compare(plan: Plan, rows: Rows, epoch: int) -> dict[str, Any]:
    return compare(*rows(plan, epoch), plan.images.test_y)


def judge(
    plan: Plan, checkpoints: list[int], key: str, rows: Rows, progress: Progress
) -> Judged:
    """Calibrate and judge at each checkpoint. What one version of calspline found is not computed again."""
    found = []
    for epoch in checkpoints:
        name = (
            f"{plan.place}/{key}-judged-epoch-{epoch}-calspline-{calspline.__version__}"
        )
        cached = cache.has(name)
        compare_epoch = partial(_compare, plan, rows, epoch)
        found.append(cache.kept(name, compare_epoch))
        progress.step(f"{key}, epoch {epoch} judged", cached=cached)
    names = [str(name) for name in found[0]["names"]]
    loss, accuracy = (
        {n: [float(f[what][i]) for f in found] for i, n in enumerate(names)}
        for what in SCORES
    )
    return Judged(loss, accuracy)


def compare(
    p: Array, y: Labels, test_p: Array, test_y: Labels
) -> dict[str, NDArray[Any]]:
    """Log-loss and accuracy of each method, given calibration scores, labels and test scores."""
    answers = {
        RAW: test_p,
        CLIPPED: _best_clipped(p, y, test_p, test_y),
        ALGORITHM_3: SplineCalibrator.paper(3).fit(p, y).predict_proba(test_p),
        DEFAULT: SplineCalibrator().fit(p, y).predict_proba(test_p),
    }
    losses = [
        log_loss(test_y, answer, labels=np.arange(10)) for answer in answers.values()
    ]
    right = [
        accuracy_score(test_y, answer.argmax(axis=1)) for answer in answers.values()
    ]
    return {
        "names": np.array(list(answers)),
        "loss": np.array(losses),
        "accuracy": np.array(right),
    }


def _best_clipped(p: Array, y: Labels, test_p: Array, test_y: Labels) -> Array:
    """The paper's four floors, the best by the test rows themselves, as there: clipping at its most flattered."""
    answers = [
        ClippingCalibrator(p_min=floor).fit(p, y).predict_proba(test_p)
        for floor in PAPERS_FLOORS
    ]
    return min(
        answers,
        key=lambda answer: float(log_loss(test_y, answer, labels=np.arange(10))),
    )


def hold_out(plan: Plan, epoch: int) -> tuple[Array, Labels, Array]:
    """The first fold's rows calibrate its own network."""
    found = _read(plan, HOLD_OUT_RUN, epoch)
    return found["held"], plan.images.y[plan.fold(HOLD_OUT_RUN)], found["test"]


def cross_validated(plan: Plan, epoch: int) -> tuple[Array, Labels, Array]:
    """Out-of-fold scores, stacked, calibrate the network trained on all rows: the paper's Algorithm 4."""
    runs = [f"fold-{i}" for i in range(FOLDS)]
    y = np.concatenate([plan.images.y[plan.fold(run)] for run in runs])
    held = np.concatenate([_read(plan, run, epoch)["held"] for run in runs])
    return held, y, _read(plan, FULL, epoch)["test"]


def _read(plan: Plan, run: str, epoch: int) -> dict[str, Array]:
    found = cache.kept(plan.name(run, epoch), dict)
    exact = {key: values.astype(np.float64) for key, values in found.items()}
    return {key: p / p.sum(axis=1, keepdims=True) for key, p in exact.items()}


def as_table(judged: Judged, told: Told, checkpoints: list[int]) -> str:
    """The last checkpoint beside the paper's, and the best."""
    rows = []
    for name, losses in judged.loss.items():
        best = int(np.argmin(losses))
        rows.append(
            [
                name,
                f"{told.loss[name]:.4f}" if name in told.loss else "",
                f"{losses[-1]:.4f}",
                f"{losses[best]:.4f} (epoch {checkpoints[best]})",
                f"{told.accuracy[name]:.2%}" if name in told.accuracy else "",
                f"{judged.accuracy[name][-1]:.2%}",
            ]
        )
    return table(
        [
            "",
            "log-loss, paper",
            "ours, at the end",
            "ours, at best",
            "accuracy, paper",
            "ours, at the end",
        ],
        rows,
    )


def draw(judged: Judged, checkpoints: list[int], path: Path) -> None:
    """Log-loss and accuracy over the epochs."""
    from benchmarks.paper.epochs import EpochsDisplay

    display: Any = EpochsDisplay(
        judged.loss, accuracy=judged.accuracy, epochs=checkpoints
    ).plot()
    display.figure_.savefig(path, dpi=130)


def main() -> int:
    """Train what is not trained yet, judge, write the page and the figures."""
    cli = argparse.ArgumentParser(
        prog="python -m benchmarks.paper.cifar10", description=__doc__
    )
    cli.add_argument("--epochs", type=int, default=100, help="the paper has 800")
    cli.add_argument(
        "--hold-out-epochs",
        type=int,
        help="more for the hold-out experiment, which is one training",
    )
    cli.add_argument(
        "--every",
        type=int,
        default=5,
        help="epochs between checkpoints; the paper has 25",
    )
    cli.add_argument("--batch", type=int, default=32)
    cli.add_argument("--rate", type=float, default=1e-4, help="learning rate")
    cli.add_argument(
        "--adam",
        action="store_true",
        help="instead of RMSprop, which is unsteady at higher rates",
    )
    cli.add_argument(
        "--plain", action="store_true", help="neither mirror nor move the images"
    )
    cli.add_argument(
        "--average",
        type=int,
        default=1,
        help="steps over which the weights are averaged, for a steady network",
    )
    cli.add_argument(
        "--images", type=int, default=ALL_IMAGES, help="fewer, for a trial"
    )
    cli.add_argument(
        "--hold-out-only",
        action="store_true",
        help="one training instead of six: figures a and b",
    )
    cli.add_argument(
        "--only",
        nargs="+",
        choices=RUNS,
        help="train these and stop, for a share of the work",
    )
    cli.add_argument("--threads", type=int, help="of torch; all cores unless told")
    cli.add_argument(
        "--output", type=Path, default=RESULT, help="the page; the figures go beside it"
    )
    args = cli.parse_args()
    try:
        from benchmarks.paper.cifar_network import Settings, use_threads

        use_threads(args.threads)
        images = cifar_images.load().first(args.images)
    except ImportError as reason:
        print(f"torch is needed: pip install torch==2.13.0 ({reason})", file=sys.stderr)
        return 1
    except FileNotFoundError as reason:
        print(reason, file=sys.stderr)
        return 1
    settings = Settings(args.batch, args.rate, not args.plain, args.adam, args.average)
    most = max(args.epochs, args.hold_out_epochs or 0)
    checkpoints, longer = (
        list(range(args.every, epochs + 1, args.every))
        for epochs in (args.epochs, most)
    )
    place = f"cifar10-{len(images.y)}-{settings.name}-every-{args.every}"
    plan = Plan(images, settings, checkpoints, longer, place)
    runs = args.only or (RUNS[:1] if args.hold_out_only else RUNS)
    progress = Progress(sum(plan.of(run)[-1] for run in runs))
    for run in runs:
        train(plan, run, progress)
    if args.only:
        return 0
    text = page(plan, args.output, cross=not args.hold_out_only)
    args.output.write_text(text, encoding="utf-8")
    print(text)
    return 0


def page(plan: Plan, output: Path, *, cross: bool) -> str:
    """Judge, draw, and put it in words."""
    settings, n = plan.settings, len(plan.images.y)
    optimiser = "Adam" if settings.adam else "RMSprop"
    moved = "mirrored and moved by up to a tenth" if settings.augment else "as they are"
    averaged = f", weights averaged over some {settings.average:,} steps" * (
        settings.average > 1
    )
    epochs = str(plan.checkpoints[-1])
    if plan.hold_out[-1] > plan.checkpoints[-1]:
        epochs = f"{plan.hold_out[-1]} (hold-out) and {epochs} (cross-validated)"
    parts = [
        "# CIFAR-10 (sections 6.1 and 7 and figure 2 of the paper)",
        f"`python -m benchmarks.paper.cifar10 {plan.options}`: the network of Keras's `cifar10_cnn.py`, "
        f"{epochs} epochs (the paper: 800), {optimiser} with rate {settings.rate:g}, batches of {settings.batch}"
        f"{averaged}, images {moved}; {n:,} images to train and calibrate on, {len(plan.images.test_y):,} to judge on. "
        "Clipping is the best of the paper's four floors by the test rows themselves, as there.",
    ]
    jobs = [("Hold-out (a, b)", "holdout", plan.hold_out, hold_out, HOLD_OUT)]
    if cross:
        title = "Cross-validated, Algorithm 4 (c, d)"
        jobs.append(
            (
                title,
                "crossvalidated",
                plan.checkpoints,
                cross_validated,
                CROSS_VALIDATED,
            )
        )
    progress = Progress(sum(len(checkpoints) for _, _, checkpoints, _, _ in jobs))
    for title, key, checkpoints, rows, told in jobs:
        judged = judge(plan, checkpoints, key, rows, progress)
        picture = f"{output.stem.lower()}_{key}.png"
        draw(judged, checkpoints, output.with_name(picture))
        parts += [
            f"## {title}",
            as_table(judged, told, checkpoints),
            f"![{title}]({picture})",
        ]
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    sys.exit(main())
