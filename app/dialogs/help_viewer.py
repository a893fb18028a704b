"""The help pages that come with the program: Markdown, shown without HTML, scripts or network."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from PySide6.QtCore import QSize, Qt, QUrl
from PySide6.QtGui import (
    QColor,
    QImage,
    QResizeEvent,
    QTextBlock,
    QTextBlockFormat,
    QTextCursor,
    QTextDocument,
    QTextFormat,
    QTextTable,
    QTextTableFormat,
)
from PySide6.QtWidgets import (
    QDialog,
    QHBoxLayout,
    QLabel,
    QListWidget,
    QListWidgetItem,
    QTextBrowser,
    QVBoxLayout,
    QWidget,
)

from app import theme

_SAFE = QTextDocument.MarkdownFeature(
    QTextDocument.MarkdownFeature.MarkdownDialectGitHub.value | QTextDocument.MarkdownFeature.MarkdownNoHTML.value
)


_PICTURE = "\ufffc"  # stands for one in a document's text
_LEADING = 118.0  # per cent of the font's own line height


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
    """Loads pictures of the help folder, and nothing else; they are never wider than the page."""

    def __init__(self) -> None:
        super().__init__()
        self._pictures: dict[QUrl, Path] = {}
        self.setOpenLinks(False)
        self.setOpenExternalLinks(False)

    def loadResource(self, kind: int, name: QUrl | str) -> object:
        folder, url = help_folder().resolve(), QUrl(name)
        wanted = (folder / url.path()).resolve()
        local = not url.scheme() or url.isLocalFile()
        if local and wanted.is_relative_to(folder) and wanted.suffix == ".png" and wanted.is_file():
            self._pictures[url] = wanted
            return self._fitted(wanted)
        return None

    def _fitted(self, path: Path) -> QImage:
        image, ratio = QImage(str(path)), self.devicePixelRatioF()
        room = self.viewport().width() - 2 * round(self.document().documentMargin())
        if image.width() > room > 0:
            image = image.scaledToWidth(round(room * ratio), Qt.TransformationMode.SmoothTransformation)
            image.setDevicePixelRatio(ratio)
        return image

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        document = self.document()
        for url, path in self._pictures.items():
            document.addResource(QTextDocument.ResourceType.ImageResource.value, url, self._fitted(path))
        if self._pictures:
            document.markContentsDirty(0, document.characterCount())

    def show_page(self, markdown: str) -> None:
        """Show a page from its beginning."""
        self._pictures.clear()
        self.document().setMarkdown(markdown, _SAFE)
        _space_out(self.document())
        self.moveCursor(QTextCursor.MoveOperation.Start)


def _space_out(document: QTextDocument) -> None:
    """Set blocks apart: Qt lays Markdown out without any space between paragraphs, lists, code and tables."""
    cursor, block = QTextCursor(document), document.begin()
    while block.isValid():
        cursor.setPosition(block.position())
        if cursor.currentTable() is None:
            cursor.setBlockFormat(_spaced(block))
        block = block.next()
    for frame in document.rootFrame().childFrames():
        if isinstance(frame, QTextTable):
            table = frame.format().toTableFormat()
            table.setTopMargin(4)
            table.setBottomMargin(4)
            table.setCellPadding(theme.em() / 3)
            table.setBorderStyle(QTextTableFormat.BorderStyle.BorderStyle_Solid)
            table.setBorderBrush(QColor(theme.current().line))
            frame.setFormat(table)


def _spaced(block: QTextBlock) -> QTextBlockFormat:
    """The block's format with its margins: lines of one list or one piece of code stand close together."""
    gap, shape, kind = theme.line_height() / 2, block.blockFormat(), _kind(block)
    level = shape.headingLevel()
    shape.setTopMargin(((0, 0, 2.2)[level] if level < 3 else 1.6) * gap)
    close = kind != "text" and block.next().isValid() and _kind(block.next()) == kind
    shape.setBottomMargin(gap if not close else gap / 3 if kind == "list" else 0)
    if kind == "code":
        shape.setBackground(QColor(theme.current().code))
    elif _PICTURE not in block.text():  # a picture's line would grow with it
        shape.setLineHeight(_LEADING, QTextBlockFormat.LineHeightTypes.ProportionalHeight.value)
    return shape


def _kind(block: QTextBlock) -> str:
    if block.blockFormat().hasProperty(QTextFormat.Property.BlockCodeLanguage):
        return "code"
    return "list" if block.textList() is not None else "text"


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
            item = QListWidgetItem(page_title(page), self.list)
            item.setSizeHint(QSize(0, theme.line_height() + 8))
        self.list.currentRowChanged.connect(self._show)
        self.text.anchorClicked.connect(self._follow)
        theme.notifier.changed.connect(self._again)
        self.list.setCurrentRow(0)
        self.resize(theme.em() * 74, theme.line_height() * 40)

    def show_named(self, name: str) -> None:
        """Show the page with this file name; nothing happens if there is none."""
        row = next((i for i, page in enumerate(self._pages) if page.name == name), None)
        if row is not None:
            self.list.setCurrentRow(row)

    def _show(self, row: int) -> None:
        if 0 <= row < len(self._pages):
            self.said.hide()
            self.text.show_page(self._pages[row].read_text(encoding="utf-8"))

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
