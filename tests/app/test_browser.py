"""The app in a headless browser, as a user works with it."""

from __future__ import annotations

import base64
from pathlib import Path

import numpy as np
import pytest

from pdflow import PointCloud, read, write

pytestmark = pytest.mark.browser

EXAMPLE = Path(__file__).parents[2] / "examples" / "gear_noisy.ply"
FRAME = "document.getElementById('viewer').contentDocument"
READY = f"{FRAME}?.documentElement?.dataset.ready === 'yes'"
IDLE = "document.documentElement.dataset.busy === 'no'"

# A file as a user drops it on the page.
DROP = """
(() => {
  const data = new DataTransfer();
  const bytes = Uint8Array.from(atob("%s"), (letter) => letter.charCodeAt(0));
  data.items.add(new File([bytes], "%s"));
  document.dispatchEvent(new DragEvent("drop", { dataTransfer: data, cancelable: true }));
})()
"""


def text(browser, element):
    return browser.evaluate(f"document.getElementById('{element}').innerText")


def click(browser, element):
    browser.evaluate(f"document.getElementById('{element}').click()")


def drop(browser, name, content):
    browser.evaluate(DROP % (base64.b64encode(content).decode(), name))


def inside(browser, code):
    """Evaluate in the viewer."""
    return browser.evaluate(f"((document) => {code})({FRAME})")


def colors_seen(browser):
    """How many different colours the picture of the whole page has."""
    from io import BytesIO

    from PIL import Image

    data = base64.b64decode(browser.call("Page.captureScreenshot")["data"])
    pixels = np.asarray(Image.open(BytesIO(data)).convert("RGB"))
    return len(np.unique(pixels.reshape(-1, 3), axis=0))


@pytest.fixture
def page(browser, app):
    browser.open(app.url)
    yield browser
    key = browser.evaluate("location.hash.slice(1)")
    if key:
        app.keys.append(key)
    assert browser.complaints == []


def test_the_example_is_opened_denoised_compared_and_downloaded(page, app, pdflow, quick, tmp_path):
    empty = colors_seen(page)
    click(page, "example")
    page.wait("!document.getElementById('facts').hidden")
    page.wait(READY)
    assert "10,000" in text(page, "facts")
    assert "0.02" in text(page, "facts")  # the noise estimate
    assert colors_seen(page) > 10 * empty
    page.evaluate("document.getElementById('iterations').value = '1'")
    click(page, "denoise")
    page.wait("!document.getElementById('result').hidden")
    page.wait(READY)
    assert "gear_noisy_denoised.ply" in text(page, "download")

    # compare: swipe, flip, displacement, section
    swipe = "document.getElementById('swipe')"
    assert inside(page, f"{swipe}.hidden") is False
    inside(page, f"{swipe}.dispatchEvent(new KeyboardEvent('keydown', {{key: 'Home'}}))")
    assert inside(page, f"{swipe}.getAttribute('aria-valuenow')") == "0"
    inside(page, "document.dispatchEvent(new KeyboardEvent('keydown', {key: 'f'}))")
    assert inside(page, f"{swipe}.hidden") is True
    for name, value in (("color", "displacement"), ("section", "z")):
        inside(
            page,
            f"(document.getElementById('{name}').value = '{value}',"
            "document.getElementById('controls').dispatchEvent(new Event('input')))",
        )
    assert "displacement" in inside(page, "document.querySelector('#legend figcaption').innerText")
    assert inside(page, "document.getElementById('slab-z').hidden") is False

    # download: every row and attribute of the file, and a page that needs nothing
    href = page.evaluate("document.getElementById('download').getAttribute('href')")
    (tmp_path / "clean.ply").write_bytes(app.request("GET", href)[1])
    noisy, clean = read(EXAMPLE), read(tmp_path / "clean.ply")
    assert noisy.attributes.keys() == clean.attributes.keys() == {"colors", "intensity"}
    for name, values in noisy.attributes.items():
        np.testing.assert_array_equal(clean.attributes[name], values)
    moved = np.linalg.norm(clean.points - noisy.points, axis=1)
    assert 0.01 < moved.mean() < 0.03
    href = page.evaluate("document.getElementById('download-page').getAttribute('href')")
    (tmp_path / "page.html").write_bytes(app.request("GET", href)[1])
    address = page.evaluate("location.href")
    page.call("Network.emulateNetworkConditions", offline=True, latency=0,
              downloadThroughput=-1, uploadThroughput=-1)  # fmt: skip
    try:
        saved = (tmp_path / "page.html").as_uri()
        page.open(saved)
        assert page.evaluate("document.getElementById('swipe').hidden") is False
        assert set(page.requests) <= {saved, "about:blank"}
    finally:
        page.call("Network.emulateNetworkConditions", offline=False, latency=0,
                  downloadThroughput=-1, uploadThroughput=-1)  # fmt: skip
    page.open(address)  # a page that was left finds its cloud again
    page.wait("!document.getElementById('result').hidden")
    page.wait(READY)


