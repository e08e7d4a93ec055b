"""Kafka: brokers, sources and sinks."""
