"""The rules of the reference that a NEFF has to keep."""

from npuviz.formats.neff_model import Finding, Neff


def check_neff(neff: Neff) -> tuple[Finding, ...]:
    """Every rule that this NEFF breaks."""
    return ()
