"""`tp explore` with an editor: what is refused, what an edit does, and that a text which never ends costs one click."""

import http.client
import json
import re
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tinyphysics.cli import main
from tinyphysics.explorer.server import LARGEST, Guard, shell, understood, Session

for needed in ("starlette", "uvicorn", "websockets"):
    pytest.importorskip(needed, reason=f"{needed} is not installed")
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

FILE = Path(__file__).parents[2] / "examples" / "explore" / "double_well.py"


class Live:
    def __init__(self, file, **more):
        options = [x for name, value in more.items() for x in (f"--{name}", str(value))]
        command = [sys.executable, "-m", "tinyphysics", "explore", str(file), "--no-browser", *options]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.address = self.process.stdout.readline().strip()
        self.port, self.token = re.fullmatch(r"http://127\.0\.0\.1:(\d+)/#token=(\S+)", self.address).groups()
        self.host = f"127.0.0.1:{self.port}"
        for _ in range(200):
            try:
                socket.create_connection(("127.0.0.1", int(self.port)), 1).close()
                return
            except OSError:
                time.sleep(0.05)

    def ask(self, method, path, body=None, **headers):
        """(status, headers, body) of a request with exactly these headers."""
        c = http.client.HTTPConnection("127.0.0.1", int(self.port), timeout=20)
        c.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        own = {"Host": self.host, **{k.replace("_", "-"): v for k, v in headers.items()}}
        if body is not None:
            own["Content-Length"] = str(len(body))
        for name, value in own.items():
            if value is not None:
                c.putheader(name, value)
        c.endheaders(body.encode() if body else None)
        r = c.getresponse()
        out = r.status, dict(r.getheaders()), r.read().decode()
        c.close()
        return out

    def enter(self, token=None, **headers):
        headers = {"Origin": f"http://{self.host}"} | headers
        return self.ask(
            "POST", "/session", json.dumps({"token": self.token if token is None else token}), **headers
        )

    def cookie(self):
        status, headers, _ = self.enter()
        assert status == 200
        return headers["set-cookie"].partition(";")[0]

    def talk(self, **headers):
        own = {"Cookie": self.cookie(), "Origin": f"http://{self.host}"} | headers
        return connect(
            f"ws://{self.host}/ws",
            additional_headers={k: v for k, v in own.items() if v},
            origin=None,
            max_size=None,
        )

    def close(self):
        self.process.terminate()
        self.process.wait(20)


@pytest.fixture(scope="module")
def live():
    it = Live(FILE, seconds=30)
    yield it
    it.close()


ATTACKS = {
    "a page without a cookie": lambda s: s.ask("GET", "/page.html"),
    "a wrong cookie": lambda s: s.ask("GET", "/page.html", Cookie="tinyphysics=" + "A" * 43),
    "no token": lambda s: s.ask("POST", "/session", "{}", Origin=f"http://{s.host}"),
    "a token that is no text": lambda s: s.ask("POST", "/session", '{"token": ["x"]}', Origin=f"http://{s.host}"),
    "a token of yesterday": lambda s: s.enter("x" * 43),
    "a part of the token": lambda s: s.enter(s.token[:-1]),
    "the token from another page": lambda s: s.enter(Origin="http://evil.example"),
    "the token from no page": lambda s: s.enter(Origin=None),
    "the token from null": lambda s: s.enter(Origin="null"),
    "another host": lambda s: s.ask("GET", "/", Host=f"evil.example:{s.port}"),
    "another port": lambda s: s.ask("GET", "/", Host="127.0.0.1:1"),
    "a host that begins alike": lambda s: s.ask("GET", "/", Host=f"{s.host}.evil.example"),
    "a file outside": lambda s: s.ask("GET", "/../../etc/passwd"),
    "a file outside, encoded": lambda s: s.ask("GET", "/%2e%2e/%2e%2e/etc/passwd"),
    "a method that does something, from nowhere": lambda s: s.ask("DELETE", "/"),
}  # fmt: skip


@pytest.mark.parametrize("name", ATTACKS)
def test_attacks_are_refused(live, name):
    status, headers, body = ATTACKS[name](live)
    assert status in (400, 403, 404) and "set-cookie" not in headers, (status, body)
    assert "root:" not in body and live.token not in body


def test_a_request_without_a_host_is_refused(live):
    with socket.create_connection(("127.0.0.1", int(live.port)), 10) as s:
        s.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert re.match(rb"HTTP/1.1 40[03]", s.recv(1000))


def test_two_hosts_or_two_origins_are_refused(live):
    for more in (
        f"Host: {live.host}\r\nHost: evil.example",
        f"Host: {live.host}\r\nOrigin: http://{live.host}\r\nOrigin: http://evil.example",
    ):
        with socket.create_connection(("127.0.0.1", int(live.port)), 10) as s:
            s.sendall(f"GET / HTTP/1.1\r\n{more}\r\n\r\n".encode())
            assert re.match(rb"HTTP/1.1 40[03]", s.recv(1000))


