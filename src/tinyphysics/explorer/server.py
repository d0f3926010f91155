"""`tp explore FILE`: a page on this machine whose editor is compiled at every change.

It runs the user's code, so it listens on the loopback only, every request names this host, requests that do something come
from this page, and all but the empty page need a cookie. The cookie is given for a token of 256 bits that stands in the
fragment of the printed address, which browsers do not send.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import secrets
import socket
import webbrowser
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from tinyphysics.errors import BackendError, InputError
from tinyphysics.explorer.page import asset, page
from tinyphysics.explorer.worker import Worker

COOKIE = "tinyphysics"
LARGEST = 1 << 20  # bytes of a message
SHORT = 4096  # of the body of a request
HERE = "127.0.0.1"


def needed(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        raise BackendError(
            f"`tp explore` needs {name.partition('.')[0]}",
            fix='pip install "tinyphysics[web]", or write a page with --html FILE.html.',
        ) from None


@dataclass(eq=False)
class Session:
    """What is open in the editor, and who may ask for it."""

    file: Path
    name: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    gallery: Sequence[Path] = ()
    token: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    cookie: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    state: dict[str, Any] | None = None  # of the last text that compiled


def same(given: str | None, wanted: str) -> bool:
    return given is not None and hmac.compare_digest(given.encode(), wanted.encode())


def shell() -> tuple[str, str]:
    """(the empty page, its policy): one script, named by its hash, and nothing from elsewhere."""
    script = "\n" + asset("machine.js") + asset("page.js") + asset("live.js") + "\n"
    named = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; script-src 'sha256-{named}' 'wasm-unsafe-eval'; style-src 'unsafe-inline'; img-src data:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    text = asset("page.html")
    parts = {
        "TITLE": "tinyphysics",
        "POLICY": policy.partition("; frame-ancestors")[0],
        "STYLE": asset("page.css"),
        "DATA": "",
    }
    for name, value in parts.items():
        text = text.replace("{{" + name + "}}", value)
    return text.replace("\n{{SCRIPT}}\n", script), policy


class Guard:
    """Before anything else: is a request from this machine, for this host, from this page?"""

    def __init__(self, app: Any, hosts: Sequence[str]) -> None:
        self.app, self.hosts = app, set(hosts)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] not in ("http", "websocket") or self.allows(scope):
            await self.app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 4403})
        else:
            await send(
                {"type": "http.response.start", "status": 403, "headers": [(b"content-type", b"text/plain")]}
            )
            await send({"type": "http.response.body", "body": b"refused"})

    def allows(self, scope: Any) -> bool:
        headers = [(k.decode("latin-1"), v.decode("latin-1")) for k, v in scope["headers"]]
        hosts, origins = ([v for k, v in headers if k == name] for name in ("host", "origin"))
        if len(hosts) != 1 or hosts[0] not in self.hosts or len(origins) > 1:
            return False
        if origins:
            return bool(origins[0] == f"http://{hosts[0]}")
        return scope["type"] == "http" and scope["method"] in ("GET", "HEAD")


def application(session: Session, worker: Worker, port: int) -> Any:
    """The pages and the socket of a session."""
    responses, routing = needed("starlette.responses"), needed("starlette.routing")
    applications = needed("starlette.applications")
    text, policy = shell()
    headers = {
        "Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
        "Cache-Control": "no-store", "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
    }  # fmt: skip

    def known(cookies: Mapping[str, str]) -> bool:
        return same(cookies.get(COOKIE), session.cookie)

    async def bare(request: Any) -> Any:
        return responses.HTMLResponse(text, headers=headers)

    async def enter(request: Any) -> Any:
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > SHORT:
                return responses.PlainTextResponse("refused", 413, headers=headers)
        try:
            given = json.loads(body)["token"]
        except (ValueError, KeyError, TypeError):
            given = None
        if not isinstance(given, str) or not same(given, session.token):
            return responses.PlainTextResponse("refused", 403, headers=headers)
        answer = responses.PlainTextResponse("welcome", headers=headers)
        answer.set_cookie(COOKIE, session.cookie, httponly=True, samesite="strict", path="/")
        return answer

    async def saved(request: Any) -> Any:
        if not known(request.cookies):
            return responses.PlainTextResponse("refused", 403, headers=headers)
        if session.state is None:
            return responses.PlainTextResponse("nothing has compiled yet", 404, headers=headers)
        as_file = {"Content-Disposition": f'attachment; filename="{session.file.stem}.html"'}
        return responses.HTMLResponse(page(session.state), headers={**headers, **as_file})

    async def other(request: Any) -> Any:
        status = 404 if known(request.cookies) else 403
        return responses.PlainTextResponse(
            "refused" if status == 403 else "not found", status, headers=headers
        )

    async def talk(socket: Any) -> None:
        if not known(socket.cookies):
            await socket.close(4403)
            return
        await socket.accept()
        await conversation(session, worker, socket)

    routes = [
        routing.Route("/", bare, methods=["GET"]),
        routing.Route("/session", enter, methods=["POST"]),
        routing.Route("/page.html", saved, methods=["GET"]),
        routing.WebSocketRoute("/ws", talk),
        routing.Route(
            "/{rest:path}", other, methods=["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"]
        ),
    ]
    return Guard(applications.Starlette(routes=routes), [f"{HERE}:{port}", f"localhost:{port}"])


async def conversation(session: Session, worker: Worker, socket: Any) -> None:
    """Texts come in, what they compile to goes out: the newest; an answer to an older text is not sent."""
    names = [f.stem for f in session.gallery]
    await socket.send_text(
        json.dumps(
            {
                "open": {
                    "file": session.file.name,
                    "text": session.file.read_text(encoding="utf-8"),
                    "gallery": names,
                }
            }
        )
    )
    newest: dict[str, Any] | None = None
    arrived = asyncio.Event()

    async def answers() -> None:
        nonlocal newest
        while True:
            await arrived.wait()
            arrived.clear()
            request = newest
            if request is None:
                continue
            found = await worker.ask(request)
            if request is newest:
                if "state" in found:
                    session.state = found["state"]
                await socket.send_text(json.dumps(found))

    task = asyncio.create_task(answers())
    try:
        while True:
            message = await socket.receive()
            if message["type"] == "websocket.disconnect":
                return
            wanted = understood(message.get("text"), session)
            if wanted is None:
                await socket.close(4400)
                return
            if "stop" in wanted:
                await worker.stop()
            elif "show" in wanted:
                file = next((f for f in session.gallery if f.stem == wanted["show"]), session.file)
                session.file, session.name = file, ""
                given = {"file": file.name, "text": file.read_text(encoding="utf-8"), "gallery": names}
                await socket.send_text(json.dumps({"open": given}))
            else:
                newest = wanted
                arrived.set()
    finally:
        task.cancel()


def understood(text: str | None, session: Session) -> dict[str, Any] | None:
    """A message of the page as a request; None where it is none."""
    try:
        message = json.loads(text or "")
    except ValueError:
        return None
    if not isinstance(message, dict):
        return None
    if message.get("stop") is True:
        return {"stop": True}
    if isinstance(message.get("show"), str):
        return {"show": message["show"]}
    method = message.get("method")
    if not isinstance(message.get("text"), str) or not isinstance(method, str | None):
        return None
    options = {**session.options, **({"method": method} if method else {})}
    return {"text": message["text"], "file": session.file.name, "name": session.name, "options": options}


def bound(port: int) -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((HERE, port))
    except (OSError, OverflowError) as error:
        made.close()
        raise InputError(
            f"the port {port} cannot be had: {getattr(error, 'strerror', None) or error}",
            fix="Write --port 0 for a free one.",
        ) from error
    return made


def serve(session: Session, command: Sequence[str], port: int, seconds: float, browse: bool) -> None:
    """Listens until Ctrl-C."""
    uvicorn = needed("uvicorn")
    needed("websockets")
    listening = bound(port)
    port = listening.getsockname()[1]
    worker = Worker(command, seconds)
    settings = uvicorn.Config(
        application(session, worker, port),
        log_level="error", ws="websockets-sansio", ws_max_size=LARGEST, server_header=False,
        proxy_headers=False, lifespan="off",
    )  # fmt: skip
    address = f"http://{HERE}:{port}/#token={session.token}"
    print(address, flush=True)
    if browse:
        try:
            webbrowser.open(address)
        except webbrowser.Error:
            pass  # the address is printed

    async def run() -> None:
        try:
            await uvicorn.Server(settings).serve(sockets=[listening])
        finally:
            await worker.stop()

    try:
        asyncio.run(run())
    except KeyboardInterrupt:
        pass
