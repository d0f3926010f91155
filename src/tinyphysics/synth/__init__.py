"""Methods as expressions: from facts and coefficients to the step of a run."""
