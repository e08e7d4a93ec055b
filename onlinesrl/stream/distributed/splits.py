"""How a source of each kind is cut into shards, and what reads a shard's pieces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onlinesrl.stream.distributed.file_splits import Cut, FilePieces, Pieces, Shards
from onlinesrl.stream.distributed.parquet_splits import TablePieces, TableShards
from onlinesrl.stream.kafka.config import KafkaSection
from onlinesrl.stream.source import SourceSection
from onlinesrl.stream.sources.files import FileSection
from onlinesrl.stream.sources.parquet import ParquetSection


def cut(source: SourceSection, shards: int) -> Cut:
    """Return a configured source, one that can be cut (``uncut`` is None), as so many shards."""
    match source:
        case FileSection():
            return Shards(source.path, source.max_bytes, shards)
        case ParquetSection():
            return TableShards(source.path, source.by, source.max_bytes, shards)
        case KafkaSection():
            from onlinesrl.stream.distributed.kafka_splits import History

            return History(source.ending, source.topic[0], shards)
    raise NotImplementedError(source.kind)


def pieces_of(source: SourceSection, pieces: Sequence[Any]) -> Pieces:
    """Return the records of a shard's pieces, where they are learned from."""
    match source:
        case FileSection():
            return FilePieces(pieces, source.max_bytes)
        case ParquetSection():
            return TablePieces(source.path, source.by, pieces, source.max_bytes)
        case KafkaSection():
            from onlinesrl.stream.distributed.kafka_splits import Spans

            return Spans(source.ending, pieces, source.max_bytes)
    raise NotImplementedError(source.kind)