@pytest.mark.parametrize(
    "headers",
    [{"Cookie": None}, {"Cookie": "tinyphysics=no"}, {"Origin": "http://evil.example"}, {"Origin": None}],
    ids=str,
)
def test_sockets_without_a_cookie_or_from_elsewhere_are_refused(live, headers):
    with pytest.raises(InvalidStatus) as told:
        live.talk(**headers)
    assert told.value.response.status_code == 403


def test_a_message_that_is_too_long_ends_the_conversation(live):
    with live.talk() as ws:
        ws.recv()
        with pytest.raises(ConnectionClosed) as told:
            ws.send(json.dumps({"text": "#" * LARGEST}))
            ws.recv()
        assert told.value.rcvd.code == 1009


@pytest.mark.parametrize(
    "message", ["", "[]", "{", '{"text": 1}', '{"text": "x", "method": 3}', '{"show": 7}', "null"]
)
def test_a_message_that_means_nothing_ends_the_conversation(live, message):
    with live.talk() as ws:
        ws.recv()
        ws.send(message)
        with pytest.raises(ConnectionClosed):
            ws.recv()


def test_long_bodies_are_refused(live):
    assert live.ask("POST", "/session", "x" * 100_000, Origin=f"http://{live.host}")[0] in (403, 413)


def test_the_cookie_is_strict_and_the_page_is_bare(live):
    status, headers, body = live.enter()
    assert (
        status == 200
        and re.search("HttpOnly", headers["set-cookie"])
        and re.search("(?i)samesite=strict", headers["set-cookie"])
    )
    status, headers, body = live.ask("GET", "/")
    assert status == 200 and live.token not in body and "double_well" not in body
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy and "'wasm-unsafe-eval'" in policy and "'unsafe-eval'" not in policy
    assert "script-src 'sha256-" in policy and "http" not in policy and shell()[0] == body


def answer(ws):
    return json.loads(ws.recv(timeout=60))


@pytest.mark.all
def test_an_edit_gives_facts_and_errors_at_lines(live):
    with live.talk() as ws:
        opened = answer(ws)["open"]
        assert opened["text"] == FILE.read_text()
        ws.send(json.dumps({"text": opened["text"]}))
        state = answer(ws)["state"]
        facts = dict(
            next(s for s in state["report"] if s["title"] == "facts")["rows"][k][:2] for k in range(1)
        )
        assert facts == {"separable": "yes"} and state["kernel"]
        ws.send(json.dumps({"text": opened["text"].replace("return kinetic", "return q*p/9 + kinetic")}))
        state = answer(ws)["state"]
        row = next(s for s in state["report"] if s["title"] == "facts")["rows"][0]
        assert row[:2] == ["separable", "no"] and row[3] == "double_well.py:10"
        ws.send(json.dumps({"text": opened["text"].replace("q**4", "tp.coz(q)")}))
        error = answer(ws)["error"]
        assert error["line"] == 9 and "coz" in error["what"]
        ws.send(json.dumps({"text": opened["text"].replace("q**4 / 4", "q**4 / (4")}))
        assert answer(ws)["error"]["line"] is not None
        ws.send(json.dumps({"text": opened["text"], "method": "rk4"}))
        rows = next(s for s in answer(ws)["state"]["report"] if s["title"] == "certificate")["rows"]
        assert dict(r[:2] for r in rows)["symplectic"] != "yes"
    status, _, body = live.ask("GET", "/page.html", Cookie=live.cookie())
    assert status == 200 and live.token not in body and "connect-src" not in body


def test_the_newest_text_is_answered_and_older_ones_are_dropped(live):
    text = FILE.read_text()
    with live.talk() as ws:
        answer(ws)
        for k in range(6):
            ws.send(json.dumps({"text": text.replace("depth: float = 1.0", f"depth: float = 1.{k}")}))
        ws.send(json.dumps({"text": text.replace("def double_well", "def last")}))
        assert answer(ws)["state"]["name"] == "last"


@pytest.mark.all
def test_a_text_that_never_ends_costs_one_click_and_a_text_that_kills_costs_nothing(live):
    text = FILE.read_text()
    with live.talk() as ws:
        answer(ws)
        ws.send(json.dumps({"text": text + "\nwhile True:\n    pass\n"}))
        time.sleep(1.0)
        ws.send(json.dumps({"stop": True}))
        assert "stopped" in answer(ws)["error"]["what"]
        ws.send(json.dumps({"text": "import os\nos._exit(3)\n"}))
        assert "error" in answer(ws)
        ws.send(json.dumps({"text": text + "\nx = bytearray(8 << 30)\n"}))
        found = answer(ws)
        assert "error" in found and "emory" in found["error"]["what"]
        ws.send(json.dumps({"text": text}))
        assert answer(ws)["state"]["name"] == "double_well"


@pytest.mark.all
def test_a_text_that_never_ends_is_stopped_by_itself():
    own = Live(FILE, seconds=4)
    try:
        with own.talk() as ws:
            answer(ws)
            ws.send(json.dumps({"text": "while True: pass\n"}))
            assert "stopped after 4 s" in answer(ws)["error"]["what"]
    finally:
        own.close()


