"""The sinks' settings: a model each, nested in ``Settings``."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, SecretStr, model_validator

from sidecar.fieldtypes import HttpUrl, Seconds, Token


class PushgatewaySettings(BaseModel):
    """The Pushgateway sink."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    url: HttpUrl | None = Field(
        None,
        description="Where the Pushgateway is. Setting it switches the sink on.",
        examples=["http://pushgateway:9091"],
    )
    job: str = Field(
        "capacity-sidecar",
        min_length=1,
        description="The `job` of the group that is pushed.",
    )
    interval: Seconds = Field(
        15.0, description="How often to push. Each push replaces the worker's group."
    )
    timeout: Seconds = Field(2.0, description="How long one push or delete may take.")
    username: str | None = Field(
        None, description="User name for basic authentication."
    )
    password: SecretStr | None = Field(
        None, description="Password for basic authentication."
    )
    bearer_token: Token = Field(
        None, description="Token to send instead of a user name and password."
    )

    @property
    def is_set(self) -> bool:
        """Whether the sink is on where no sinks are named."""
        return self.url is not None

    @model_validator(mode="after")
    def _one_authentication(self) -> PushgatewaySettings:
        if self.bearer_token and self.username:
            msg = "takes a bearer token or a user name, not both"
            raise ValueError(msg)
        if bool(self.username) != bool(self.password):
            msg = "needs both a user name and a password, or neither"
            raise ValueError(msg)
        return self
