"""Dead letters: the bad examples of a run, with their bytes, place and reason, to be replayed."""

import base64
import json

from onlinesrl.stream.files import Record
from onlinesrl.stream.folder import OutputFile


class DeadLetters(OutputFile):
    """The file of bad examples, one JSON object a line.

    Keys: `file`, `line`, `id` (null when the example has none that can be read), `reason`, and the
    bytes of the example: as `text` where they are valid UTF-8, else as `base64`.
    """

    def append(self, record: Record, reason: str, example_id: str | None = None) -> None:
        """Add one bad example; it is in the file at once, so a failing write stops the stream.

        Raises StorageError.
        """
        letter = {"file": record.file, "line": record.line, "id": example_id, "reason": reason}
        try:
            letter["text"] = record.value.decode()
        except UnicodeDecodeError:
            letter["base64"] = base64.b64encode(record.value).decode()
        line = json.dumps(letter, ensure_ascii=False) + "\n"
        self.write(line.encode(errors="backslashreplace"))  # a lone surrogate: its JSON escape
        self.flush(fsync=False)
