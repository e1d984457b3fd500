"""Turn the tokens of a theme into a Qt palette and a style sheet, and apply them to the application."""

from PySide6.QtCore import Qt
from PySide6.QtGui import QPalette
from PySide6.QtWidgets import QApplication, QStyleFactory

from npuviz.ui.theme.theme import ROW_HEIGHT, SIZE_NOTE, SIZE_TITLE, Theme
from npuviz.workbench.resources import resource_path

_LOOK = "npuviz font and palette"
"""Name of the Qt property in which the application keeps the font and palette that were set last."""
_SHEET = """
QMainWindow, QDialog {{ background: {background}; }}
QMainWindow::separator {{ background: {background}; width: 4px; height: 4px; }}
QMainWindow::separator:hover {{ background: {border}; }}
QToolTip {{ background: {raised}; color: {text}; border: 1px solid {border}; padding: 4px; }}

QMenuBar {{ background: {background}; padding: 0 4px; }}
QMenuBar::item {{ padding: 4px 8px; border-radius: 4px; background: transparent; }}
QMenuBar::item:selected {{ background: {hover}; }}
QMenu {{ background: {raised}; border: 1px solid {border}; padding: 4px; }}
QMenu::item {{ padding: 4px 24px 4px 24px; border-radius: 4px; }}
QMenu::item:selected {{ background: {selection}; color: {selection_text}; }}
QMenu::item:disabled {{ color: {text_disabled}; }}
QMenu::separator {{ height: 1px; background: {border}; margin: 4px 8px; }}

QToolBar {{ background: {background}; border: none; spacing: 4px; padding: 4px 8px; }}
QToolBar::separator {{ background: {border}; width: 1px; margin: 4px 8px; }}
QToolButton {{ border: none; border-radius: 4px; padding: 4px; background: transparent; }}
QToolButton:hover {{ background: {hover}; }}
QToolButton:pressed, QToolButton:checked {{ background: {selection}; color: {selection_text}; }}
QToolButton:focus {{ outline: none; border: 1px solid {accent}; padding: 3px; }}

QPushButton {{ background: {raised}; border: 1px solid {border}; border-radius: 4px; padding: 4px 12px;
  min-height: 14px; }}
QPushButton:hover {{ background: {hover}; }}
QPushButton:focus {{ border-color: {accent}; }}
QPushButton:disabled {{ color: {text_disabled}; }}
QPushButton:default {{ background: {accent}; border-color: {accent}; color: {accent_text}; }}
QPushButton:flat {{ background: transparent; border: 1px solid transparent; padding: 4px 8px; }}
QPushButton:flat:hover {{ background: {hover}; }}
QPushButton:flat:focus {{ border-color: {accent}; }}
#sample_card {{ background: {surface}; border: 1px solid {border}; }}
#sample_card:hover {{ background: {hover}; }}
#sample_card:focus {{ border-color: {accent}; }}

#toolbar\\.search {{ text-align: left; color: {text_muted}; padding: 4px 8px; }}
#toolbar\\.position {{ text-align: left; }}

QLineEdit, QPlainTextEdit, QTextEdit, QSpinBox, QComboBox {{ background: {surface};
  border: 1px solid {border}; border-radius: 4px; padding: 2px 8px; selection-background-color: {selection};
  selection-color: {selection_text}; }}
QLineEdit:focus, QPlainTextEdit:focus, QTextEdit:focus, QSpinBox:focus, QComboBox:focus {{
  border-color: {accent}; }}
QLineEdit, QComboBox, QSpinBox {{ min-height: 18px; }}
QSpinBox QLineEdit {{ background: transparent; border: none; padding: 0; min-height: 0; }}
QSpinBox::up-button, QSpinBox::down-button {{ width: 0; border: none; }}
QComboBox::drop-down {{ border: none; width: 20px; }}
QComboBox::down-arrow {{ image: url("{chevron}"); width: 12px; height: 12px; }}
QComboBox QAbstractItemView {{ background: {raised}; border: 1px solid {border}; padding: 4px; }}

QDockWidget > QWidget {{ background: {surface}; }}
#dock_title {{ background: {background}; }}
#dock_title_text {{ color: {text_muted}; font-size: {note}px; font-weight: 600; }}
#dock_title QToolButton {{ padding: 1px; }}

QTabBar {{ background: {background}; qproperty-drawBase: 0; }}
QTabBar::tab {{ background: transparent; color: {text_muted}; padding: 4px 12px; border: none;
  border-bottom: 2px solid transparent; font-size: {note}px; }}
QTabBar::tab:selected {{ color: {text}; border-bottom: 2px solid {accent}; }}
QTabBar::tab:hover:!selected {{ color: {text}; background: {hover}; }}
QTabWidget::pane {{ border: none; }}

QAbstractItemView {{ background: {surface}; alternate-background-color: {alternate}; border: none;
  outline: none; selection-background-color: {selection}; selection-color: {selection_text}; }}
QTreeView::item, QListView::item {{ min-height: {row}px; }}
QTreeView::item:hover, QListView::item:hover, QTableView::item:hover {{ background: {hover}; }}
QTreeView::item:selected, QListView::item:selected, QTableView::item:selected {{
  background: {selection}; color: {selection_text}; }}
QHeaderView {{ background: {surface}; border: none; }}
QHeaderView::section {{ background: {surface}; color: {text_muted}; border: none;
  border-bottom: 1px solid {border}; padding: 2px 8px; font-size: {note}px; min-height: 18px; }}
QHeaderView::section:vertical {{ border: none; }}
QHeaderView::up-arrow, QHeaderView::down-arrow {{ subcontrol-origin: padding; subcontrol-position: top center;
  width: 8px; height: 6px; }}
QHeaderView::up-arrow {{ image: url("{chevron_up}"); }}
QHeaderView::down-arrow {{ image: url("{chevron}"); }}
QTableView::item {{ padding: 0 5px; }}
QTableCornerButton::section {{ background: {surface}; border: none; }}
QAbstractScrollArea::corner {{ background: transparent; border: none; }}

QScrollBar:vertical {{ background: transparent; width: 10px; margin: 0; }}
QScrollBar:horizontal {{ background: transparent; height: 10px; margin: 0; }}
QScrollBar::handle {{ background: {border}; border-radius: 3px; margin: 2px; min-width: 24px;
  min-height: 24px; }}
QScrollBar::handle:hover {{ background: {text_disabled}; }}
QScrollBar::add-line, QScrollBar::sub-line {{ width: 0; height: 0; }}
QScrollBar::add-page, QScrollBar::sub-page {{ background: transparent; }}

QSplitter::handle {{ background: {border}; }}
QProgressBar {{ background: {raised}; border: none; border-radius: 2px; max-height: 4px; min-height: 4px; }}
QProgressBar::chunk {{ background: {accent}; border-radius: 2px; }}
QStatusBar {{ background: {background}; color: {text_muted}; font-size: {note}px; min-height: 24px; }}
QStatusBar::item {{ border: none; }}
QStatusBar QLabel {{ color: {text_muted}; font-size: {note}px; padding: 0 8px; }}
QStatusBar QLabel#status\\.cycle {{ color: {text}; }}

#empty_state\\.text {{ color: {text_muted}; }}
#muted, QLabel[role="muted"] {{ color: {text_muted}; }}
#title {{ font-size: {title}px; font-weight: 600; }}
#note {{ color: {text_muted}; font-size: {note}px; }}
#palette_box {{ background: {raised}; border: 1px solid {border}; border-radius: 8px; }}
#palette_box QListView {{ background: {raised}; }}
#error_bar {{ background: {raised}; border-left: 3px solid {error}; }}
#error_bar[severity="notice"] {{ border-left-color: {accent}; }}
#error_bar QPlainTextEdit {{ color: {text_muted}; }}
#key_cap {{ background: {surface}; border: 1px solid {border}; border-radius: 4px; padding: 2px 8px; }}
"""


