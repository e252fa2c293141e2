"""The distributions of torch that check or bound what they are given: which of their parameters
must be greater than zero, and which are probabilities, kept by `eps` of their dtype from zero and
one. They compute and draw in the dtype of their parameters.
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
    probabilities: str = ""
    """Those that are bounded by `torch.finfo(dtype).eps`: 0.001 in half precision."""

    algebra: str = ""
    """Those that go through operators without a kernel for half precision."""

    @property
    def adds(self) -> bool:
        """Whether `rsample` adds a multiple of its scale to its place, so that float32 in either
        is float32 in what it gives.
        """
        return self.name in _PLACED

    def place(self, name: str) -> int:
        """Where a parameter stands in a call."""
        return self.parameters.split().index(name)


_PLACED = ("Normal", "Laplace", "Cauchy")
_MATRICES = "covariance_matrix precision_matrix scale_tril"
_LOW_RANK = "loc cov_factor cov_diag"

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
    Distribution("LowRankMultivariateNormal", _LOW_RANK, "cov_diag", "", _LOW_RANK),
    Distribution("MultivariateNormal", f"loc {_MATRICES}", "", "", f"loc {_MATRICES}"),
    Distribution("Normal", "loc scale", "scale"),
    Distribution("Pareto", "scale alpha", "scale alpha"),
    Distribution("StudentT", "df loc scale", "df scale"),
    Distribution("VonMises", "loc concentration", "concentration"),
    Distribution("Wishart", f"df {_MATRICES}", "", "", _MATRICES),
    Distribution("Weibull", "scale concentration", "scale concentration"),
    Distribution("Bernoulli", "probs", "", "probs"),
    Distribution("Binomial", "total_count probs", "", "probs"),
    Distribution("Categorical", "probs", "", "probs"),
    Distribution("ContinuousBernoulli", "probs", "", "probs"),
    Distribution("Geometric", "probs", "", "probs"),
    Distribution("Multinomial", "total_count probs", "", "probs"),
    Distribution("NegativeBinomial", "total_count probs", "", "probs"),
    Distribution("OneHotCategorical", "probs", "", "probs"),
    Distribution("OneHotCategoricalStraightThrough", "probs", "", "probs"),
    Distribution("RelaxedBernoulli", "temperature probs", "", "probs"),
    Distribution("RelaxedOneHotCategorical", "temperature probs", "", "probs"),
)  # fmt: skip

FUNCTIONS: tuple[Distribution, ...] = (
    Distribution("clamp_probs", "probs", "", "probs"),
    Distribution("probs_to_logits", "probs is_binary", "", "probs"),
)
"""What the distributions bound probabilities with, in `torch.distributions.utils`."""

_BY_NAME = {row.name: row for row in (*DISTRIBUTIONS, *FUNCTIONS)}


def distribution(canonical: str | None) -> Distribution | None:
    """The row of a class or a function, by its full name: `torch.distributions.normal.Normal`,
    too.
    """
    head, _, last = (canonical or "").rpartition(".")
    known = head.startswith("torch.distributions")
    return _BY_NAME.get(last) if known else None
