"""The page's own style: it needs no script and no network."""

STYLE = """
:root { color-scheme: light dark; --back: #ffffff; --text: #1a1d21; --soft: #5b636e; --line: #d9dde3; --card: #f6f7f9;
  --good: #12703a; --bad: #b3261e; --wait: #7a5a00; --add: #dcf3e3; --del: #fbe3e1;
  --original: #0067a5; --amp: #c4500c; --band: rgba(0,103,165,.16); --mark: #a3195b; --grid: #e3e6ea; }
@media (prefers-color-scheme: dark) { :root { --back: #14171a; --text: #e8eaed; --soft: #a3abb5; --line: #353b42;
  --card: #1d2125; --good: #6fd197; --bad: #ff9a90; --wait: #e5c05c; --add: #173d26; --del: #4a1f1c;
  --original: #5cb3f0; --amp: #f5a05a; --band: rgba(92,179,240,.22); --mark: #ff7eb6; --grid: #353b42; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 2rem 1.25rem 4rem; max-width: 68rem; background: var(--back); color: var(--text);
  font: 16px/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.7rem; margin: 0 0 .25rem; } h2 { font-size: 1.2rem; margin: 2.5rem 0 .5rem; }
.verdict { border-left: .5rem solid; padding: .75rem 1.25rem; background: var(--card); }
.pass { color: var(--good); } .fail { color: var(--bad); } .skip { color: var(--wait); }
.verdict p { margin: 0; color: var(--text); } .soft { color: var(--soft); }
table { border-collapse: collapse; width: 100%; font-size: .92rem; }
th, td { text-align: left; padding: .35rem .6rem; border-bottom: 1px solid var(--line); vertical-align: top; }
td.number { font-variant-numeric: tabular-nums; white-space: nowrap; } td.name { min-width: 9rem; }
figure { margin: 1.5rem 0 0; } figcaption { color: var(--soft); font-size: .92rem; max-width: 40rem; }
figure h3 { margin: 0; font-size: 1.02rem; }
svg { display: block; width: 100%; max-width: 40rem; } svg text { font: 11px system-ui, sans-serif; fill: var(--text); }
svg text.soft { fill: var(--soft); } svg .end { text-anchor: end; } svg .middle { text-anchor: middle; }
svg .grid { stroke: var(--grid); } svg .line { fill: none; stroke-width: 1.5; stroke-linejoin: round; stroke-linecap: round; }
svg .line.original { stroke: var(--original); } svg .line.amp { stroke: var(--amp); } svg .line.bad { stroke: var(--mark); }
svg .dotted { stroke-dasharray: 1 3; stroke-width: 2; } svg .band { fill: var(--band); }
svg rect.original { fill: var(--original); } svg rect.amp { fill: var(--amp); } svg rect.bad { fill: var(--mark); }
.legend { margin: 0; font-size: .88rem; } .legend span { display: inline-block; margin-right: 1rem; }
.legend i { display: inline-block; width: 1.2em; margin-right: .4em; vertical-align: middle; border-top: 3px solid var(--soft); }
.legend .original { border-color: var(--original); } .legend .amp { border-color: var(--amp); }
.legend .bad { border-color: var(--mark); } .legend .dotted { border-top-style: dotted; }
.legend .band { border-top-width: .7em; border-color: var(--band); }
pre { overflow-x: auto; background: var(--card); padding: .75rem 1rem; font: 13px/1.45 ui-monospace, monospace; }
pre span { display: block; min-width: max-content; } .add { background: var(--add); } .del { background: var(--del); }
.at { color: var(--soft); }
@media (max-width: 40rem) {
  body { padding: 1rem .75rem 3rem; } thead { display: none; } table, tbody, tr, td { display: block; }
  tr { border-bottom: 1px solid var(--line); padding: .4rem 0; } td { border: 0; padding: .05rem 0; }
  td:empty { display: none; } td.number::before { content: attr(data-name) " "; color: var(--soft); }
}
"""