def palette_of(theme: Theme) -> QPalette:
    """Return the Qt palette of a theme."""
    palette = QPalette()
    group = QPalette.ColorGroup
    role = QPalette.ColorRole
    pairs = {
        role.Window: "background", role.WindowText: "text", role.Base: "surface",
        role.AlternateBase: "alternate", role.Text: "text", role.Button: "raised",
        role.ButtonText: "text", role.ToolTipBase: "raised", role.ToolTipText: "text",
        role.Highlight: "selection", role.HighlightedText: "selection-text", role.Link: "accent",
        role.LinkVisited: "accent", role.PlaceholderText: "text-disabled", role.BrightText: "error",
        role.Light: "raised", role.Midlight: "raised", role.Mid: "border", role.Dark: "border",
        role.Shadow: "shadow", role.Accent: "accent",
    }  # fmt: skip
    for color_role, token in pairs.items():
        palette.setColor(color_role, theme.color(token))
    for color_role in (role.WindowText, role.Text, role.ButtonText):
        palette.setColor(group.Disabled, color_role, theme.color("text-disabled"))
    return palette


def style_sheet(theme: Theme) -> str:
    """Return the style sheet of a theme."""
    tokens = (
        "background", "surface", "raised", "alternate", "border", "text", "text-muted", "text-disabled",
        "accent", "accent-text", "selection", "selection-text", "hover", "error",
    )  # fmt: skip
    colors = {token.replace("-", "_"): theme.color(token).name() for token in tokens}
    shade = "dark" if theme.is_dark else "light"
    chevrons = {
        name: resource_path(f"icons/{name.replace('_', '-')}-{shade}.svg").as_posix()
        for name in ("chevron", "chevron_up")
    }
    return _SHEET.format(**colors, **chevrons, row=ROW_HEIGHT, note=SIZE_NOTE, title=SIZE_TITLE)


def apply_theme(app: QApplication, theme: Theme) -> None:
    """Set font, palette and style sheet of the application, unless they are the same as before."""
    font, palette, sheet = theme.font_ui(), palette_of(theme), style_sheet(theme)
    # Qt gives every widget its style anew, even where nothing differs.
    if app.styleSheet() != sheet or app.property(_LOOK) != (font, palette):
        # Behind a style sheet Qt does not tell the name of the style.
        if not app.styleSheet():
            app.setStyle(QStyleFactory.create("Fusion"))
        app.setFont(font)
        app.setPalette(palette)
        app.setStyleSheet(sheet)
        app.setProperty(_LOOK, (font, palette))
    hints = app.styleHints()
    if theme.mode == "system":
        hints.unsetColorScheme()
    else:
        hints.setColorScheme(Qt.ColorScheme.Dark if theme.is_dark else Qt.ColorScheme.Light)
