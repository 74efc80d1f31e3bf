"""What the page looks like in each state that a job can be in, and to each who looks: with a picture of it.

``FLINKBUF_SCREENSHOTS=docs/assets`` keeps the pictures for the documentation.
"""

import re
from pathlib import Path

import pytest
from support.pages.chromium import PROGRAM, chromium
from support.pages.page_pictures import (
    JOB_ID,
    NAMES,
    after_a_loss,
    ended,
    held_back,
    many_tasks,
    picture,
    restarting,
    vertex,
    without_checkpoints,
)
from support.pages.page_server import page_server
from support.pages.screenshots import SIZE_MAX, shoot

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="there is no chromium")
DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def browser():
    with chromium() as made:
        yield made


@pytest.fixture
def open_page(browser):
    """Returns a function from a picture to its page; what the browser complains about fails the test."""
    opened = []

    def open_it(made, answers=None, **options):
        context = page_server(made)
        server = context.__enter__()
        server.answers.update(answers or {})
        page = browser.page(server.url + f"?token=secret#/job/{JOB_ID}", **options)
        opened.append((page, context))
        page.wait_for("document.querySelector('#subtasks')")
        return page

    yield open_it
    for page, context in opened:
        errors = page.errors()
        page.close()
        context.__exit__(None, None, None)
        assert errors == []


# What is drawn with a colour, and what cannot be told from what is behind it: [element, property or ratio] each.
LOOK = """
(() => {
  const parsed = (text) => {
    const numbers = (text.match(/[\\d.e-]+/g) ?? []).map(Number);
    if (text.startsWith("color(")) return [...numbers.slice(0, 3).map((each) => each * 255), numbers[3] ?? 1];
    return text.startsWith("rgb") ? [...numbers.slice(0, 3), numbers[3] ?? 1] : null;
  };
  const spread = ([r, g, b]) => Math.max(r, g, b) - Math.min(r, g, b);
  const isColoured = (rgba) => rgba !== null && rgba[3] > 0.1 && spread(rgba) > 36;
  const over = (front, back) => front.slice(0, 3).map((each, place) => each * front[3] + back[place] * (1 - front[3]));
  const light = (rgb) => {
    const parts = rgb.map((each) => each / 255);
    const [r, g, b] = parts.map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (element) => {
    const layers = [];
    const colour = (each) => parsed(getComputedStyle(each).backgroundColor);
    for (let each = element; each; each = each.parentElement) layers.unshift(colour(each));
    const paper = matchMedia("(prefers-color-scheme: dark)").matches ? [0, 0, 0] : [255, 255, 255];
    return layers.filter((each) => each !== null).reduce((back, front) => over(front, back), paper);
  };
  const name = (element) => `${element.localName}.${element.getAttribute("class") ?? ""}`;
  const coloured = [], faint = [];
  for (const element of document.querySelectorAll("#page *")) {
    const box = element.getBoundingClientRect();
    const style = getComputedStyle(element);
    if (!box.width || !box.height || style.visibility === "hidden" || element.closest(".unseen, .skip")) continue;
    const isShape = element.namespaceURI.endsWith("svg");
    const properties = isShape ? ["fill", "stroke"] : ["color", "backgroundColor", "borderTopColor"];
    for (const each of properties) if (isColoured(parsed(style[each]))) coloured.push([name(element), each]);
    const isWords = (each) => each.nodeType === Node.TEXT_NODE && each.data.trim();
    const hasText = [...element.childNodes].some(isWords);
    if (isShape || !hasText) continue;
    const back = behind(element);
    const [one, other] = [light(over(parsed(style.color), back)), light(back)];
    const ratio = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    if (ratio < 4.5) faint.push([name(element), ratio.toFixed(1), element.textContent.slice(0, 40)]);
  }
  return { coloured, faint };
})()
"""


def coloured(page):
    """Which elements have a colour."""
    return {name for name, _ in page.run(LOOK)["coloured"]}


def level(page, question):
    (found,) = re.findall(r"is-(\w+)", page.run(f"document.querySelector('[data-question=\"{question}\"]').className"))
    return found


def test_what_has_a_colour_or_cannot_be_read_would_be_found(open_page):
    page = open_page(picture())
    page.run("document.querySelector('h1').style = 'color: #c0c0d0'")
    assert [each[0] for each in page.run(LOOK)["faint"]] == ["h1."]
    page.run("document.querySelector('h1').style = 'background: color-mix(in srgb, green, white)'")
    assert coloured(page) == {"h1."}


def test_a_healthy_job_has_no_colours(open_page, tmp_path):
    page = open_page(picture())
    assert coloured(page) == set()
    shoot(page, "page-healthy", tmp_path, height=1_000)


