"""A learner on cells that cannot go on as a map gets more of them."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from ikmap.methods import LearnerAbout
from ikmap.methods.ogd import OGD


class Fixed(OGD):
    about: ClassVar[LearnerAbout] = replace(OGD.about, name="fixed")
    grows: ClassVar[bool] = False
