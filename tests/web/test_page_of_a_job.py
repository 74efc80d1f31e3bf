"""The page of a real job, in a real browser: what it shows is what the job says, through all that befalls the job.

``FLINKBUF_SCREENSHOTS=docs/assets`` keeps what it looks like for the documentation.
"""

import os
import re
import signal
from pathlib import Path

import pytest
from support.pages import flights_job
from support.pages.chromium import PROGRAM, chromium
from support.pages.screenshots import shoot as shoot_once

from flinkbuf.targets.launcher_process import end_launcher
from flinkbuf.web.serving import close_servers

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="there is no chromium")


def shoot(page, name, directory, *, is_whole=True, height=1_500, scale=0.65):
    """Take it light and dark."""
    for colours in ("light", "dark"):
        page.set_dark(colours == "dark")
        shoot_once(page, f"live-page-{name}-{colours}", directory, height=height, is_whole=is_whole, scale=scale)
    page.set_dark(False)


def answer(page, question):
    return page.text(f"[data-question='{question}'] .answer")


def said(question, pattern):
    selector = f"[data-question='{question}'] .answer"
    return f"/{pattern}/.test(document.querySelector(\"{selector}\")?.innerText ?? '')"


def number_in(text):
    return int(re.sub(r"\D", "", text))


def test_a_job_is_seen_well_held_back_hurt_stopped_and_gone(tmp_path, capfd, caplog):
    client = flights_job.begin(tmp_path)
    link = re.search(r"can be looked at: (\S+)", capfd.readouterr().err)[1]
    try:
        with chromium() as browser:
            page = browser.page(link, width=1360, height=980)
            sees_it_well(page, tmp_path, client)
            sees_the_brake(page, tmp_path)
            sees_a_loss(page, tmp_path, client)
            details, path = stops_it(page, tmp_path, client)
            assert page.errors() == []
            close_servers()  # what was known stays
            shows_its_figures(page, details)
            assert page.text(".banner").startswith(f"Stopped with savepoint {path}")
            assert f"was stopped with savepoint {path}" in caplog.text
    finally:
        client.cancel()
        close_servers()
        end_launcher()


def sees_it_well(page, directory, client):
    page.wait_for(said(1, "^Running for"), 40)
    page.wait_for(said(4, "^Saved"))
    page.wait_for(said(2, "^Nowhere"))
    page.wait_for("[...document.querySelectorAll('.box-rates')].every((each) => /[1-9]/.test(each.innerText))")
    assert answer(page, 3).startswith(("2012-12-31", "2013-"))  # the year's first flights, or later ones
    assert answer(page, 5) == "Nobody"
    names = page.run("[...document.querySelectorAll('.box')].map((each) => each.title)")
    assert any("follow aircraft" in name for name in names) and any("write results" in name for name in names)
    assert names == [vertex["name"] for vertex in client.details()["vertices"]]
    # The token has left the address bar, and the chosen task's subtasks are there.
    assert page.run("location.search") == ""
    assert page.run("document.querySelectorAll('#subtasks tbody tr').length") == 2
    assert page.run("document.querySelectorAll('#manager-table tbody tr').length") >= 2
    shoot(page, "healthy", directory)


def sees_the_brake(page, directory):
    (directory / "brake").touch()
    page.wait_for(said(2, "write results"))
    page.wait_for("document.querySelector('[data-question=\"2\"]').matches('.is-bad')")
    page.run("document.querySelector('[data-question=\"2\"] .answer button').click()")
    page.wait_for("document.querySelector('#task-title').innerText.includes('write results')")
    page.wait_for("document.querySelectorAll('#subtasks tbody tr').length === 2")
    shoot(page, "held-back", directory)
    page.run("document.querySelector('#task .card-head button').click()")
    page.wait_for("document.querySelector('.flames')?.innerText.includes('Brake.step_on_it')")
    shoot(page, "flame-graph", directory, is_whole=False)
    page.press("Escape", 27)
    page.wait_for("document.querySelector('dialog') === null")
    (directory / "brake").unlink()


def sees_a_loss(page, directory, client):
    victim = page.run("document.querySelector('#manager-table tbody th small').innerText")
    restarts = page.run("document.querySelector('[data-question=\"1\"] .detail').innerText")
    assert "no restart" in restarts
    pid = int(re.search(r"process (\d+)", victim)[1])
    if pid == os.getpid():  # the program's own comes first
        rows = page.run("[...document.querySelectorAll('#manager-table tbody th small')].map((each) => each.innerText)")
        pid = next(int(re.search(r"process (\d+)", row)[1]) for row in rows if f"process {os.getpid()}" not in row)
    os.kill(pid, signal.SIGKILL)
    page.wait_for(said(5, "was lost"))
    page.wait_for(
        said(1, "^Running for") + " && /1 restart/.test(document.querySelector('[data-question=\"1\"]').innerText)"
    )
    assert "What it took down" in page.text("#failures")
    assert "began again" in page.text("#failures")
    page.wait_for("document.querySelectorAll('#manager-table tr.is-lost').length >= 1")
    page.wait_for("[...document.querySelectorAll('.box-worst')].every((each) => /busy|held/.test(each.innerText))")
    shoot(page, "killed-worker", directory, height=None, scale=0.55)


def stops_it(page, directory, client):
    page.click("#do-stop")
    page.wait_for("document.querySelector('dialog[open] input')")
    page.run(f"document.querySelector('dialog input').value = {str(directory / 'savepoints')!r}")
    page.run("document.querySelector('dialog button[type=submit]').click()")
    page.wait_for("document.querySelector('dialog h2')?.innerText === 'Done'", 40)
    said = page.text("dialog code")
    path = said.removeprefix("file://")
    assert Path(path).is_dir() and Path(path).parent == directory / "savepoints"
    page.press("Escape", 27)
    page.wait_for("document.querySelector('.banner')?.innerText.includes('Stopped with savepoint')")
    page.wait_for("document.querySelector('footer.is-whole')")
    assert page.run("document.querySelector('#do-stop')") is None
    client.get_job_execution_result().result()
    return client.details(), said


def shows_its_figures(page, details):
    """The last picture does not change any more: all figures can be compared with the job's own."""
    for vertex in details["vertices"]:
        page.run(f"document.querySelector('[data-vertex=\"{vertex['id']}\"]').click()")
        page.wait_for(f"document.querySelector('#task-title').innerText === {vertex['name']!r}")
        page.wait_for("document.querySelectorAll('#subtasks tbody tr').length === 2")
        facts = page.run("[...document.querySelectorAll('.facts dd')].map((each) => each.firstChild.data)")
        metrics = vertex["metrics"]
        assert number_in(facts[1]) == metrics["read-records"]
        assert number_in(facts[2]) == metrics["write-records"]
        rows = page.run(
            "[...document.querySelectorAll('#subtasks tbody tr')]"
            ".map((row) => [...row.cells].map((cell) => cell.innerText))"
        )
        assert [row[1].split()[0] for row in rows] == ["finished", "finished"]
        assert sum(number_in(row[5]) for row in rows) == metrics["write-records"]
    counts = details["checkpoints"]["counts"]
    assert f"{counts['completed']} completed" in page.text("#checkpoints .aside")
    newest = details["checkpoints"]["history"][0]
    assert page.text("#checkpoint-table tbody th") == f"savepoint {newest['id']}"