def test_only_who_holds_others_back_has_a_colour(open_page, tmp_path):
    page = open_page(held_back())
    found = page.run("[...document.querySelectorAll('.box.is-bad')].map((each) => each.title)")
    assert found == ["join: CoProcess"] and level(page, 2) == "bad"
    inside = (
        "[...document.querySelectorAll('.box.is-bad, .box.is-bad *, .question-card.is-bad, .question-card.is-bad *')]"
    )
    allowed = set(page.run(f"{inside}.map((each) => `${{each.localName}}.${{each.getAttribute('class') ?? ''}}`)"))
    assert coloured(page) and coloured(page) <= allowed
    shoot(page, "page-held-back", tmp_path, height=1_000)


def test_checkpoints_that_fail_for_long_are_red(open_page, tmp_path):
    page = open_page(without_checkpoints())
    assert level(page, 4) == "bad" and page.text("[data-question='4'] .answer") == "Saved 5 min 32 s ago"
    assert "did not answer in 2 s" in page.text("[data-question='4'] .detail")
    assert [level(page, each) for each in (1, 2, 3, 5)] == ["good"] * 4
    assert page.run("document.querySelectorAll('.column.is-failed').length") == 10
    page.run("document.querySelector('#checkpoints .more').click()")  # the last good one is there
    page.wait_for(
        "[...document.querySelectorAll('#checkpoint-table tbody th')].some((each) => each.innerText === '14')"
    )
    page.run("document.querySelector('#checkpoints .more').click()")
    page.run("document.querySelector('#task').remove(); document.querySelector('#tasks').remove()")  # what is well
    shoot(page, "page-failing-checkpoints", tmp_path, height=800)


def test_a_job_that_begins_again_says_why(open_page, tmp_path):
    page = open_page(restarting())
    assert (level(page, 1), page.text("[data-question='1'] .answer")) == ("bad", "Restarting")
    assert page.text("#failures h3").startswith("ValueError: invalid literal for int()")
    assert page.run("document.querySelectorAll('.box.is-still').length") == len(NAMES)
    failed = page.run("[...document.querySelectorAll('.box.is-bad')].map((each) => each.title)")
    assert failed == ["by aircraft: FollowAircraft -> Map"]
    shoot(page, "page-restarting", tmp_path, height=1_000)


def test_a_job_that_has_failed_says_what_with(open_page, tmp_path):
    page = open_page(ended("FAILED", failure="ValueError: invalid literal for int() with base 10: '12:7x'"))
    assert page.text(".banner").startswith("Failed: ValueError: invalid literal for int() with base 10: '12:7x'")
    assert page.text("[data-question='1'] .answer") == "Failed" and level(page, 1) == "bad"
    assert page.run("document.querySelector('.commands')") is None
    assert page.text("#task-title") == "by aircraft: FollowAircraft -> Map", "the one that has failed"
    shoot(page, "page-failed", tmp_path, height=900)


def test_a_job_that_was_stopped_says_where_its_savepoint_lies(open_page, tmp_path):
    page = open_page(ended("FINISHED", savepoint="file:///savepoints/savepoint-5e5e5e-0f12a97c"))
    assert page.text(".banner").startswith("Stopped with savepoint file:///savepoints/savepoint-5e5e5e-0f12a97c")
    assert page.text("[data-question='1'] .answer") == "Stopped" and level(page, 1) == "good"
    assert coloured(page) == set()
    shoot(page, "page-stopped", tmp_path, height=900)


def test_a_job_of_200_tasks_is_a_list(open_page, tmp_path):
    page = open_page(many_tasks(200, width=64))
    assert page.run("document.querySelectorAll('#vertices tbody tr').length") == 200
    assert page.run("document.documentElement.scrollHeight") < 4_000
    assert page.run("document.documentElement.scrollWidth") <= 1_360
    shoot(page, "page-200-tasks", tmp_path, height=1_000)


def test_a_task_of_64_subtasks_is_a_map(open_page, tmp_path):
    page = open_page(held_back(64))
    assert page.run("document.querySelectorAll('.cell').length") == 64
    assert page.run("document.querySelectorAll('#subtasks tbody tr').length") == 20
    page.run("document.querySelector('#tasks').remove()")
    shoot(page, "page-64-subtasks", tmp_path, height=1_000)


def test_a_phone_shows_all_of_it(open_page, tmp_path):
    page = open_page(held_back(), width=390, height=844)
    assert page.run("document.documentElement.scrollWidth") <= 390
    wide = "[...document.querySelectorAll('h1, h2, h3, .answer, .detail, .facts dd, .banner, button.quiet')]"
    assert page.run(f"{wide}.filter((each) => each.getBoundingClientRect().right > 390).length") == 0
    tall = "[...document.querySelectorAll('#checkpoint-table tbody tr')].map((each) => each.offsetHeight)"
    assert max(page.run(tall)) < 120, "no column is so narrow that a word has a line of its own"
    shoot(page, "page-phone", tmp_path, height=1_500, scale=1.0)


@pytest.mark.parametrize("is_dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize(
    "made",
    [
        picture(),
        held_back(),
        after_a_loss(),
        without_checkpoints(),
        restarting(),
        ended("FAILED", failure="ValueError"),
    ],
)
def test_all_words_can_be_read(open_page, made, is_dark):
    page = open_page(made, is_dark=is_dark)
    page.run("new Promise((resolve) => setTimeout(resolve, 450))")
    assert page.run(LOOK)["faint"] == []


