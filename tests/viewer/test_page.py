"""The page in a headless browser, as a reader uses it."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from pdflow import PointCloud
from pdflow.viewer.scene import build_scene
from pdflow.viewer.serve import PageServer
from pdflow.viewer.show import Page

pytestmark = pytest.mark.browser

# What the next frame shows: share of pixels that are not background, mean red, mean of the left
# half and of the right half.
SEEN = """
(async () => {
  const canvas = document.getElementById("view");
  window.dispatchEvent(new Event("hashchange"));
  await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  window.dispatchEvent(new Event("hashchange"));
  return await new Promise((done) => requestAnimationFrame(() => {
    const copy = document.createElement("canvas");
    [copy.width, copy.height] = [canvas.width, canvas.height];
    const context = copy.getContext("2d");
    context.drawImage(canvas, 0, 0);
    const { data } = context.getImageData(0, 0, copy.width, copy.height);
    const count = (left, right) => {
      let points = 0, sum = [0, 0, 0];
      for (let y = 0; y < copy.height; y++) for (let x = left; x < right; x++) {
        const i = 4 * (y * copy.width + x);
        if (data[i] === data[0] && data[i + 1] === data[1] && data[i + 2] === data[2]) continue;
        points++;
        for (let k = 0; k < 3; k++) sum[k] += data[i + k];
      }
      return [points / (copy.height * (right - left)), ...sum.map((s) => s / Math.max(points, 1))];
    };
    const middle = copy.width / 2;
    done({ left: count(0, middle), right: count(middle, copy.width) });
  }));
})()
"""


def choose(browser, name, value):
    browser.evaluate(
        f"document.getElementById('controls').elements['{name}'].value = {value!r};"
        "document.getElementById('controls').dispatchEvent(new Event('input'))"
    )


def seen(browser):
    result = browser.evaluate(SEEN)
    return result["left"], result["right"]


def test_both_clouds_are_seen_beside_the_swipe_line(opened):
    left, right = seen(opened)
    assert left[0] > 0.2
    assert right[0] > 0.2
    assert left[1] > 50 > left[3]
    assert right[3] > 50 > right[1]


def test_nothing_is_requested_from_anywhere(opened, page):
    assert [url for url in opened.requests if url != "about:blank"] == [page]


def test_the_policy_stops_requests_and_foreign_scripts(browser, page):
    browser.open(page)
    blocked = "fetch('http://127.0.0.1:9/').then(() => 'sent', () => 'blocked')"
    assert browser.evaluate(blocked) == "blocked"
    browser.evaluate(
        "document.body.append(Object.assign(document.createElement('script'),"
        "{textContent: 'window.foreign = 1'}))"
    )
    assert browser.evaluate("typeof window.foreign") == "undefined"
    assert any("Content Security Policy" in text for text in browser.complaints)


def test_names_are_shown_as_text(opened):
    assert opened.evaluate("document.getElementById('before-name').textContent") == "noisy <b>.ply"
    assert opened.evaluate("document.title") == "noisy <b>.ply and clean.ply"


def test_f_flips_between_before_and_after(opened):
    opened.press("f")
    left, right = seen(opened)
    assert min(left[1], right[1]) > 50 > max(left[3], right[3])
    assert opened.evaluate("document.getElementById('swipe').hidden")
    opened.press("f")
    left, right = seen(opened)
    assert min(left[3], right[3]) > 50 > max(left[1], right[1])


def test_blend_mixes_both_clouds(opened):
    opened.press("b")
    choose(opened, "blend", "0.5")
    left, right = seen(opened)
    assert min(left[1], left[3], right[1], right[3]) > 50


def test_the_swipe_line_moves_by_mouse_and_by_key(opened):
    width = opened.evaluate("document.getElementById('stage').clientWidth")
    opened.drag((width / 2, 600), (width / 4, 600))
    value = "Number(document.getElementById('swipe').getAttribute('aria-valuenow'))"
    assert opened.evaluate(value) == pytest.approx(25, abs=1)
    left, _ = seen(opened)
    assert left[3] > 20
    opened.evaluate("document.getElementById('swipe').focus()")
    opened.press("ArrowRight")
    assert opened.evaluate(value) == pytest.approx(27, abs=1)
    opened.press("Home")
    assert opened.evaluate(value) == 0


@pytest.mark.parametrize("name", ["height", "intensity", "displacement", "error"])
def test_values_have_a_legend_and_change_the_picture(opened, name):
    own = seen(opened)
    choose(opened, "color", name)
    assert seen(opened) != own
    assert name in opened.evaluate("document.querySelector('#legend figcaption').textContent")
    ticks = opened.evaluate("[...document.querySelectorAll('#ticks li')].map(x => x.textContent)")
    low, middle, high = map(float, ticks)
    assert low < middle < high
    if name in ("displacement", "error"):
        assert low == 0
        assert high == pytest.approx(0.05 * 2.576, rel=0.15)
    if name == "height":
        assert middle == pytest.approx(100, abs=0.1)


def test_classes_are_listed_with_their_names(opened):
    choose(opened, "color", "classification")
    labels = opened.evaluate(
        "[...document.querySelectorAll('#classes li')].map(x => x.textContent)"
    )
    assert labels == [
        "2 ground",
        "3 low vegetation",
        "4 medium vegetation",
        "5 high vegetation",
        "6 building",
    ]


def test_a_section_shows_a_slab(opened):
    whole = sum(side[0] for side in seen(opened))
    choose(opened, "section", "z")
    choose(opened, "thickness-z", "-1.3")
    slab = sum(side[0] for side in seen(opened))
    assert 0 < slab < 0.6 * whole
    words = opened.evaluate("document.querySelector('output[for=position-z]').textContent")
    assert float(words.removesuffix(" units")) == pytest.approx(100, abs=0.1)
    assert opened.evaluate("document.getElementById('slab-x').hidden")


def test_a_box_cuts_all_three_axes(opened):
    whole = sum(side[0] for side in seen(opened))
    choose(opened, "section", "xyz")
    for axis in "xyz":
        choose(opened, f"position-{axis}", "0.9")  # a corner, where the sphere is not
        assert opened.evaluate(f"document.getElementById('thickness-{axis}').value") == "-0.3"
    choose(opened, "thickness-x", "-2")
    corner = sum(side[0] for side in seen(opened))
    for axis in "yz":
        choose(opened, f"position-{axis}", "0.5")
        choose(opened, f"thickness-{axis}", "0")
    slab = sum(side[0] for side in seen(opened))
    assert corner < slab < whole


def test_two_picked_points_give_a_distance_in_the_units_of_the_cloud(opened, clouds):
    opened.press("f")
    opened.press("f")
    x, y = opened.evaluate(
        "(({clientWidth: w, clientHeight: h}) => [w / 2, h / 2])(document.getElementById('view'))"
    )
    opened.click(x - 60, y)
    opened.click(x + 60, y + 40)
    lines = opened.evaluate("document.getElementById('readout').textContent").splitlines()
    picked = [
        np.array([float(word) for word in line.split(": ")[1].split(", ")])
        for line in lines
        if line.startswith("clean.ply")
    ]
    assert len(picked) == 2
    for point in picked:
        assert np.linalg.norm(clouds[1][1].points - point, axis=1).min() < 1e-3
    distance = float(next(line for line in lines if line.startswith("distance")).split()[1])
    assert distance == pytest.approx(np.linalg.norm(picked[1] - picked[0]), abs=1e-3)
    opened.press("Escape")
    assert opened.evaluate("document.getElementById('readout').textContent") == ""


def test_the_point_in_the_middle_is_picked_by_key(opened):
    opened.settled()
    opened.press("p")
    opened.wait("document.getElementById('readout').textContent.includes('noisy')")


def test_the_camera_is_kept_in_the_address(browser, page):
    browser.open(page)
    browser.drag((300, 300), (380, 330))
    address = browser.settled()
    assert "#camera=" in address
    moved = seen(browser)
    browser.open(address)
    assert seen(browser) == moved
    browser.open(page)
    assert seen(browser) != moved
    browser.open(f"{page}#camera=1,2,nonsense")
    assert seen(browser)[0][0] > 0.2


def test_every_control_has_a_name_and_can_be_focused(opened):
    assert opened.unnamed_controls() == []


def test_dark_and_light_change_page_and_picture(opened):
    grounds = []
    for theme in ("light", "dark"):
        choose(opened, "theme", theme)
        grounds.append(opened.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert grounds == ["rgb(244, 245, 247)", "rgb(21, 24, 28)"]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_texts_have_enough_contrast(opened, theme):
    pairs = [("--ink", "--sheet"), ("--ink", "--ground"), ("--quiet", "--sheet")]
    assert opened.contrast(theme, *pairs, ("--on-accent", "--accent")) >= 4.5


def test_a_phone_sees_picture_and_controls(browser, page):
    browser.call(
        "Emulation.setDeviceMetricsOverride",
        width=390,
        height=800,
        deviceScaleFactor=2,
        mobile=True,
    )
    try:
        browser.open(page)
        assert browser.evaluate("document.documentElement.scrollWidth") <= 390
        assert browser.evaluate("document.getElementById('view').clientHeight") >= 400
        assert seen(browser)[0][0] > 0.05
    finally:
        browser.call("Emulation.clearDeviceMetricsOverride")


def test_a_served_page_fetches_its_clouds_and_nothing_else(browser, clouds):
    with PageServer(Page(build_scene(clouds))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            browser.open(server.url)
            assert seen(browser)[0][0] > 0.2
            wanted = {server.url, f"{server.url}clouds.bin"}
            assert set(browser.requests) - {"about:blank"} == wanted
        finally:
            server.shutdown()
            thread.join()


def test_one_cloud_is_shown_without_a_comparison(browser, clouds, tmp_path):
    Page(build_scene(clouds[:1])).save(tmp_path / "one.html")
    browser.open((tmp_path / "one.html").as_uri())
    assert browser.evaluate("document.getElementById('compare-group').hidden")
    assert browser.evaluate("document.getElementById('swipe').hidden")
    left, right = seen(browser)
    assert min(left[0], right[0]) > 0.2


def test_of_three_clouds_any_two_are_compared(browser, clouds, tmp_path):
    green = PointCloud(clouds[0][1].points[:5000], {"colors": np.tile([0, 200, 0], (5000, 1))})
    Page(build_scene([*clouds, ("green", green)])).save(tmp_path / "three.html")
    browser.open((tmp_path / "three.html").as_uri())
    choose(browser, "after", "2")
    _, right = seen(browser)
    assert right[2] > 50 > right[3]


def test_a_notebook_shows_the_page_in_a_frame(browser, clouds, tmp_path):
    frame = Page(build_scene(clouds))._repr_html_()
    (tmp_path / "cell.html").write_text(f"<!doctype html><html data-ready=yes>{frame}")
    browser.open((tmp_path / "cell.html").as_uri())
    browser.wait("document.documentElement.dataset.ready === 'yes'", inside=True)
    # The frame gets its size when the page around it is laid out, and is drawn again then.
    both = f"{SEEN.strip()}.then(({{left, right}}) => Math.min(left[0], right[0]) > 0.1)"
    browser.wait(both, inside=True)
    assert browser.complaints == []
