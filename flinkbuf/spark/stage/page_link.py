"""The way from Spark's own pages to that of a job: the description of the job's stage is a link to it.

In descriptions Spark takes links to its own server only. So that server gets an address for the job, which sends the
browser on; Spark shows it to whom it shows its other pages, and the token in the page's link comes into no event log.
Where Spark's pages let nobody kill a job (`spark.ui.killEnabled`), the way there brings no token either.
"""

from __future__ import annotations

import threading
from html import escape
from typing import TYPE_CHECKING, Final

from flinkbuf.log import logger

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject, JVMView
    from pyspark import SparkContext

KEPT: Final = 100  # addresses of one server; the oldest go
_REDIRECT: Final = "createRedirectHandler"

_links: dict[
    tuple[JavaObject, str], tuple[str, JavaObject]
] = {}  # of Spark's page and an address: the job's page, what leads there
_lock = threading.Lock()


def described(context: SparkContext, text: str, job_id: str, page: str | None) -> str:
    """Return what Spark is to show of a job: a link to its page, if it has one.

    Parameters
    ----------
    context : SparkContext
    text : str
    job_id : str
    page : str or None
        Where the job's own page is, with the token.
    """
    if page is None:
        return text
    address, origin = f"/flinkbuf/{job_id}", page.partition("/?")[0]
    if context.getConf().get("spark.ui.killEnabled", "true") != "true":  # who sees Spark's page may only look
        page = f"{origin}/#{page.partition('#')[2]}"
    try:
        is_linked = _send_on(context, address, page)
    except Exception as error:  # of the JVM, or a Spark that has this otherwise
        logger.info("Spark's page cannot lead to that of job %s: %s", job_id, error)
        is_linked = False
    return f'<a href="{address}">{escape(text)}</a>' if is_linked else f"{text} ({origin})"


def _send_on(context: SparkContext, address: str, page: str) -> bool:
    """Have Spark's server answer at an address with a redirection; False: it shows no pages."""
    server = context._jsc.sc().ui()
    if not server.isDefined():
        return False
    pages, key = server.get(), (context.uiWebUrl, address)
    with _lock:
        if key in _links and _links[key][0] == page:
            return True
        old = key if key in _links else next(iter(_links)) if len(_links) >= KEPT else None
        if old is not None:
            _, handler = _links.pop(old)
            if old[0] == key[0]:
                pages.detachHandler(handler)
        handler = _redirection(context, address, page)
        pages.attachHandler(handler)
        _links[key] = page, handler
    return True


def _redirection(context: SparkContext, address: str, page: str) -> JavaObject:
    """What answers; how many arguments with defaults it takes differs between versions of Spark."""
    jvm: JVMView = context._jvm
    utils = jvm.org.apache.spark.ui.JettyUtils
    methods = jvm.java.lang.Class.forName("org.apache.spark.ui.JettyUtils").getMethods()
    (count,) = {len(each.getParameterTypes()) for each in methods if each.getName() == _REDIRECT}
    defaults = [getattr(utils, f"{_REDIRECT}$default${number}")() for number in range(3, count + 1)]
    return getattr(utils, _REDIRECT)(address, page, *defaults)