def test_the_dark_page_is_dark(open_page, tmp_path):
    page = open_page(after_a_loss(), is_dark=True)
    paper = page.run("getComputedStyle(document.body).backgroundColor")
    assert all(int(number) < 50 for number in re.findall(r"\d+", paper))
    shoot(page, "page-dark", tmp_path, height=1_000)


FOCUSED = """(() => {
  const it = document.activeElement;
  if (!it || it === document.body) return null;
  const style = getComputedStyle(it);
  const words = it.getAttribute("aria-label") ?? (it.innerText || it.placeholder || it.id || "");
  return [words.trim().slice(0, 40), it.dataset.vertex ?? "", parseFloat(style.outlineWidth), style.outlineStyle];
})()"""


def test_all_of_it_can_be_done_by_keys(open_page, tmp_path):
    page = open_page(held_back(), height=1_000)
    seen = []
    for _ in range(60):
        page.press("Tab", 9)
        found = page.run(FOCUSED)
        if found is None or (seen and found[0] == seen[0][0]):
            break
        seen.append(found)
    assert all(width >= 1 and style != "none" for _, _, width, style in seen), "one sees where one is"
    words = [each[0] for each in seen]
    assert words[:4] == ["Skip to the graph", "Savepoint", "Stop", "Cancel"]
    for wanted in ("Find a task", "Smaller", "Fit", "Larger", "Flame graph", "its log", "14"):
        assert wanted in words, wanted
    assert [each[1] for each in seen if each[1]] == [f"{place:032x}" for place in range(len(NAMES))], "each task"
    page.run("document.querySelector('#do-savepoint').focus()")
    page.press("Enter", 13)
    page.wait_for("document.querySelector('dialog[open]')")
    page.press("Escape", 27)
    page.wait_for("!document.querySelector('dialog')")
    assert page.run("document.activeElement.id") == "do-savepoint", "back where it was"
    page.press("Enter", 13)
    page.wait_for("document.querySelector('dialog[open]')")
    page.run("document.querySelector('dialog .commands button').focus()")  # Leave it
    page.press("Enter", 13)
    page.wait_for("!document.querySelector('dialog')")
    assert page.run("document.activeElement.id") == "do-savepoint"
    page.run("document.querySelector('.box[title^=\"by airport\"]').focus()")
    page.press("Tab", 9)  # so that it is the keyboard's
    shoot(page, "page-keyboard", tmp_path, is_whole=False, height=620)


LOG = "".join(
    f"2025-12-17 19:{20 + line // 6:02}:{line * 10 % 60:02},417 WARNING flights [a year of flights, "
    f"by aircraft: FollowAircraft -> Map (2/2)#0] N{line * 31 % 997:03}UA is {line * 7 % 90} minutes late\n"
    for line in range(80)
)


@pytest.mark.parametrize("is_dark", [False, True], ids=["light", "dark"])
def test_a_log_is_read_in_the_page(open_page, tmp_path, is_dark):
    page = open_page(picture(), answers={"/taskmanagers/worker-1/log": LOG}, is_dark=is_dark, height=620)
    page.run("[...document.querySelectorAll('#manager-table [data-look=log]')][1].click()")
    page.wait_for("document.querySelector('dialog pre')?.innerText.includes('minutes late')")
    assert page.run(LOOK.replace("#page *", "dialog *"))["faint"] == []
    if not is_dark:
        shoot(page, "page-log", tmp_path, is_whole=False)


EVIL = "<script>document.title='owned'</script> \x1b[2J\x07 \u202eelpmis\u202c \u2066x\u2069 \u200fname -> <b>Map</b>"


def test_names_that_attack_are_shown_as_what_they_are(open_page, tmp_path):
    made = ended("FAILED", name=EVIL, failure=f"ValueError: {EVIL}")
    made["vertices"][0] = vertex(0, EVIL, 2)
    made["taskmanagers"][0]["id"] = EVIL
    made["exceptions"]["exceptionHistory"]["entries"][0]["stacktrace"] = f"line one\n\tline two {EVIL}"
    page = open_page(made)
    text = page.text("body")
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]", text)
    assert "\\u202eelpmis\\u202c" in page.text("h1") and "\\u001b[2J" in page.text(".banner")
    assert page.text("#failures pre").startswith("line one\n\tline two <script>")
    assert page.run("document.querySelectorAll('#page script, #page b > script, .box script').length") == 0
    assert page.run("document.title").startswith("<script>document.title='owned'</script> \\u001b[2J")
    shoot(page, "page-names", tmp_path, height=900)


def test_pictures_of_the_documentation_are_small_and_shown():
    kept = {path.name: path.stat().st_size for path in (DOCS / "assets").glob("*page-*") if path.suffix != ".svg"}
    assert kept and max(kept.values()) <= SIZE_MAX
    shown = set(re.findall(r"assets/([\w.-]+)", (DOCS / "guides" / "live-page.md").read_text()))
    assert kept.keys() <= shown
