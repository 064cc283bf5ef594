"""What is wrong with how a page is laid out, as sentences: text that is cut off, runs into other text or can hardly be read, and content
wider than the window. `PROBLEMS` runs in the page."""

PROBLEMS = r"""(() => {
  const out = [], wide = document.documentElement.clientWidth;
  const say = text => { if (out.length < 40) out.push(text); };
  if (document.documentElement.scrollWidth > wide + 1) say(`the page is ${document.documentElement.scrollWidth} wide in a window of ${wide}`);

  const shown = node => node.checkVisibility({ visibilityProperty: true, opacityProperty: true }) && !node.closest(".unseen, .skip, #tip, noscript");
  const where = node => `${node.closest("section, header")?.id || "header"}: “${node.textContent.trim().slice(0, 40)}”`;
  const texts = [], walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode, parent = node.parentElement;
    if (!node.textContent.trim() || /^(SCRIPT|STYLE|NOSCRIPT|OPTION)$/.test(parent.tagName) || !shown(parent)) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    for (const r of range.getClientRects()) if (r.width > 1 && r.height > 1) texts.push({ node, parent, left: r.left, right: r.right, top: r.top + scrollY, bottom: r.bottom + scrollY });
  }

  // Cut off: outside the window, or outside whatever hides what leaves it. What scrolls sideways is cut too, matrices apart.
  for (const t of texts) {
    if (t.left < -1 || t.right > wide + 1) if (!t.parent.closest(".matrix")) say(`outside the window: ${where(t.parent)}`);
    for (let box = t.parent; box && box !== document.body; box = box.parentElement) {
      const style = getComputedStyle(box), r = box.getBoundingClientRect();
      const cut = box instanceof SVGSVGElement ? style.overflow !== "visible" : style.overflowX !== "visible" || style.overflowY !== "visible";
      if (!cut || box.closest(".matrix")) continue;
      if (t.left < r.left - 1 || t.right > r.right + 1 || t.top - scrollY < r.top - 2 || t.bottom - scrollY > r.bottom + 2) { say(`cut off: ${where(t.parent)}`); break; }
    }
  }

  // Two texts on the same spot.
  const list = texts.filter(t => !t.parent.closest("header")).sort((a, b) => a.top - b.top);
  for (let i = 0; i < list.length; ++i) {
    for (let j = i + 1; j < list.length && list[j].top < list[i].bottom - 3; ++j) {
      const a = list[i], b = list[j];
      if (a.node === b.node || Math.min(a.right, b.right) - Math.max(a.left, b.left) < 2 || Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) < 4) continue;
      say(`over each other: ${where(a.parent)} and ${where(b.parent)}`);
    }
  }

  // Contrast of text to what is behind it, as WCAG 2 counts it: 4.5 at least.
  const numbers = text => { const m = text.match(/^rgba?\(([^)]+)\)$/); return m ? m[1].split(/[ ,/]+/).map(Number) : null; };
  const light = ([r, g, b]) => { const f = c => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4; return 0.2126 * f(r) + 0.7152 * f(g) + 0.0722 * f(b); };
  const seen = new Set();
  for (const { parent } of texts) {
    if (seen.has(parent)) continue;
    seen.add(parent);
    const style = getComputedStyle(parent), ink = numbers(parent instanceof SVGElement ? style.fill : style.color);
    let box = parent, paper = null;
    for (; box && !paper; box = box.parentElement) { const c = getComputedStyle(box).backgroundColor, n = numbers(c); if (!n) break; if (n.length < 4 || n[3] > 0.99) paper = n; }
    if (!ink || !paper) continue;
    const [a, b] = [light(ink), light(paper)], ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) say(`contrast ${ratio.toFixed(1)}: ${where(parent)}`);
  }

  // Names of lanes and their tasks, as the canvas draws them.
  for (const view of [window.foretrace, window.foretrace?.job].filter(Boolean)) {
    for (const { name, bar } of view.boxes()) {
      if (name.x < bar.x + bar.width && bar.x < name.x + name.width && name.y < bar.y + bar.height && bar.y < name.y + name.height) { say("the name of a lane covers its tasks"); break; }
    }
  }
  return out;
})()"""