@pytest.mark.all
def test_two_pages_ask_at_once_and_one_that_leaves_takes_nothing_along(live):
    text = FILE.read_text()
    with live.talk() as two:
        with live.talk() as one:
            assert answer(one)["open"]["file"] == answer(two)["open"]["file"] == "double_well.py"
            one.send(json.dumps({"text": text.replace("def double_well", "def first")}))
            two.send(json.dumps({"text": text.replace("def double_well", "def second")}))
            assert answer(one)["state"]["name"] == "first" and answer(two)["state"]["name"] == "second"
        two.send(json.dumps({"text": text}))
        assert answer(two)["state"]["name"] == "double_well"


def test_what_cannot_be_opened_is_told(live, capsys, tmp_path):
    assert main(["explore", str(FILE), "--no-browser", "--port", live.port]) == 2
    assert "cannot be had" in capsys.readouterr().err
    assert main(["explore", str(tmp_path / "none.py"), "--no-browser"]) == 2
    assert "there is no file" in capsys.readouterr().err
    assert main(["explore", "--html", str(tmp_path / "x.html")]) == 2


def test_messages_are_understood_or_not():
    s = Session(FILE, options={"precision": "float32"})
    assert understood('{"text": "x", "method": "rk4"}', s)["options"] == {
        "precision": "float32",
        "method": "rk4",
    }
    assert understood('{"stop": true}', s) == {"stop": True} and understood('{"stop": 1}', s) is None


def test_the_guard_passes_what_is_from_here():
    guard = Guard(None, ["127.0.0.1:5"])

    def scope(kind="http", method="GET", **headers):
        return {
            "type": kind,
            "method": method,
            "headers": [(k.encode(), v.encode()) for k, v in headers.items()],
        }

    here = "127.0.0.1:5"
    assert guard.allows(scope(host=here)) and guard.allows(
        scope(host=here, origin=f"http://{here}", method="POST")
    )
    assert not guard.allows(scope(host=here, method="POST")) and not guard.allows(
        scope("websocket", host=here)
    )
    assert not guard.allows(scope(host=here, origin=f"https://{here}")) and not guard.allows(scope())


def certificate(tab):
    """What the certificate says, property by property."""
    tab.click("#foundtabs button:has-text('certificate')")
    rows = tab.locator("#foundrows tr")
    return dict(rows.nth(k).locator("td").all_inner_texts()[:2] for k in range(rows.count()))


@pytest.mark.all
def test_in_chromium_an_edit_is_seen(live):
    sync = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        pytest.skip("Chromium is not installed")
    with sync.sync_playwright() as p:
        b = p.chromium.launch(executable_path=path, args=["--no-sandbox"])
        tab, said = b.new_page(), []
        tab.on("pageerror", lambda e: said.append(str(e)))
        tab.goto(live.address)
        tab.wait_for_selector('html[data-shown="1"]', timeout=60000)
        assert "token" not in tab.url
        tab.click("#end")
        assert "equals out.hash" in tab.inner_text("#hash")
        text = tab.input_value("#editor textarea")
        tab.fill("#editor textarea", text.replace("return kinetic + wells", "return kinetic + wells + q*p/9"))
        tab.wait_for_selector('html[data-shown="2"]', timeout=60000)
        assert "q*p/9" in tab.inner_text("#source .row.lit") and "no" in tab.inner_text(
            "tr.lit"
        )  # the term is marked
        tab.fill("#editor textarea", text.replace("p**2", "tp.coz(p)"))
        tab.wait_for_selector(".said.poor", timeout=60000)
        assert tab.inner_text(".said").startswith("Line 8:")
        tab.fill("#editor textarea", text)
        tab.wait_for_selector(".said.poor", state="detached", timeout=60000)
        claims = certificate(tab)
        assert claims["symplectic"] == "yes"
        shown = int(tab.get_attribute("html", "data-shown"))
        tab.click("#foundtabs button:has-text('plan')")
        tab.locator("tr").filter(has_text="leapfrog_dkd").locator("button").click()
        tab.wait_for_selector(f'html[data-shown="{shown + 1}"]', timeout=60000)
        assert certificate(tab)["symplectic"] == "yes"
        tab.click("#foundtabs button:has-text('plan')")
        tab.select_option("#anymethod", "rk4")
        tab.wait_for_selector(f'html[data-shown="{shown + 2}"]', timeout=60000)
        assert certificate(tab)["symplectic"] == "not shown"
        tab.click("#foundtabs button:has-text('plan')")
        tab.select_option("#anymethod", "boris")
        tab.wait_for_selector(".said.poor", timeout=60000)  # it says why it does not suit
        assert said == []
        b.close()


def test_the_server_starts_without_the_compiler():
    program = "import sys, tinyphysics.__main__, tinyphysics.explore_command as c\n"
    program += "assert c.served(['run', 'x.py']) is None and c.served(['explore', '--method', 'x']) is None\n"
    program += (
        "assert c.served(['explore', '--html', 'x.html']) is None and c.served(['explore', '-h']) is None\n"
    )
    program += "print([m for m in sys.modules if m.startswith(('tinyphysics.runtime', 'tinyphysics.cli', 'llvmlite'))])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "[]", done.stderr
