"""The page of `fstcrf inspect` in a browser: typing, clicking, switching, links, complaints."""

from __future__ import annotations

import base64
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import pytest

pytestmark = [
    pytest.mark.extras,
    pytest.mark.filterwarnings("ignore::fstcrf.errors.InexactWarning"),  # in the server's threads
]
webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
pytest.importorskip("uvicorn", reason="the extra fstcrf[inspect] is not installed")

from selenium.common.exceptions import StaleElementReferenceException  # noqa: E402
from selenium.webdriver.chrome.service import Service  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402

from fstcrf import CRF, Corpus, Sentence, compose  # noqa: E402
from fstcrf.constraints import at_most, label  # noqa: E402
from fstcrf.ext.inspect import Access, Workbench, serve, server  # noqa: E402
from tests.support.joint_cases import TRAIN, taggers  # noqa: E402

PATIENCE = 60.0
PUT = (
    "const t = document.getElementById('text'); t.value = arguments[0].repeat(arguments[1]);"
    "t.dispatchEvent(new Event('input'));"
)

Answer = TypeVar("Answer")


@pytest.fixture(scope="module")
def address() -> str:
    rule = at_most(1, label("B"), tape="chunk")
    corpus = Corpus.from_sentences([Sentence(sentence) for sentence in TRAIN])
    bench = Workbench(compose(*taggers("three in a row")) & rule, "<i>three</i>", corpus)
    listening = server.bound("127.0.0.1", 0)
    threading.Thread(target=serve, args=(bench, listening, Access()), daemon=True).start()
    return server.link(listening, "")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    program = shutil.which("chromium") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    if program is None or driver is None:
        pytest.skip("no chromium and chromedriver on the path")
    options = webdriver.ChromeOptions()
    options.binary_location = program
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1300,1000"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    with webdriver.Chrome(options=options, service=Service(driver)) as found:
        yield found


class Page:
    """The page as a person uses it."""

    def __init__(self, browser: Any, address: str) -> None:
        self.browser = browser
        browser.get("about:blank")
        browser.get(address)
        self.settle()

    def settle(self) -> None:
        self.wait(lambda: self.one("body").get_attribute("aria-busy") == "false")

    def read(self, what: Callable[[], Answer]) -> Answer:
        """What it gives, asked again where the page was drawn anew in between."""
        end = time.monotonic() + PATIENCE
        while True:
            try:
                return what()
            except StaleElementReferenceException:
                if time.monotonic() > end:
                    raise
                time.sleep(0.05)

    def wait(self, holds: Callable[[], Any]) -> None:
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            try:
                if holds():
                    return
            except StaleElementReferenceException:
                pass
            time.sleep(0.05)
        pytest.fail(f"nothing came within {PATIENCE:g} s; the page says: {self.status}")

    def one(self, selector: str) -> Any:
        return self.browser.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector: str) -> list[Any]:
        found: list[Any] = self.browser.find_elements(By.CSS_SELECTOR, selector)
        return found

    @property
    def status(self) -> str:
        return str(self.one("#status").text)

    def type(self, text: str) -> None:
        field = self.one("#text")
        field.clear()
        field.send_keys(text)
        self.wait(lambda: f"{len(text.split())} tokens" in self.status)
        self.settle()

    def cell(self, tape: str, token: int, row: int) -> Any:
        return self.all(f"td[data-tape='{tape}'][data-token='{token}']")[row]

    def best(self, tape: str) -> list[str]:
        def found() -> dict[int, str]:
            cells = self.all(f"td.best[data-tape='{tape}']")
            return {
                int(c.get_attribute("data-token")): c.get_attribute("data-label") for c in cells
            }

        labels = self.read(found)
        return [labels[token] for token in sorted(labels)]


@pytest.fixture
def page(browser: Any, address: str) -> Iterator[Page]:
    yield Page(browser, address)
    said = [entry for entry in browser.get_log("browser") if "status of 4" not in entry["message"]]
    assert said == []


