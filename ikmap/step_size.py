"""What learners say of steps that the rows they come to are too large for."""


class StepTooLarge(ValueError):
    """Steps would make errors on some rows larger instead of smaller: the step size has to be smaller."""
