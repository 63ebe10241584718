"""The page as one HTML text: template, style, modules and, if wanted, the data inside.

The modules in `page/` are plain ES modules. A page opened from a file cannot import other files,
so they are joined into one inline script here. The content policy allows exactly this script and
this style, by their hashes, and no request except for the data of a served page.
"""

from __future__ import annotations

import base64
import hashlib
import html
import re
from collections.abc import Iterator
from functools import cache
from importlib import resources

from pdflow.errors import PdflowError

DATA_NAME = "clouds.bin"
"""Where a served page finds its data, relative to itself."""

_VIEWER = "pdflow.viewer"

_IMPORT = re.compile(r'^import \{([^}]*)\} from "\./([\w-]+)\.js";\n', re.M)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function|const|class) (\w+))", re.M)
_SOURCE = "<!-- {} -->"


def document(title: str, data: bytes | None) -> str:
    """The page. With `data`, packed by `pack`, it needs nothing else; without, it fetches them."""
    inside = "" if data is None else base64.b64encode(data).decode()
    return assemble(_VIEWER, title, inside, requests="'none'" if data is not None else "'self'")


def assemble(package: str, title: str, data: str, requests: str, frames: str = "'none'") -> str:
    """The page in the folder `page` of a package as one text.

    data      text that the script finds in the element `data`
    requests  where the script may send requests to, in the words of a content policy
    frames    what the page may show inside itself
    """
    script = bundle("main", package)
    style = _text(_VIEWER, "base.css") + _text(package, "style.css")
    policy = (
        f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; "
        f"connect-src {requests}; frame-src {frames}; base-uri 'none'; form-action 'none'"
    )
    parts = {
        "body": _text(package, "body.html"),
        "policy": f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        "title": f"<title>{html.escape(title)}</title>",
        "style": f"<style>{style}</style>",
        "data": f'<script type="text/plain" id="data">{data}</script>',
        "script": f'<script type="module">{script}</script>',
    }
    page = _text(_VIEWER, "base.html")
    for name, text in parts.items():
        page = page.replace(_SOURCE.format(name), text)
    return page


@cache
def bundle(entry: str, package: str = _VIEWER) -> str:
    """A module and all that it imports as one script, each module in a function of its own."""
    modules = _modules(entry, package)
    return "".join(f"const {name} = (() => {{\n{text}}})();\n" for name, text in modules)


def _modules(entry: str, package: str) -> Iterator[tuple[str, str]]:
    """Module after module, each after those that it imports: variable name and rewritten text."""
    done: dict[str, str] = {}

    def visit(name: str, users: tuple[str, ...]) -> None:
        if name in users:
            raise PdflowError(f"The modules {' -> '.join((*users, name))} import each other.")
        text = _text(package, f"{name}.js")
        for match in _IMPORT.finditer(text):
            if match[2] not in done:
                visit(match[2], (*users, name))
        body = _IMPORT.sub(lambda match: f"const {{{match[1]}}} = module_{match[2]};\n", text)
        names = ", ".join(_EXPORT.findall(body))
        done[name] = f"{_EXPORT.sub('', body)}return {{ {names} }};\n"

    visit(entry, ())
    return ((f"module_{name}", text) for name, text in done.items())


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _text(package: str, name: str) -> str:
    return resources.files(package).joinpath("page").joinpath(name).read_text(encoding="utf-8")
