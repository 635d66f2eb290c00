"""The rows of the table for one draw: classifiers, what is made of them, and what each variant costs.

Rule 1: what has settings to choose from, is chosen on validation images, as in silos.py.
Rule 2: all that makes images has as many calls of classifiers as `fedmitr` has, and as many steps of the student.
Rule 3: seconds of a row are those of everything that it needs, classifiers included.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from baselines import Local, logit_ensemble
from comparison import wire
from comparison.asking import Answers
from comparison.budgets import MANY_ROUNDS
from comparison.rows import PROX_MU, Row, goodness, product, single, sizes
from comparison.rows import Rows as GeneratorRows
from comparison.shelf import Record

from mitr import coboosting, deepinversion, dense, fedftg
from mitr.answering import SHRINKS, Answering
from mitr.budgets import GENERATORS, variant
from mitr.calls import boosting_epochs, dense_epochs, distil_calls, tuning_rounds
from mitr.coboosting import CoBoosting
from mitr.deepinversion import DeepInversion
from mitr.dense import Dense
from mitr.exchange import Exchange
from mitr.fedftg import FedFTG


@dataclass(frozen=True)
class Rows:
    """All rows of one draw by name; each is made when it is asked for."""

    exchange: Exchange

    def row(self, name: str) -> Row:
        """One row; raises FednodeError if its draw can't be made."""
        makers: dict[str, Callable[[], Row]] = {
            "pooled": self._pooled,
            "alone": self._alone,
            "fedavg": lambda: self._averaged(1, self._whole),
            "fedavg_rounds": lambda: self._averaged(self.exchange.budget.rounds, self._part),
            "fedprox": lambda: self._averaged(self.exchange.budget.rounds, replace(self._part, mu=PROX_MU)),
            "logit_ensemble": self._logit_ensemble,
            "deepinversion": self._deepinversion,
            "dense": self._dense,
            "coboosting": self._coboosting,
            "fedftg": self._fedftg,
            "fedmitr_experts": self._own_experts,
            "fedmitr_product": self._product,
        }
        if name in GENERATORS:
            return GeneratorRows(self.exchange.making, self.exchange.budget.generators).row(name)
        if name.startswith("lda_"):
            return self._lda(name.removeprefix("lda_"))
        return makers[name]() if name in makers else self._fedmitr(name)

    # --- without images -----------------------------------------------------------------------------------------------

    def _pooled(self) -> Row:
        answers = self._answering.pooled()
        moved = [own.train.nbytes for node in self.exchange.making.draw.nodes for own in node.own.values()]
        return single(answers, wire.centralised(moved), 1, answers.seconds)

    def _alone(self) -> Row:
        answers = self._answering.classifiers()
        return single(answers, {"wire": 0}, 1, self._spent(answers))

    def _logit_ensemble(self) -> Row:
        answers = self._answering.classifiers()
        tables = [logit_ensemble(torch.from_numpy(one)).numpy()[None] for one in (answers.validation, answers.test)]
        return Row(*tables, self._exchanged, len(self.exchange.classifiers), self._spent(answers))

    def _averaged(self, rounds: int, local: Local) -> Row:
        answers = self._answering.averaged(rounds, local)
        model = sizes(self.exchange.classifiers)[0]
        moved = wire.averaged(model, len(self.exchange.classifiers), rounds, MANY_ROUNDS)
        return single(answers, moved, 1, answers.seconds)

    def _lda(self, backbone: str) -> Row:
        """The heads of the shrinkage that validation images prefer."""
        answers = self._answering.lda(backbone)
        row = single(answers, {}, 1, answers.seconds)
        scores = [goodness(one, self.exchange.making.draw.validation) for one in row.validation]
        best = max(range(len(scores)), key=lambda at: scores[at])
        nodes = len(self.exchange.making.draw.nodes)
        moved = wire.exchanged([answers.told["bytes"]] * nodes, nodes)
        if backbone == "node":
            file = self.exchange.classifiers[self._answering.richest]["size"]
            moved = {way: count + wire.exchanged([file], nodes)[way] for way, count in moved.items()}
            row = replace(row, seconds=self._spent(answers))
        chosen = f"shrinkage {SHRINKS[best]:g}"
        return replace(row, validation=row.validation[[best]], test=row.test[[best]], bytes=moved, chosen=chosen)

    # --- students of the classifiers ----------------------------------------------------------------------------------

    def _fedmitr(self, name: str) -> Row:
        recipe = variant(self.exchange.distil, name)
        _, seconds = self.exchange.inverted(recipe.inversion)
        record = self.exchange.expert(recipe)
        answers = self._answering.experts([record])
        nodes, patches = len(self.exchange.classifiers), self.exchange.architecture.grid**2
        calls, tokens = distil_calls(recipe, patches, nodes)
        passes = 2 if recipe.relabel == "subset" and recipe.inversion.mode != "dense" else 1
        told = {"calls": calls, "tokens": tokens, "student_images": recipe.steps * recipe.batch * passes}
        made = nodes * recipe.inversion.images
        row = single(answers, self._exchanged, 1, seconds + self._spent(answers, record))
        return replace(row, told={**told, "images": made, "inversion_seconds": seconds})

    def _own_experts(self) -> Row:
        """The experts of nodes that have images."""
        recipe = self.exchange.distil
        _, seconds = self.exchange.inverted(recipe.inversion)
        records = self.exchange.experts(recipe)
        answers = self._answering.experts(records)
        return single(answers, self._exchanged, 1, seconds + self._spent(answers, *records))

    def _product(self) -> Row:
        """The product of these experts, which go to every other node too."""
        row, records = self._own_experts(), self.exchange.experts(self.exchange.distil)
        answers = self._answering.experts(records)
        moved = wire.exchanged(sizes(self.exchange.classifiers) + sizes(records), len(records))
        found = product(answers.validation), product(answers.test)
        return replace(row, validation=found[0], test=found[1], bytes=moved, calls=len(records))

    def _deepinversion(self) -> Row:
        inversion, task = self.exchange.distil.inversion, self.exchange.making.task
        nodes = len(self.exchange.classifiers)
        settings = DeepInversion(
            images=inversion.images,
            steps=max(1, round(self._calls / (nodes * inversion.images)) - nodes),
            jitter=task.image.size * inversion.jitter_milli // 1000,
            flip=inversion.flip,
            batch=inversion.batch,
        )
        answers = self._answering.distilled(
            "deepinversion",
            settings,
            lambda teachers, student: deepinversion.distil(teachers, student, task.image, settings),
        )
        return self._distilled(answers, nodes * inversion.images)

    def _dense(self) -> Row:
        painting, image = self.exchange.budget.painting, self.exchange.making.task.image
        nodes = len(self.exchange.classifiers)
        settings = Dense(painting, dense_epochs(self._calls, nodes, painting.batch, painting.steps))
        answers = self._answering.distilled(
            "dense", settings, lambda teachers, student: dense.distil(teachers, student, image, settings)
        )
        return self._distilled(answers, settings.epochs * painting.batch)

    def _coboosting(self) -> Row:
        painting, image = self.exchange.budget.painting, self.exchange.making.task.image
        nodes = len(self.exchange.classifiers)
        settings = CoBoosting(painting, boosting_epochs(self._calls, nodes, painting.batch, painting.steps))
        answers = self._answering.distilled(
            "coboosting", settings, lambda teachers, student: coboosting.distil(teachers, student, image, settings)
        )
        return self._distilled(answers, settings.epochs * painting.batch)

    def _fedftg(self) -> Row:
        painting, image = self.exchange.budget.painting, self.exchange.making.task.image
        nodes = len(self.exchange.classifiers)
        settings = FedFTG(painting, tuning_rounds(self._calls, nodes, painting.batch))
        answers = self._answering.distilled(
            "fedftg",
            settings,
            lambda teachers, student: fedftg.distil(teachers, student, image, settings),
            start=self._whole,
        )
        return self._distilled(answers, settings.rounds * painting.batch)

    def _distilled(self, answers: Answers, images: int) -> Row:
        told = {name: answers.told[name] for name in ("calls", "tokens", "student_images")}
        row = single(answers, self._exchanged, 1, self._spent(answers))
        return replace(row, told={**told, "images": images})

    @property
    def _answering(self) -> Answering:
        return Answering(self.exchange.making, self.exchange)

    @property
    def _calls(self) -> int:
        """What everything that makes images may spend."""
        patches = self.exchange.architecture.grid**2
        return distil_calls(self.exchange.distil, patches, len(self.exchange.classifiers))[0]

    @property
    def _whole(self) -> Local:
        """A node's part of one round: the steps, rate and decay of a classifier."""
        recipe = self.exchange.budget.recipes(self.exchange.making.task.image).classifier
        return Local(
            batch=recipe.batch,
            rate=recipe.lr_micro / 1e6,
            dtype=recipe.dtype,
            steps=recipe.steps,
            decay=recipe.weight_decay_micro / 1e6,
        )

    @property
    def _part(self) -> Local:
        """A node's part of one of many rounds."""
        whole = self._whole
        assert whole.steps is not None
        return replace(whole, steps=max(1, whole.steps * self.exchange.budget.round_milli // 1000))

    @property
    def _exchanged(self) -> dict[str, int]:
        """Each classifier goes to every other node."""
        return wire.exchanged(sizes(self.exchange.classifiers), len(self.exchange.classifiers))

    def _spent(self, answers: Answers, *records: Record) -> float:
        return answers.seconds + sum(float(one["seconds"]) for one in [*self.exchange.classifiers, *records])
