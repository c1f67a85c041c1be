"""Shows files of the repository that pages link to as pages of the site.

A page may link to `../agents/scripts/configs.py`, as one does to be read in the
repository. In the site there is a page `source/agents/scripts/configs.py.md`
of it. Tests, which are named by their file and their function, become links
too, of the words of their names.
"""

import json
import pathlib
import re

from mkdocs.structure.files import File

ROOT = pathlib.Path(__file__).parent.parent
LINK = re.compile(r'\]\(([\w./-]+)(#[\w-]+)?\)')
TEST = re.compile(r'`(tests/[\w/]+\.py)::test_(\w+)`')
LANGUAGES = {'.py': 'python', '.toml': 'toml', '.yml': 'yaml'}


def on_files(files, config):
    """Add a page for each file that is linked to."""
    waiting = [file.src_uri for file in files.documentation_pages()]
    waiting = [(uri, _link_tests(_read(ROOT / 'docs' / uri))) for uri in waiting]
    while waiting:
        uri, text = waiting.pop()
        for path in _linked(uri, text):
            uri = _uri(path)
            if files.get_file_from_path(uri) is None:
                content = _page(path)
                files.append(File.generated(config, uri, content=content))
                if path.suffix == '.md':
                    waiting.append((uri, content))
    return files


def on_page_markdown(markdown, page, config, files):
    """Let links to files lead to their pages."""
    depth = page.file.src_uri.count('/')

    def replace(match):
        path = _resolve(page.file.src_uri, match)
        if path is None:
            return match[0]
        return f']({"../" * depth}{_uri(path)}{match[2] or ""})'

    if page.file.src_uri.startswith('source/'):
        code = page.file.src_uri.endswith('.py.md')
        return markdown if code else LINK.sub(replace, markdown)
    return LINK.sub(replace, _link_tests(markdown))


def _link_tests(text):
    """Let tests be links, in tables each in a line of its own."""
    text = re.sub(r'(?<=`)\n(?=`tests/)', ' ', text)
    text = '\n'.join(
        re.sub(r'(?<=[`)]) (?=`tests/)', '<br>' if line[:1] == '|' else ', ', line)
        for line in text.split('\n')
    )
    return TEST.sub(lambda found: f'[{found[2].replace("_", " ")}](../{found[1]})', text)


def _linked(uri, text):
    """The files outside of the documents that a text links to."""
    found = (_resolve(uri, match) for match in LINK.finditer(text))
    return sorted({path for path in found if path is not None})


def _resolve(uri, match):
    """The path in the repository that a link means, if it leaves docs."""
    start = pathlib.PurePosixPath('docs') / uri
    if uri.startswith('source/'):
        start = pathlib.PurePosixPath(uri).relative_to('source')
    place = (ROOT / start.parent / match[1]).resolve()
    if place.is_relative_to(ROOT / 'docs') or not place.is_relative_to(ROOT):
        return None
    if not place.is_file():
        raise FileNotFoundError(f'{uri} links to {place}, which is no file.')
    return place.relative_to(ROOT)


def _uri(path):
    ends = '' if path.suffix == '.md' else '.md'
    visible = '/'.join(part.lstrip('.') for part in path.parts)
    return f'source/{visible}{ends}'


def _page(path):
    text = _read(ROOT / path)
    if path.suffix == '.md':
        return text
    if path.suffix == '.ipynb':
        return '\n\n'.join(map(_show_cell, json.loads(text)['cells']))
    language = LANGUAGES.get(path.suffix, 'text')
    head = f'---\nsearch: {{exclude: true}}\n---\n\n# {path.name}\n\n'
    return f'{head}`{path}`\n\n````{language}\n{text}````\n'


def _show_cell(cell):
    text = ''.join(cell['source'])
    code = cell['cell_type'] == 'code'
    return f'````python\n{text}\n````' if code else text


def _read(path):
    return path.read_text(encoding='utf-8')
