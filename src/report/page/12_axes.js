// What charts share: a tip that stays inside the window, drawing at the width there is, and labels that keep clear of each other.

const tip = el("div", { id: "tip", hidden: true });
document.body.append(tip);
// Next to the pointer, on the side that has room.
function showTip(x, y, ...content) {
  tip.replaceChildren(...content);
  tip.hidden = false;
  const { width, height } = tip.getBoundingClientRect(), edge = 8, wide = document.documentElement.clientWidth;
  tip.style.left = `${Math.max(edge, x + 14 + width > wide - edge ? Math.min(x - 14 - width, wide - edge - width) : x + 14)}px`;
  tip.style.top = `${Math.max(edge, y + 16 + height > innerHeight - edge ? y - 12 - height : y + 16)}px`;
}
function hideTip() { tip.hidden = true; }
addEventListener("scroll", hideTip, { passive: true, capture: true });
function withTip(node, content) {
  node.addEventListener("pointermove", event => showTip(event.clientX, event.clientY, ...content()));
  node.addEventListener("pointerleave", hideTip);
  return node;
}

// Drawn again whenever the width changes; for paper, at the width of paper.
const PAPER = 700, redraws = [];
function chart(draw) {
  const box = el("div", { class: "chart" });
  let drawn = 0;
  const show = (width, printing = false) => {
    if (!width || width === drawn) return;
    drawn = width;
    box.replaceChildren(draw(width, printing));
  };
  new ResizeObserver(() => show(Math.round(box.clientWidth))).observe(box);
  redraws.push(printing => show(printing ? PAPER : Math.round(box.clientWidth), printing));
  return box;
}
addEventListener("beforeprint", () => { document.documentElement.dataset.print = ""; redraws.forEach(redraw => redraw(true)); });
addEventListener("afterprint", () => { delete document.documentElement.dataset.print; redraws.forEach(redraw => redraw(false)); });

// Hides labels that would run into one shown before them, and moves those into the frame that would leave it. The important ones come first.
function thin(labels, frame = null, room = 6) {
  const taken = [], edge = frame?.getBoundingClientRect();
  for (const label of labels) {
    label.style.visibility = label.style.marginLeft = "";
    let r = label.getBoundingClientRect();
    const over = edge ? Math.max(0, edge.left - r.left) - Math.max(0, r.right - edge.right) : 0;
    if (over) { label.style.marginLeft = `${over}px`; r = label.getBoundingClientRect(); }
    const clash = taken.some(t => r.left < t.right + room && t.left < r.right + room && r.top < t.bottom && t.top < r.bottom);
    if (clash) label.style.visibility = "hidden"; else taken.push(r);
  }
}
function thinned(node, labels) {
  const again = () => { if (node.offsetWidth) thin(labels(), node); };
  new ResizeObserver(again).observe(node);
  redraws.push(() => requestAnimationFrame(again));
  return node;
}

// Round numbers from low to high on a logarithmic axis: as many as are wanted or a few more, fewer where the axis is short.
function logTicks(low, high, wanted = 5) {
  let out = [];
  for (const steps of [[1], [1, 3], [1, 2, 5], [1, 1.5, 2, 3, 4, 5, 6, 8]]) {
    out = [];
    for (let e = Math.floor(Math.log10(low)) - 1; e <= Math.ceil(Math.log10(high)); ++e) for (const s of steps) { const v = s * 10 ** e; if (v >= low * 0.999 && v <= high * 1.001) out.push(v); }
    if (out.length >= wanted) return out;
  }
  return out.length > 1 ? out : [low, high];
}
function linearTicks(high, wanted = 5) {
  const unit = 10 ** Math.floor(Math.log10(high / wanted)), step = [1, 2, 5, 10].map(k => k * unit).find(k => high / k <= wanted) || high;
  const out = [];
  for (let v = 0; v <= high * 1.0001; v += step) out.push(v);
  return out;
}
// Green where a factor is a gain, red where it is a loss, neither where it rounds to one.
const gain = x => el("span", { class: Math.abs(x - 1) < 0.005 ? null : x > 1 ? "better" : "worse" }, times(x));
const tickText = v => v >= 1e5 || v < 0.001 && v > 0 ? v.toExponential(0) : String(Number(v.toPrecision(3)));
