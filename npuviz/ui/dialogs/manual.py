"""The dialog that shows the documentation offline: the Markdown pages that come with npuviz."""

from pathlib import Path

from PySide6.QtCore import Qt, QUrl
from PySide6.QtGui import (
    QImageReader,
    QTextBlock,
    QTextCursor,
    QTextFormat,
    QTextFrameFormat,
    QTextLength,
    QTextOption,
    QTextTable,
)
from PySide6.QtWidgets import QDialog, QLineEdit, QListWidget, QListWidgetItem, QTextBrowser, QWidget

from npuviz.ui.kit.parts import column, fill, splitter
from npuviz.ui.theme.theme import Theme
from npuviz.workbench.manual import Page, pages, read_page

SIZE = (980, 720)
FIRST = "window.md"
LIST_WIDTH = 240
MARGIN, GAP, TABLE_PADDING = 16.0, 8.0, 5.0


class ManualDialog(QDialog):
    """A list of pages, which a search reduces to those that contain its words, and the chosen page."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self.setObjectName("dialog.manual")
        self.setWindowTitle("Documentation")
        self.resize(*SIZE)
        self._pages = pages()
        self.search = QLineEdit(self, placeholderText="Search the documentation", clearButtonEnabled=True)
        self.search.setObjectName("manual.search")
        self.search.setAccessibleName("Search")
        self.search.textChanged.connect(self._list_pages)
        self.list = QListWidget(self)
        self.list.setObjectName("manual.pages")
        self.list.setAccessibleName("Pages")
        self.list.currentItemChanged.connect(self._show_item)
        self.page = QTextBrowser(self, openLinks=False)
        self.page.setObjectName("manual.page")
        self.page.setAccessibleName("Page")
        self.page.setWordWrapMode(QTextOption.WrapMode.WrapAtWordBoundaryOrAnywhere)
        self.page.anchorClicked.connect(self._follow)
        parts = splitter(Qt.Orientation.Horizontal, (column(self.search, (self.list, 1)), 0), (self.page, 1))
        parts.setSizes([LIST_WIDTH, SIZE[0] - LIST_WIDTH])
        fill(self, parts, margins=(8, 8, 8, 8))
        self._list_pages("")
        self.show_page(FIRST)

    def show_page(self, name: str) -> bool:
        """Show the page of a file name; return whether it is in the list."""
        for row in range(self.list.count()):
            if self.list.item(row).data(Qt.ItemDataRole.UserRole) == name:
                self.list.setCurrentRow(row)
                return True
        return False

    def _list_pages(self, text: str) -> None:
        words = text.lower().split()
        has_current = self.list.currentRow() >= 0
        kept = self.list.currentItem().data(Qt.ItemDataRole.UserRole) if has_current else ""
        self.list.blockSignals(True)
        self.list.clear()
        for page in self._pages:
            if all(word in page.folded for word in words):
                item = QListWidgetItem(page.title, self.list)
                item.setData(Qt.ItemDataRole.UserRole, page.path.name)
        self.list.blockSignals(False)
        if not self.show_page(kept) and self.list.count():
            self.list.setCurrentRow(0)

    def _show_item(self, item: QListWidgetItem | None, _before: object = None) -> None:
        page = self._page_named(item.data(Qt.ItemDataRole.UserRole)) if item is not None else None
        if page is None:
            self.page.setMarkdown("This installation holds no documentation." if not self._pages else "")
            return
        self.page.setSearchPaths([str(page.path.parent)])
        self.page.document().setBaseUrl(QUrl.fromLocalFile(str(page.path)))
        self.page.setMarkdown(read_page(page.path))
        self._space_out()
        words = self.search.text().split()
        if words:
            self.page.find(words[0])

    def _space_out(self) -> None:
        """Add space above paragraphs and headings, which Qt's Markdown lacks."""
        document = self.page.document()
        document.setDocumentMargin(MARGIN)
        cursor, block = QTextCursor(document), document.begin()
        # One edit, so that the page is laid out once and not after every paragraph.
        cursor.beginEditBlock()
        while block.isValid():
            form = block.blockFormat()
            cursor.setPosition(block.position())
            form.setTopMargin(_room_above(block, cursor))
            # Long lines of code are wrapped, so that the page need not be scrolled sideways.
            form.setNonBreakableLines(False)
            cursor.setBlockFormat(form)
            self._fit_pictures(block)
            block = block.next()
        for frame in document.rootFrame().childFrames():
            if isinstance(frame, QTextTable):
                self._rule(frame)
        cursor.endEditBlock()
        self.page.moveCursor(QTextCursor.MoveOperation.Start)

    def _fit_pictures(self, block: QTextBlock) -> None:
        """Scale pictures of a paragraph down to the width of the page."""
        room = self.page.viewport().width() - 2 * MARGIN
        pieces = block.begin()
        while not pieces.atEnd():
            piece = pieces.fragment()
            form = piece.charFormat()
            if form.isImageFormat():
                form = form.toImageFormat()
                file = self.page.document().baseUrl().resolved(QUrl(form.name())).toLocalFile()
                if QImageReader(file).size().width() > room:
                    form.setWidth(room)
                    cursor = QTextCursor(block)
                    cursor.setPosition(piece.position())
                    cursor.setPosition(piece.position() + piece.length(), QTextCursor.MoveMode.KeepAnchor)
                    cursor.setCharFormat(form)
                    return
            pieces += 1

    def _rule(self, table: QTextTable) -> None:
        """Give a table a line below each row, and no frame."""
        form = table.format()
        form.setBorder(0)
        form.setCellSpacing(0)
        form.setBorderCollapse(True)
        form.setCellPadding(TABLE_PADDING)
        form.setWidth(QTextLength())
        table.setFormat(form)
        for row in range(table.rows()):
            for column_number in range(table.columns()):
                cell = table.cellAt(row, column_number)
                below = cell.format().toTableCellFormat()
                below.setBottomBorder(1)
                below.setBottomBorderStyle(QTextFrameFormat.BorderStyle.BorderStyle_Solid)
                below.setBottomBorderBrush(self._theme.color("border"))
                cell.setFormat(below)

    def _page_named(self, name: str) -> Page | None:
        return next((page for page in self._pages if page.path.name == name), None)

    def _follow(self, url: QUrl) -> None:
        # Pages lead to pages; nothing is fetched from elsewhere.
        name = Path(url.path()).name
        if self._page_named(name) is not None:
            self.search.clear()
            self.show_page(name)
        elif url.hasFragment() and not url.path():
            self.page.scrollToAnchor(url.fragment())


def _room_above(block: QTextBlock, cursor: QTextCursor) -> float:
    """Return the pixels of space above a block, at whose beginning the cursor is."""
    if block.textList() or cursor.currentTable():
        return 2.0
    if block.blockFormat().headingLevel():
        return 2.0 * GAP
    return 0.0 if _is_code(block) and _is_code(block.previous()) else GAP


def _is_code(block: QTextBlock) -> bool:
    return block.isValid() and block.blockFormat().hasProperty(QTextFormat.Property.BlockCodeFence)