def test_typing_and_what_is_shown(page: Page) -> None:
    page.type("a b c d e")
    assert len(page.all(".heat table")) == 3
    assert all(len(page.best(tape)) == 5 for tape in ("pos", "chunk", "ent"))
    assert page.one("#model").text == "<i>three</i>"
    assert len(page.all("tr.way")) == 6  # two other ways on each of three tapes
    assert len(page.all("#ranked tbody tr")) == 5
    assert "at_most" in page.one("#rules").text


def test_a_click_forces_and_a_link_keeps_it(page: Page, browser: Any, address: str) -> None:
    page.type("a b c")
    place = next(
        k
        for k, c in enumerate(page.all("td[data-tape='chunk'][data-token='1']"))
        if "best" not in c.get_attribute("class")
    )
    label_id = page.cell("chunk", 1, place).get_attribute("data-label")
    page.cell("chunk", 1, place).click()
    page.wait(lambda: page.all("td.force"))
    page.settle()
    assert page.best("chunk")[1] == label_id
    assert "probability" in page.one("#why").text
    link = browser.current_url
    again = Page(browser, link)
    assert again.best("chunk")[1] == label_id
    assert len(again.all("td.force")) == 1
    again.one("#free").click()
    again.wait(lambda: not again.all("td.force"))


def test_keys_move_force_and_forbid(page: Page, browser: Any) -> None:
    page.type("a b c")
    first = page.cell("pos", 0, 0)
    first.send_keys(Keys.ARROW_RIGHT)
    here = browser.switch_to.active_element
    assert here.get_attribute("data-token") == "1"
    here.send_keys(Keys.ENTER)
    page.wait(lambda: page.all("td.force"))
    page.settle()
    browser.switch_to.active_element.send_keys(Keys.DELETE)
    page.wait(lambda: page.all("td.forbid"))
    page.settle()
    forbidden = page.one("td.forbid").get_attribute("data-label")
    assert page.best("pos")[1] != forbidden


def test_rules_and_weights_are_switched(page: Page) -> None:
    page.type("b b b b b")
    switch = page.one("#rules input")
    switch.click()
    page.wait(lambda: "q=" in page.browser.current_url)
    page.settle()
    assert not switch.is_selected()
    slider = page.all("#weights input")[1]
    slider.send_keys(Keys.ARROW_RIGHT)
    page.wait(lambda: page.all("#weights output")[1].text == "1.05")
    page.settle()
    page.wait(lambda: "tokens" in page.status)


def test_what_cannot_be_is_said(page: Page) -> None:
    page.type("a <script>alert(1)</script> b")
    assert "<script>alert(1)</script>" in [head.text for head in page.all(".heat thead th")]
    page.one("#mode").send_keys("one token")
    page.settle()
    page.one("#text").clear()
    page.one("#text").send_keys("a\nb c\n")
    page.wait(
        lambda: "error" in page.one("#status").get_attribute("class") or "tokens" in page.status
    )


def test_sentences_of_the_file(page: Page, browser: Any) -> None:
    listed = page.all("#sentences button")
    assert len(listed) == len(TRAIN)
    words = listed[3].text.split(": ")[1].split()
    listed[3].click()
    page.wait(lambda: page.one("#text").get_attribute("value").split() == words)
    page.wait(lambda: f"{len(words)} tokens" in page.status)
    page.wait(lambda: len(page.all("tr.gold")) == 3)
    page.settle()
    number = int(listed[3].text.partition(" ")[0]) - 1
    assert [cell.text for cell in page.all("tr.gold")[0].find_elements(By.TAG_NAME, "td")] == list(
        TRAIN[number]["pos"]
    )
    assert listed[3].get_attribute("aria-current") == "true"
    again = Page(browser, browser.current_url)
    assert len(again.all("tr.gold")) == 3
    again.type("a b")
    assert again.all("tr.gold") == again.all("[aria-current]") == []


@pytest.mark.parametrize("odd", ["5", '{"text": 5}', '{"text": "a", "edits": [null]}'])
def test_a_link_that_is_none_is_not_read(page: Page, browser: Any, address: str, odd: str) -> None:
    link = base64.urlsafe_b64encode(odd.encode()).decode().rstrip("=")
    assert "tokens in" in Page(browser, f"{address}#q={link}").status


