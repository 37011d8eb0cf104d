"""Stacking: models are added up, with weights that rows decide from which the models have not learned."""
