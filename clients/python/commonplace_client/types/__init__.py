"""Types of arguments and answers. Keys and their meaning are those of the REST API's OpenAPI document."""

from __future__ import annotations

from commonplace_client.types import answers, arguments
from commonplace_client.types.answers import *  # noqa: F403 - the names of its __all__
from commonplace_client.types.arguments import *  # noqa: F403 - the same

__all__: list[str] = []
__all__ += answers.__all__
__all__ += arguments.__all__
