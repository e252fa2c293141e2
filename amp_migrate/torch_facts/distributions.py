"""The distributions of torch that check what they are given: which of their parameters must be
greater than zero. They compute and draw in the dtype of their parameters.
"""

from __future__ import annotations

from amp_migrate.records import NamedTuple


class Distribution(NamedTuple):
    """One class of `torch.distributions`."""

    name: str
    parameters: str
    """Their names, in order."""
    positive: str
    """Those that must be greater than zero."""

    def place(self, name: str) -> int:
        """Where a parameter stands in a call."""
        return self.parameters.split().index(name)


DISTRIBUTIONS: tuple[Distribution, ...] = (
    Distribution("Beta", "concentration1 concentration0", "concentration1 concentration0"),
    Distribution("Cauchy", "loc scale", "scale"),
    Distribution("Chi2", "df", "df"),
    Distribution("Dirichlet", "concentration", "concentration"),
    Distribution("Exponential", "rate", "rate"),
    Distribution("FisherSnedecor", "df1 df2", "df1 df2"),
    Distribution("Gamma", "concentration rate", "concentration rate"),
    Distribution("Gumbel", "loc scale", "scale"),
    Distribution("HalfCauchy", "scale", "scale"),
    Distribution("HalfNormal", "scale", "scale"),
    Distribution("InverseGamma", "concentration rate", "concentration rate"),
    Distribution("Kumaraswamy", "concentration1 concentration0", "concentration1 concentration0"),
    Distribution("LKJCholesky", "dim concentration", "concentration"),
    Distribution("Laplace", "loc scale", "scale"),
    Distribution("LogNormal", "loc scale", "scale"),
    Distribution("LogisticNormal", "loc scale", "scale"),
    Distribution("LowRankMultivariateNormal", "loc cov_factor cov_diag", "cov_diag"),
    Distribution("Normal", "loc scale", "scale"),
    Distribution("Pareto", "scale alpha", "scale alpha"),
    Distribution("StudentT", "df loc scale", "df scale"),
    Distribution("VonMises", "loc concentration", "concentration"),
    Distribution("Weibull", "scale concentration", "scale concentration"),
)  # fmt: skip

_BY_NAME = {row.name: row for row in DISTRIBUTIONS}


def distribution(canonical: str | None) -> Distribution | None:
    """The row of a class, by its full name: `torch.distributions.normal.Normal`, too."""
    head, _, last = (canonical or "").rpartition(".")
    known = head.startswith("torch.distributions")
    return _BY_NAME.get(last) if known else None
