"""Scripts lose their comments and blanks, and nothing else."""

from __future__ import annotations

import pytest

from coefdyn.widgets.lean import lean_script, lean_style


@pytest.mark.parametrize(
    ("text", "lean"),
    [
        ("const a = 1; // one\nlet b  =  a + +a - -a;", "const a=1;let b=a+ +a- -a;"),
        ('const s = "a  // b";', 'const s="a  // b";'),
        ("x = `a  ${ f( `  b ` ) }  // c`;", "x=`a  ${f(`  b `)}  // c`;"),
        ("y = s.replace(/[/\\s]  +/g, ' ');", "y=s.replace(/[/\\s]  +/g,' ');"),
        ("const h = a / b / c;", "const h=a/b/c;"),
        ("if (a) {\n  f();\n}\ng();", "if(a){f();}\ng();"),
        ("const f = (x) =>\n  x;\n  // gone\nreturn x in y", "const f=(x)=>\nx;return x in y"),
        ("x\n++y", "x\n++y"),
    ],
)
def test_script(text: str, lean: str) -> None:
    assert lean_script(text) == lean


def test_style() -> None:
    text = "/* a */\n.a > .b :is(c, d) {\n  margin: 0 auto; width: calc(1px + 2px);\n}\n"
    assert lean_style(text) == ".a > .b :is(c,d){margin:0 auto;width:calc(1px + 2px)}"
