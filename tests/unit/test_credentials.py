"""Secrets that systemd brings as credentials, named like their variables."""

from __future__ import annotations

from pathlib import Path

from sidecar.environment import load


class TestCredentials:
    def test_a_secret_that_systemd_brings(self, tmp_path: Path) -> None:
        (tmp_path / "SIDECAR_BEARER_TOKEN").write_text("s3cret\n")

        loaded = load({"CREDENTIALS_DIRECTORY": str(tmp_path)})

        token = loaded.settings.bearer_token
        assert token is not None
        assert token.get_secret_value() == "s3cret"
        assert loaded.origins == {"SIDECAR_BEARER_TOKEN": "SIDECAR_BEARER_TOKEN_FILE"}

    def test_a_blank_credential_is_none(self, tmp_path: Path) -> None:
        (tmp_path / "SIDECAR_BEARER_TOKEN").write_text("\n")

        loaded = load({"CREDENTIALS_DIRECTORY": str(tmp_path)})

        assert loaded.settings.bearer_token is None

    def test_only_a_secret_is_a_credential(self, tmp_path: Path) -> None:
        (tmp_path / "SIDECAR_TAG").write_text("elsewhere")

        loaded = load({"CREDENTIALS_DIRECTORY": str(tmp_path)})

        assert loaded.settings.tag is None

    def test_the_operators_own_file_wins_over_a_credential(
        self, tmp_path: Path
    ) -> None:
        (tmp_path / "SIDECAR_BEARER_TOKEN").write_text("credential")
        (tmp_path / "own").write_text("own")

        loaded = load(
            {
                "CREDENTIALS_DIRECTORY": str(tmp_path),
                "SIDECAR_BEARER_TOKEN_FILE": str(tmp_path / "own"),
            }
        )

        token = loaded.settings.bearer_token
        assert token is not None
        assert token.get_secret_value() == "own"
