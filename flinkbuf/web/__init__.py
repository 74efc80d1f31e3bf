"""Running jobs over HTTP: Flink's REST API, the page, Prometheus; needs aiohttp, extra ``web``."""
