"""onlinesrl schema: print the JSON schema of an example."""

from __future__ import annotations

import json


def schema() -> None:
    """Print the JSON schema of an example."""
    from onlinesrl.core.example import json_schema

    print(json.dumps(json_schema(), indent=2))
