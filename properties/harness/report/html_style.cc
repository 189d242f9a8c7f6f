#include "properties/harness/report/html_style.h"

namespace attest::html {

// Colours have a contrast of at least 4.5 to 1 on their ground in both schemes; none means anything
// that a word or a sign beside it does not say.
const std::string_view kStyle = R"css(
:root{color-scheme:light dark;--bg:#fff;--fg:#1b1f24;--soft:#57606a;--line:#d0d7de;--box:#f6f8fa;
--link:#0550ae;--good:#116329;--bad:#a40e26;--bad-bg:#ffebe9;--doubt:#7d4e00;--doubt-bg:#fff8c5;
--open:#6639ba;--seen:#b6d4f5;--mark:#fff3b0}
@media (prefers-color-scheme:dark){:root{--bg:#0d1117;--fg:#e6edf3;--soft:#9198a1;--line:#30363d;
--box:#161b22;--link:#79c0ff;--good:#56d364;--bad:#ff938a;--bad-bg:#3d1418;--doubt:#e3b341;
--doubt-bg:#332701;--open:#d2a8ff;--seen:#1f4068;--mark:#4a3c00}}
*{box-sizing:border-box}
body{margin:0 auto;padding:1rem;max-width:100rem;background:var(--bg);color:var(--fg);
font:14px/1.45 system-ui,sans-serif;overflow-wrap:anywhere}
h1,h2,h3,h4{line-height:1.25;margin:1.6em 0 .5em}
h1{font-size:1.4rem;margin-top:0}
h2{font-size:1.2rem;border-bottom:1px solid var(--line);padding-bottom:.2em}
h3{font-size:1.05rem}
h4{font-size:1rem}
p,ul,dl{margin:.5em 0}
code,pre,.grid td,.num{font-family:ui-monospace,"DejaVu Sans Mono",Menlo,Consolas,monospace;font-size:.92em}
pre{background:var(--box);border:1px solid var(--line);padding:.6em;overflow:auto;margin:.4em 0;
white-space:pre-wrap}
a{color:var(--link)}
:focus-visible{outline:2px solid var(--link);outline-offset:2px}
:target{scroll-margin-top:1rem}
article:target,tr:target{outline:2px solid var(--link);outline-offset:3px}
.skip{position:absolute;left:-99rem}
.skip:focus{position:static}
nav{display:flex;flex-wrap:wrap;gap:.3em 1.2em;margin:.6em 0}
.soft{color:var(--soft)}
.mark{white-space:nowrap;font-weight:600}
.good{color:var(--good)}.bad{color:var(--bad)}.doubt{color:var(--doubt)}.open{color:var(--open)}
.none{color:var(--soft);font-weight:400}
dl{display:flex;flex-wrap:wrap;gap:.2em 1.6em}
dl div{display:flex;gap:.5em}
dt{color:var(--soft)}
dd{margin:0}
.scroll{overflow:auto;max-width:100%;border:1px solid var(--line)}
#matrix .scroll{max-height:85vh}
table{border-collapse:collapse}
caption{text-align:left;color:var(--soft);padding:.3em .5em}
th,td{text-align:left;vertical-align:baseline;padding:.15em .6em;font-weight:400;
overflow-wrap:break-word}
td.num,th.num{text-align:right;white-space:nowrap}
thead th{font-weight:600;border-bottom:1px solid var(--line);vertical-align:bottom}
.wide{width:100%}
.wide tbody tr:hover{background:var(--box)}
.wide tbody th{white-space:nowrap}
.wide .group th,.wide .group td{font-weight:600;background:var(--box);border-top:1px solid var(--line)}
.wide .claim{color:var(--soft);min-width:18em}
.wide td:last-child{min-width:14em}
#matrix thead th{position:sticky;top:0;background:var(--bg);z-index:2;min-width:7em;max-width:14em}
#matrix tbody th:first-child,#matrix thead th:first-child{position:sticky;left:0;background:var(--bg);z-index:1}
#matrix thead th:first-child{z-index:3}
#matrix .group th:first-child{background:var(--box)}
#matrix td:not(.claim){white-space:nowrap}
#matrix td small{color:var(--soft);margin-left:.4em}
td.bad{background:var(--bad-bg)}td.doubt{background:var(--doubt-bg)}
.finding{border-left:3px solid var(--line);padding:.1em 0 .1em .8em;margin:1em 0}
.finding.bad{border-color:var(--bad);color:inherit}
.finding.doubt{border-color:var(--doubt);color:inherit}
.finding.open{border-color:var(--open);color:inherit}
.finding h4{margin:.2em 0}
.pictures{display:flex;flex-wrap:wrap;gap:.8em 1.6em;align-items:flex-start;margin:.6em 0}
.pictures .scroll{border:0}
figure{margin:0;max-width:100%}
figcaption{color:var(--soft);margin:.2em 0;max-width:34em}
.grid td,.grid thead th,.list td,.list thead th{text-align:right;padding:.05em .45em}
.grid th,.list th{font-size:.92em;color:var(--soft);white-space:nowrap}
.grid td{border:1px solid var(--line);text-align:center;min-width:1.7em}
.grid .seen{background:var(--seen)}
.grid .off{color:var(--soft)}
.grid .over{background:var(--bad-bg);color:var(--bad);font-weight:600}
.grid .at{outline:2px solid var(--bad);outline-offset:-2px}
.at>th,.list .at td{background:var(--mark);color:var(--fg)}
summary{cursor:pointer;color:var(--link);margin:.3em 0}
@media (max-width:40em){body{padding:.6rem}.wide .claim{min-width:14em}
.wide tbody th{white-space:normal;min-width:8em}
#matrix tbody th:first-child{white-space:normal;max-width:9.5em}#matrix thead th{min-width:5.5em;max-width:8em}}
@media print{body{max-width:none;padding:0;font-size:9.5pt}nav,.skip{display:none}
.scroll,#matrix .scroll,pre{overflow:visible;max-height:none;border:0}
#matrix thead th,#matrix tbody th:first-child{position:static}
details::details-content{content-visibility:visible;display:block;block-size:auto}
summary{list-style:none;color:inherit}figure,tr{break-inside:avoid}h3,h4{break-after:avoid}
.wide tbody th{white-space:normal}.wide td,.wide .claim{min-width:0}a{color:inherit;text-decoration:none}
.grid td,td,th{print-color-adjust:exact;-webkit-print-color-adjust:exact}}
)css";

}  // namespace attest::html
