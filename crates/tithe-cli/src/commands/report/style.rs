//! The style sheet of the report: light and dark, narrow and wide screens, and paper.

pub const STYLE: &str = "
:root { color-scheme: light dark; --ink: #1f2328; --soft: #59636e; --line: #d1d9e0; --faint: #f3f5f7; --page: #ffffff; --mark: #0b6bcb;
  --good: #1a7f37; --good-page: #eaf6ed; --bad: #bc4c00; --bad-page: #fdf0e6 }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --soft: #9aa4af; --line: #3d444d; --faint: #1c2128; --page: #0d1117;
  --mark: #4aa3ff; --good: #3fb950; --good-page: #10261a; --bad: #f0883e; --bad-page: #2b1c10 } }
* { box-sizing: border-box }
body { font: 15px/1.5 system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif; color: var(--ink); background: var(--page);
  max-width: 60rem; margin: 0 auto; padding: 1.2rem 1rem 3rem; overflow-wrap: break-word }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 1rem 0 .6rem } h2 { font-size: 1.15rem; margin: 2.2rem 0 .5rem }
h3 { font-size: 1rem; margin: 1.2rem 0 .4rem }
p { margin: .5rem 0; max-width: 46rem } p.lead { font-size: 1.08rem } .note { color: var(--soft); font-size: .88rem }
details { margin: .8rem 0; border-top: 1px solid var(--line); padding-top: .5rem }
summary { cursor: pointer; font-weight: 600; font-size: 1.08rem }
.ok, .warning { border-left: 4px solid var(--good); background: var(--good-page); padding: .5rem .9rem; margin: 1rem 0 }
.warning { border-color: var(--bad); background: var(--bad-page) } .ok p, .warning p { margin: .25rem 0 }
.wide { overflow-x: auto } table { border-collapse: collapse; font-variant-numeric: tabular-nums }
th, td { padding: .22rem .6rem; text-align: right; white-space: nowrap } th { border-bottom: 1px solid var(--soft); font-weight: 600 }
tr + tr td { border-top: 1px solid var(--line) } th:first-child, td:first-child { text-align: left; padding-left: 0 }
td.name { white-space: normal; overflow-wrap: anywhere; min-width: 7rem } tr.group td { font-weight: 600; border-top: 1px solid var(--soft) }
td.level { padding-left: 1.2rem !important } td.off { color: var(--bad); font-weight: 600 }
table.facts td { text-align: left; white-space: normal; vertical-align: top; overflow-wrap: anywhere }
table.facts td:first-child { min-width: 7rem; width: 11rem; color: var(--soft) }
.forest { display: grid; grid-template-columns: minmax(8rem, 15rem) minmax(0, 1fr) max-content; column-gap: .9rem; align-items: center;
  margin: .8rem 0 }
.forest .row, .forest .head { display: contents } .forest .name { overflow-wrap: anywhere; line-height: 1.25; padding: .12rem 0 }
.forest .head .name { grid-column: 1 / -1; font-weight: 600; margin-top: .5rem } .forest .level { padding-left: 1rem }
.forest .value { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap } .forest .value span { color: var(--soft) }
.forest small { color: var(--soft) } .forest svg { display: block; width: 100%; height: 22px; overflow: visible }
.forest svg.axis { height: 34px }
svg text { fill: var(--soft); font-size: 11px } svg .grid { stroke: var(--line) } svg .one { stroke: var(--soft); stroke-dasharray: 3 3 }
svg .bar { stroke: var(--mark); stroke-width: 2.5 } svg .dot, svg .tip { fill: var(--mark) } svg .unclear { opacity: .55 }
svg .curve { fill: none; stroke: var(--mark); stroke-width: 2 } svg .frame { fill: none; stroke: var(--line) }
.pair { display: flex; flex-wrap: wrap; gap: 1.2rem } .pair figure { margin: 0; flex: 1 1 16rem; max-width: 24rem }
figure svg { width: 100%; height: auto } figcaption { color: var(--soft); font-size: .88rem }
.chart { background: #fff; border-radius: 4px; padding: .3rem; overflow-x: auto } .chart svg { max-width: 100%; height: auto }
.chart svg text { fill: inherit; font-size: inherit }
@media (max-width: 640px) {
  .forest { grid-template-columns: minmax(0, 1fr) max-content }
  .forest .row .name { grid-column: 1 / -1; margin-top: .35rem } .forest .pad { display: none } h1 { font-size: 1.35rem }
  th, td { padding: .2rem .4rem } .forest .value { font-size: .88rem }
}
@media print {
  :root { --ink: #000; --soft: #444; --line: #bbb; --faint: #fff; --page: #fff; --mark: #0b4f9e; --good-page: #fff; --bad-page: #fff }
  body { max-width: none; font-size: 10.5pt } h2, summary { break-after: avoid } .forest .row, tr, figure { break-inside: avoid }
  details::details-content { content-visibility: visible; block-size: auto } .wide, .chart { overflow: visible }
}
";
