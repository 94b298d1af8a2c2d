"""Pages of HTML as tests see them: parsed, and in a browser where there is one."""

from html.parser import HTMLParser

import pytest

from browser import find_chromium

needs_browser = pytest.mark.skipif(
    find_chromium() is None,
    reason="no Chromium on this machine: the page is not seen by a browser (apt install chromium)",
)

WITHOUT_CONTENT = {"meta", "link", "img"}


class Page(HTMLParser):
    """A parsed page: elements with their attributes, text by element, and whether every element was closed."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.texts, self.open = [], [], []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in WITHOUT_CONTENT:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append((self.open[-1] if self.open else "", data))

    def all(self, name):
        return [attributes for tag, attributes in self.elements if tag == name]

    def words(self, *names):
        return [data for tag, data in self.texts if tag in names]
