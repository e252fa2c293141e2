"""The page's own style and script; the plotting library comes beside them."""

STYLE = """
:root { color-scheme: light dark; --back: #ffffff; --text: #1a1d21; --soft: #5b636e; --line: #d9dde3; --card: #f6f7f9;
  --good: #12703a; --bad: #b3261e; --wait: #7a5a00; --add: #dcf3e3; --del: #fbe3e1; }
@media (prefers-color-scheme: dark) { :root { --back: #14171a; --text: #e8eaed; --soft: #a3abb5; --line: #353b42;
  --card: #1d2125; --good: #6fd197; --bad: #ff9a90; --wait: #e5c05c; --add: #173d26; --del: #4a1f1c; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 2rem 1.25rem 4rem; max-width: 68rem; background: var(--back); color: var(--text);
  font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.7rem; margin: 0 0 .25rem; } h2 { font-size: 1.2rem; margin: 2.5rem 0 .5rem; }
.verdict { border-left: .5rem solid; padding: .75rem 1.25rem; background: var(--card); }
.pass { color: var(--good); } .fail { color: var(--bad); } .skip { color: var(--wait); }
.verdict p { margin: 0; color: var(--text); } .soft { color: var(--soft); }
table { border-collapse: collapse; width: 100%; font-size: .92rem; }
th, td { text-align: left; padding: .35rem .6rem; border-bottom: 1px solid var(--line); vertical-align: top; }
td.number { font-variant-numeric: tabular-nums; white-space: nowrap; } td.name { white-space: nowrap; }
.scroll { overflow-x: auto; } figure { margin: 1.5rem 0 0; } figcaption { color: var(--soft); font-size: .92rem; }
figure h3 { margin: 0; font-size: 1.02rem; } .plot { min-height: 20rem; width: 100%; }
pre { overflow-x: auto; background: var(--card); padding: .75rem 1rem; font: 13px/1.45 ui-monospace, monospace; }
pre span { display: block; min-width: max-content; } .add { background: var(--add); } .del { background: var(--del); }
.at { color: var(--soft); }
"""

SCRIPT = """
"use strict";
const LIGHT = { original: "#0067a5", amp: "#c4500c", band: "rgba(0,103,165,.16)", bad: "#a3195b",
  text: "#1a1d21", grid: "#e3e6ea" };
const DARK = { original: "#5cb3f0", amp: "#f5a05a", band: "rgba(92,179,240,.22)", bad: "#ff7eb6",
  text: "#e8eaed", grid: "#353b42" };
const dark = window.matchMedia("(prefers-color-scheme: dark)");
function coloured(value, colours) {
  if (typeof value === "string" && value.startsWith("@")) return colours[value.slice(1)];
  if (Array.isArray(value)) return value.map((item) => coloured(item, colours));
  if (value && typeof value === "object")
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, coloured(item, colours)]));
  return value;
}
function draw() {
  const colours = dark.matches ? DARK : LIGHT;
  for (const figure of FIGURES) {
    const layout = coloured(figure.layout, colours);
    const clear = "rgba(0,0,0,0)";
    Object.assign(layout, { paper_bgcolor: clear, plot_bgcolor: clear, font: { color: colours.text },
      margin: { t: 40, r: 20, b: 50, l: 60 } });
    for (const axis of [layout.xaxis, layout.yaxis])
      Object.assign(axis, { gridcolor: colours.grid, zerolinecolor: colours.grid });
    Plotly.react(figure.name, coloured(figure.traces, colours), layout, { responsive: true, displayModeBar: false });
  }
  document.body.dataset.drawn = FIGURES.length;
}
dark.addEventListener("change", draw);
draw();
"""
