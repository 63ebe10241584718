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

_IMPORT = re.compile(r'^import \{([^}]*)\} from "\./([\w-]+)\.js";\n', re.M)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function|const|class) (\w+))", re.M)
_SOURCE = "<!-- {} -->"


def document(title: str, data: bytes | None) -> str:
    """The page. With `data`, packed by `pack`, it needs nothing else; without, it fetches them."""
    script, style = bundle("main"), _text("style.css")
    requests = "'self'" if data is None else "'none'"
    policy = (
        f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; "
        f"connect-src {requests}; base-uri 'none'; form-action 'none'"
    )
    inside = "" if data is None else base64.b64encode(data).decode()
    parts = {
        "policy": f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        "title": f"<title>{html.escape(title)}</title>",
        "style": f"<style>{style}</style>",
        "data": f'<script type="text/plain" id="data">{inside}</script>',
        "script": f'<script type="module">{script}</script>',
    }
    page = _text("page.html")
    for name, text in parts.items():
        page = page.replace(_SOURCE.format(name), text)
    return page


@cache
def bundle(entry: str) -> str:
    """A module and all that it imports as one script, each module in a function of its own."""
    return "".join(f"const {name} = (() => {{\n{text}}})();\n" for name, text in _modules(entry))


def _modules(entry: str) -> Iterator[tuple[str, str]]:
    """Module after module, each after those that it imports: variable name and rewritten text."""
    done: dict[str, str] = {}

    def visit(name: str, users: tuple[str, ...]) -> None:
        if name in users:
            raise PdflowError(f"The modules {' -> '.join((*users, name))} import each other.")
        text = _text(f"{name}.js")
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


def _text(name: str) -> str:
    return resources.files(__package__).joinpath("page").joinpath(name).read_text(encoding="utf-8")