def test_a_broken_file_is_one_sentence_and_the_next_one_opens(page, scan):
    drop(page, "broken.ply", b"ply\nformat ascii 1.0\nelement vertex 3\nend_header\n")
    page.wait("document.getElementById('error').innerText !== ''")
    assert text(page, "error").startswith("broken.ply")
    assert page.evaluate("document.getElementById('viewer').hidden")
    drop(page, "scan.las", scan.read_bytes())
    page.wait(READY)
    assert text(page, "error") == ""
    assert text(page, "cloud-name") == "scan.las"


def test_a_file_too_large_or_of_no_format_is_one_sentence(page):
    drop(page, "large.ply", b"x" * 1_500_000)
    page.wait("document.getElementById('error').innerText !== ''")
    assert "2 MB and the limit is 1 MB" in text(page, "error")
    drop(page, "<b>notes</b>.doc", b"x")
    page.wait("document.getElementById('error').innerText.includes('.doc')")
    page.wait(IDLE)
    assert page.evaluate("document.querySelector('#error b')") is None
    page.complaints.clear()  # the browser's console names refused requests


def test_a_job_is_cancelled_from_the_page(page, tmp_path):
    many = np.random.default_rng(0).random((30_000, 3)) * [1, 1, 0.05]
    write(tmp_path / "many.npy", PointCloud(many.astype(np.float32)))
    drop(page, "many.npy", (tmp_path / "many.npy").read_bytes())
    page.wait(READY)
    page.evaluate("document.getElementById('iterations').value = '4'")
    click(page, "denoise")
    page.wait("!/^(waiting|reading|)$/.test(document.getElementById('step').innerText)")
    assert page.evaluate("document.getElementById('denoise').matches(':disabled')")
    click(page, "cancel")
    page.wait(IDLE)
    assert text(page, "error") == "Cancelled."
    assert page.evaluate("document.getElementById('result').hidden")


def test_a_wrong_token_opens_nothing(browser, app):
    browser.call("Page.navigate", url=f"http://{app.host}/{'x' * 32}/")
    browser.wait("document.body?.innerText === 'Not found.'")


def test_another_site_can_neither_send_nor_frame(browser, app, tmp_path):
    (tmp_path / "evil.html").write_text(
        f"<!doctype html><html data-ready=yes><iframe src='{app.url}'></iframe>"
    )
    browser.open((tmp_path / "evil.html").as_uri())
    for mode in ("cors", "no-cors"):
        send = f"fetch('{app.url}example', {{method: 'POST', mode: '{mode}'}})"
        assert browser.evaluate(f"{send}.then(() => 'sent', () => 'blocked')") == "blocked"
    assert app.files() == []
    assert any("frame" in words for words in browser.complaints)


def test_every_control_has_a_name_and_can_be_focused(page):
    assert page.unnamed_controls() == []


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_texts_have_enough_contrast(page, theme):
    pairs = [("--ink", "--sheet"), ("--quiet", "--sheet"), ("--quiet", "--ground")]
    assert page.contrast(theme, *pairs, ("--on-accent", "--accent")) >= 4.5
    assert page.contrast(theme, ("--alarm", "--sheet"), ("--accent", "--sheet")) >= 3


def test_everything_is_reached_by_keyboard(page):
    """Tab goes through the controls in their order, and Enter opens the example."""
    seen = []
    for _ in range(4):
        page.press("Tab", windowsVirtualKeyCode=9)
        seen.append(page.evaluate("document.activeElement.id"))
    assert seen[:3] == ["choose", "example", "drop-nonfinite"]
    page.evaluate("document.getElementById('example').focus()")
    page.press("Enter", windowsVirtualKeyCode=13, text="\r")
    page.wait("!document.getElementById('facts').hidden")
    page.wait(READY)
    page.evaluate("document.getElementById('drop-nonfinite').focus()")
    order = []
    for _ in range(5):
        page.press("Tab", windowsVirtualKeyCode=9)
        order.append(page.evaluate("document.activeElement.id"))
    assert order == ["mode", "iterations", "outliers", "noise", "denoise"]


def test_a_phone_sees_panel_and_viewer(page):
    page.call(
        "Emulation.setDeviceMetricsOverride",
        width=390, height=800, deviceScaleFactor=2, mobile=True,
    )  # fmt: skip
    try:
        click(page, "example")
        page.wait("!document.getElementById('facts').hidden")
        page.wait(READY)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        assert page.evaluate("document.getElementById('viewer').clientHeight") >= 500
        assert page.evaluate("document.body.scrollHeight") > 800  # it scrolls down to the panel
    finally:
        page.call("Emulation.clearDeviceMetricsOverride")
