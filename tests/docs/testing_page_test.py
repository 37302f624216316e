# SPDX-License-Identifier: Apache-2.0
"""Every test that the pages name exists, in the file that they name, and links
between the pages lead somewhere."""
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
# With the columns of their tables, of which the last one names tests.
PAGES = {ROOT / "docs" / "testing.md": 2, ROOT / "tests" / "sentinel" / "README.md": 5}
NAME = re.compile(r"`((?:src|tests)/[\w/.]+)`|\b([A-Z]\w+)\.(\w+)")


def named_tests():
    """(page, line number, file, suite, test) of the rows of the pages' tables."""
    for page, columns in PAGES.items():
        for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
            cells = line.split("|")
            if len(cells) != columns + 2 or cells[-2].strip() in ("ruled out by", "held by", "---"):
                continue
            file = None
            for path, suite, test in NAME.findall(cells[-2]):
                if path:
                    file = path
                    yield page.name, number, file, None, None
                else:
                    yield page.name, number, file, suite, test


class TestingPage(unittest.TestCase):
    def test_names_tests_that_exist(self):
        names = 0
        for page, number, file, suite, test in named_tests():
            with self.subTest(page=page, line=number, file=file, test=f"{suite}.{test}"):
                self.assertIsNotNone(file, "a test without its file")
                self.assertTrue((ROOT / file).is_file())
                if suite is None:
                    continue
                names += 1
                text = (ROOT / file).read_text(encoding="utf-8")
                if file.endswith(".py"):
                    self.assertRegex(text, rf"class {suite}\(")
                    self.assertRegex(text, rf"def {test}\(")
                else:
                    self.assertRegex(text, rf"TEST(_F|_P)?\(\s*{suite},\s*{test}\)")
        self.assertGreater(names, 100)

    def test_pages_link_to_files_that_exist(self):
        pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("tests/**/*.md"),
                 *ROOT.glob("bench/*.md")]
        for page in pages:
            for target in re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8")):
                if "://" in target:
                    continue
                with self.subTest(page=page.name, target=target):
                    self.assertTrue((page.parent / target).exists())


if __name__ == "__main__":
    unittest.main()
