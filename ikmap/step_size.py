"""The error of learners whose steps are too large for their rows."""


class StepTooLarge(ValueError):
    """An error for steps that would increase the errors on some rows; the step size has to be smaller."""
