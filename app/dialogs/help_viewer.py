"""The help pages that come with the program: Markdown, shown without HTML, scripts or network."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from PySide6.QtCore import Qt, QUrl
from PySide6.QtGui import QImage, QTextDocument
from PySide6.QtWidgets import QDialog, QHBoxLayout, QLabel, QListWidget, QTextBrowser, QVBoxLayout, QWidget

from app import theme

_SAFE = QTextDocument.MarkdownFeature(
    QTextDocument.MarkdownFeature.MarkdownDialectGitHub.value | QTextDocument.MarkdownFeature.MarkdownNoHTML.value
)


def help_folder() -> Path:
    """Where the pages are."""
    return Path(str(files("resources"))) / "help"


def help_pages() -> list[Path]:
    """The pages, `index.md` first, then by name."""
    return sorted(help_folder().glob("*.md"), key=lambda page: (page.stem != "index", page.name))


def page_title(page: Path) -> str:
    """A page's first heading, else its name."""
    for line in page.read_text(encoding="utf-8").splitlines():
        if line.startswith("# "):
            return line[2:].strip()
    return page.stem.replace("-", " ").capitalize()


class _Browser(QTextBrowser):
    """Loads pictures of the help folder, and nothing else."""

    def __init__(self) -> None:
        super().__init__()
        self.setOpenLinks(False)
        self.setOpenExternalLinks(False)

    def loadResource(self, kind: int, name: QUrl | str) -> object:
        folder, url = help_folder().resolve(), QUrl(name)
        wanted = (folder / url.path()).resolve()
        local = not url.scheme() or url.isLocalFile()
        if local and wanted.is_relative_to(folder) and wanted.suffix == ".png" and wanted.is_file():
            return QImage(str(wanted))
        return None


class HelpViewer(QDialog):
    """Pages at the left, the one chosen at the right."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle("Help")
        self._pages = help_pages()
        self.list = QListWidget()
        self.list.setAccessibleName("Pages")
        self.list.setFixedWidth(theme.em() * 17)
        self.text = _Browser()
        self.text.setAccessibleName("Page")
        self.text.document().setDocumentMargin(14)
        self.said = QLabel()
        self.said.setTextFormat(Qt.TextFormat.PlainText)
        self.said.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.said.hide()
        right = QVBoxLayout()
        right.addWidget(self.text, 1)
        right.addWidget(self.said)
        layout = QHBoxLayout(self)
        layout.addWidget(self.list)
        layout.addLayout(right, 1)
        for page in self._pages:
            self.list.addItem(page_title(page))
        self.list.currentRowChanged.connect(self._show)
        self.text.anchorClicked.connect(self._follow)
        theme.notifier.changed.connect(self._again)
        self.list.setCurrentRow(0)
        self.resize(theme.em() * 74, theme.line_height() * 40)

    def _show(self, row: int) -> None:
        if 0 <= row < len(self._pages):
            self.said.hide()
            self.text.document().setMarkdown(self._pages[row].read_text(encoding="utf-8"), _SAFE)
            self.text.moveCursor(self.text.textCursor().MoveOperation.Start)

    def _again(self) -> None:
        self._show(self.list.currentRow())

    def _follow(self, link: QUrl) -> None:
        """A link to another page opens it; an address elsewhere is shown, to be copied: nothing is fetched."""
        name = link.path()
        row = next((i for i, page in enumerate(self._pages) if not link.scheme() and page.name == name), None)
        if row is not None:
            self.list.setCurrentRow(row)
        elif not link.scheme() and not name and link.hasFragment():
            self.text.scrollToAnchor(link.fragment())
        else:
            self.said.setText(f"Not opened, copy it into a browser: {link.toString()}")
            self.said.show()
