"""The dashboard in a real browser: wide, narrow, dark, and by the keyboard."""

import os
import re
import shutil
import signal

import pytest
from conftest import REPO, Job, wait

from onlinesrl.commands.dashboard import app
from tests.support import dashboard_worker
from tests.support.waiting import PATIENCE, until

CHROMIUM = shutil.which("chromium")
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed"),
]


@pytest.fixture(scope="module")
def address(warm, tmp_path_factory, citations):
    """The address of a dashboard with two runs."""
    folder = tmp_path_factory.mktemp("browser")
    jobs = [Job(folder / name, citations[:30], checkpoint={"every": 15}) for name in ("one", "two")]
    for job in jobs:
        assert job.run() == 0, job.said
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(REPO))
        patch.setattr(app, "WORKER", dashboard_worker.NAME)
        server = jobs[0].fork("dashboard", *(str(job.output) for job in jobs), "--port", "0")
        found = until(lambda: re.search(r"(http://\S+);", jobs[0].said))
        assert found
        yield found[1]
        os.kill(server, signal.SIGTERM)
        assert wait(server) == 0


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright drives the browser")
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox"], timeout=1000 * PATIENCE
        )
        yield opened
        opened.close()


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_the_page(address, browser, width, scheme, tmp_path):
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page.set_default_timeout(1000 * PATIENCE)
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(address)
    page.wait_for_selector("#examples-1 .example")
    page.wait_for_selector("#examples-0 .example")
    assert page.inner_text("#link") == "live"
    assert page.locator("canvas:visible").count() == 4
    assert "30" in page.inner_text("#runs-1")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 24, 30)"
    assert dark == (scheme == "dark")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Runs"
    page.locator("#examples-0 button").first.focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("#examples-0 pre")
    assert "of example" in page.inner_text("#examples-0 pre")
    assert page.evaluate("document.activeElement.tagName") == "BUTTON"
    example = page.locator("#examples-0 .example:visible").last
    atom = example.locator("button.atom:not(.wrong, .missed)").last
    title = (atom.get_attribute("title") or "").replace('"', "")
    example.locator("button", has_text="Why?").click()
    atom.click()  # what was asked first no longer matters
    example.locator("pre", has_text=title.removesuffix(")")).wait_for()
    page.wait_for_function("document.querySelectorAll('button:disabled').length === 0")
    assert example.locator("pre").inner_text().startswith(title.removesuffix(")"))
    assert all(url.startswith((address, "data:")) for url in asked)
    assert said == []
    page.close()
