"""Examples whose truth comes later."""

import json


def apart(line: bytes) -> tuple[bytes, bytes]:
    """An example without its truth, and the truth."""
    example = json.loads(line)
    label = {"id": example["id"], "truth": example.pop("truth")}
    return json.dumps(example).encode() + b"\n", json.dumps(label).encode() + b"\n"
