"""Elasticsearch, in PyFlink by Java classes. PyFlink: pyflink.datastream.connectors.elasticsearch."""

from flinkbuf.datastream.connectors.java_only import java_only

_INSTEAD = "a Sink of your own, or AsyncDataStream with its client"

Elasticsearch6SinkBuilder = java_only("Elasticsearch6SinkBuilder", _INSTEAD)
Elasticsearch7SinkBuilder = java_only("Elasticsearch7SinkBuilder", _INSTEAD)
ElasticsearchEmitter = java_only("ElasticsearchEmitter", _INSTEAD)
ElasticsearchSink = java_only("ElasticsearchSink", _INSTEAD)
FlushBackoffType = java_only("FlushBackoffType", _INSTEAD)