def test_the_list_of_sentences_is_one_stop(page: Page, browser: Any) -> None:
    """Who uses the keyboard alone does not pass two hundred sentences on the way to the labels."""
    listed = page.all("#sentences button")
    assert [button.get_attribute("tabindex") for button in listed[:3]] == ["0", "-1", "-1"]
    listed[0].send_keys(Keys.ARROW_DOWN)
    assert browser.switch_to.active_element == listed[1]
    listed[1].send_keys(Keys.END)
    assert browser.switch_to.active_element == listed[-1]
    listed[-1].send_keys(Keys.ARROW_DOWN)
    assert browser.switch_to.active_element == listed[-1]
    listed[-1].send_keys(Keys.HOME)
    assert browser.switch_to.active_element == listed[0]
    words = listed[0].text.split(": ")[1].split()
    listed[0].send_keys(Keys.ENTER)
    page.wait(lambda: page.one("#text").get_attribute("value").split() == words)
    page.wait(lambda: f"{len(words)} tokens" in page.status)


def test_everything_has_a_name(page: Page, browser: Any) -> None:
    page.type("a b c d e")
    page.cell("pos", 1, 0).click()
    page.wait(lambda: "probability" in page.one("#why").text)
    page.settle()
    named = {"button", "textbox", "checkbox", "slider", "combobox", "spinbutton", "grid", "table"}
    nodes = browser.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
    told = [node for node in nodes if not node.get("ignored") and node["role"]["value"] in named]
    assert {node["role"]["value"] for node in told} == named
    assert all(node["name"]["value"] for node in told)


def test_too_much_is_refused_at_once(page: Page, browser: Any) -> None:
    browser.execute_script(PUT, "word ", 2_000_000)
    page.wait(lambda: "10000000 characters; the page takes at most 2000000" in page.status)
    browser.execute_script(PUT, "a ", 30_000)
    page.wait(lambda: "30000 tokens; the page shows at most 20000" in page.status)
    page.type("a b")


def test_labels_are_text(browser: Any) -> None:
    """Whatever labels, words and names hold, nothing of it is run."""
    labels = ["<img src=x onerror=document.title=1>", "</script><script>document.title=2</script>"]
    corpus = Corpus.from_sentences([Sentence({"word": ["a", "b"], "tag": labels})] * 5)
    tagger = CRF.train(corpus, "tag", "U0:%x[0,word]\nB\n", max_iterations=5)
    bench = Workbench(compose(tagger), "<b>bold</b>", corpus)
    listening = server.bound("127.0.0.1", 0)
    threading.Thread(target=serve, args=(bench, listening, Access()), daemon=True).start()
    page = Page(browser, server.link(listening, ""))
    page.type("a b <u>c</u>")
    assert {row.text for row in page.all(".heat tbody th")} == set(labels)
    assert page.one("#model").text == "<b>bold</b>"
    assert browser.title == "fstcrf inspect"
    assert not page.all("img, #model b, .heat u")
    assert browser.get_log("browser") == []


def test_narrow_and_dark(page: Page, browser: Any) -> None:
    page.type("a b c d")
    browser.set_window_size(400, 800)
    width = browser.execute_script("return document.documentElement.scrollWidth")
    assert width <= 520  # headless windows are not narrower than that
    scheme = {"features": [{"name": "prefers-color-scheme", "value": "dark"}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", scheme)
    ground = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert ground == "rgb(22, 24, 28)"
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    browser.set_window_size(1300, 1000)


def test_a_long_text_does_not_freeze(page: Page, browser: Any) -> None:
    browser.execute_script(PUT, "a b c d e ", 1_000)
    page.wait(lambda: "5000 tokens" in page.status)
    assert page.one("#where").text == "tokens 1 to 60 of 5000"
    page.settle()
    page.one("#on").click()
    page.wait(lambda: page.one("#where").text == "tokens 61 to 120 of 5000")
    page.settle()
