"""Wrong identity settings are refused at start, with the name of the variable."""

from __future__ import annotations

from typing import Any

import pytest

from wms2_project import checks


@pytest.mark.parametrize(
    ("name", "value", "variable"),
    [
        ("OIDC_ISSUERS", ["https://issuer.example.org"], "WMS2_OIDC_AUDIENCES"),
        ("OIDC_ALGORITHMS", ["RS256", "HS256"], "WMS2_OIDC_ALGORITHMS"),
        ("OIDC_ALGORITHMS", ["none"], "WMS2_OIDC_ALGORITHMS"),
        ("OIDC_ROLES", ["operator"], "WMS2_OIDC_ROLES"),
        ("OIDC_ROLES", ["group:/cms/ops=emperor"], "WMS2_OIDC_ROLES"),
        ("OIDC_ROLES", ["group:/cms/x=site_admin:nowhere"], "WMS2_OIDC_ROLES"),
        ("TRUSTED_PROXIES", ["10.0.0.0/64"], "WMS2_TRUSTED_PROXIES"),
        ("THROTTLE_RATES", {"user": "many"}, "WMS2_THROTTLE_USER"),
        ("TRACES", "jaeger", "WMS2_TRACES"),
    ],
)
def test_a_slip_is_named(settings: Any, name: str, value: Any, variable: str) -> None:
    setattr(settings, name, value)
    found = checks.check_identity(None)
    assert [variable in str(error.hint) for error in found] == [True]


@pytest.mark.parametrize(("jobs", "slips"), [(0, 1), (1, 0), (1_000_000, 0), (1_000_001, 1)])
def test_a_round_is_no_larger_than_its_nodes_can_be_numbered(settings: Any, jobs: int, slips: int) -> None:
    settings.MAX_JOBS_PER_ROUND = jobs
    assert len(checks.check_round_size(None)) == slips


def test_an_issuer_without_tls_is_for_the_lab_only(settings: Any) -> None:
    settings.OIDC_ISSUERS, settings.OIDC_AUDIENCES = ["http://127.0.0.1:1"], ["x"]
    assert checks.check_identity(None) == []
    settings.LAB = False
    assert "https" in checks.check_identity(None)[0].msg


def test_correct_settings_pass_the_check(settings: Any) -> None:
    settings.OIDC_ISSUERS, settings.OIDC_AUDIENCES = ["https://issuer.example.org/"], ["https://wms2"]
    settings.OIDC_ROLES = ["group:/cms/ops=operator", "scope:wms2:x=y=site_admin:T2_CH_CERN"]
    settings.TRUSTED_PROXIES = ["10.0.0.1", "2001:db8::/32"]
    assert checks.check_identity(None) == []
