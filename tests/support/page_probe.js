// Lays every page out at every width in both themes, and says what a reader would stumble over.
// `request` has {pages, widths, themes}; the answer ends up as JSON in an element called "found".

const LEAST_PX = 11, MOST_PX = 20, LEAST_CONTRAST = 4.5;

const parse = (colour) => {
  const [r, g, b, a = 1] = (colour.match(/[\d.]+/g) || [0, 0, 0, 0]).map(Number);
  return [r, g, b, a];
};
const over = ([r, g, b, a], [R, G, B]) => [a * r + (1 - a) * R, a * g + (1 - a) * G, a * b + (1 - a) * B, 1];
const luminance = (colour) => {
  const [r, g, b] = colour.slice(0, 3).map((c) => c / 255).map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const contrast = (a, b) => {
  const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y);
  return (high + 0.05) / (low + 0.05);
};

// What an HTML element stands on: the backgrounds of its ancestors, one over the other.
const behind = (element, win) => {
  const chain = [];
  for (let e = element; e; e = e.parentElement) chain.unshift(e);
  return chain.reduce((under, e) => over(parse(win.getComputedStyle(e).backgroundColor), under), [255, 255, 255, 1]);
};

// What lies below a text of a chart at a point, and whether a later shape covers it.
const below = (text, x, y, doc, win) => {
  const stack = doc.elementsFromPoint(x, y);
  const place = stack.indexOf(text);
  const paint = (e) => {
    const style = win.getComputedStyle(e);
    const [r, g, b, a] = style.fill === "none" || e.localName === "line" ? [0, 0, 0, 0] : parse(style.fill);
    return [r, g, b, a * Number(style.opacity) * Number(style.fillOpacity)];
  };
  const isShape = (e) => e instanceof win.SVGGeometryElement;
  const covered = place > 0 && stack.slice(0, place).some((e) => isShape(e) && paint(e)[3] > 0.3);
  const lower = stack.slice(place + 1).reverse();
  const colour = lower.filter(isShape).reduce((under, e) => over(paint(e), under), behind(text.ownerSVGElement.parentElement, win));
  return { colour, covered };
};

const ofChart = (text, doc, win, faults) => {
  const style = win.getComputedStyle(text), box = text.getBoundingClientRect();
  const frame = text.ownerSVGElement.getBoundingClientRect(), said = text.textContent;
  const size = parseFloat(style.fontSize) * text.getScreenCTM().a;
  if (size < LEAST_PX || size > MOST_PX) faults.push(`"${said}" is ${size.toFixed(1)} px high`);
  if (box.left < frame.left - 1 || box.right > frame.right + 1 || box.top < frame.top - 1 || box.bottom > frame.bottom + 1)
    faults.push(`"${said}" is cut off by its chart`);
  const haloed = style.stroke !== "none" && style.paintOrder.startsWith("stroke");
  for (const share of [0.1, 0.5, 0.9]) {
    const { colour, covered } = below(text, box.left + share * box.width, (box.top + box.bottom) / 2, doc, win);
    if (covered) faults.push(`"${said}" is covered by a shape`);
    const found = contrast(parse(style.fill), haloed ? parse(style.stroke) : colour);
    if (found < LEAST_CONTRAST) faults.push(`"${said}" has a contrast of ${found.toFixed(2)}`);
  }
  return { said, box };
};

const collisions = (texts, faults) => {
  texts.forEach((a, k) => texts.slice(k + 1).forEach((b) => {
    const wide = Math.min(a.box.right, b.box.right) - Math.max(a.box.left, b.box.left);
    const high = Math.min(a.box.bottom, b.box.bottom) - Math.max(a.box.top, b.box.top);
    if (wide > 1 && high > 3) faults.push(`"${a.said}" and "${b.said}" lie on one another`);
  }));
};

const ofPage = (node, win, faults) => {
  const element = node.parentElement, style = win.getComputedStyle(element), said = node.textContent.trim();
  const size = parseFloat(style.fontSize), found = contrast(parse(style.color), behind(element, win));
  if (size < LEAST_PX) faults.push(`"${said}" is ${size} px high`);
  if (found < LEAST_CONTRAST) faults.push(`"${said}" has a contrast of ${found.toFixed(2)}`);
  const range = element.ownerDocument.createRange();
  range.selectNodeContents(node);
  const scrolls = element.closest(".scroll, pre");
  if (!scrolls && range.getBoundingClientRect().right > win.innerWidth + 1) faults.push(`"${said}" leaves the page`);
};

const ofName = (cell, win, faults) => {
  const style = win.getComputedStyle(cell, "::before");
  if (style.content === "none" || style.content === "normal") return;
  const found = contrast(parse(style.color), behind(cell, win));
  if (found < LEAST_CONTRAST || parseFloat(style.fontSize) < LEAST_PX) faults.push(`the name before "${cell.textContent}" is hard to read`);
};

const probe = async (name, page, width, theme) => {
  const frame = document.createElement("iframe");
  frame.style = `width:${width}px;height:600px;border:0`;
  frame.srcdoc = page;
  document.body.append(frame);
  await new Promise((done) => (frame.onload = done));
  const doc = frame.contentDocument, win = frame.contentWindow, faults = [];
  doc.documentElement.dataset.theme = theme;
  doc.querySelectorAll("details").forEach((e) => (e.open = true));
  const style = doc.createElement("style");
  style.textContent = "svg * { pointer-events: visiblePainted !important; }";
  doc.head.append(style);
  frame.style.height = `${doc.documentElement.scrollHeight + 50}px`;
  if (doc.documentElement.scrollWidth > width) faults.push(`the page is ${doc.documentElement.scrollWidth} px wide`);
  let texts = 0;
  for (const svg of doc.querySelectorAll("svg")) {
    const shown = [...svg.querySelectorAll("text")].filter((e) => e.getBoundingClientRect().width > 0);
    texts += shown.length;
    collisions(shown.map((e) => ofChart(e, doc, win, faults)), faults);
  }
  const walker = doc.createTreeWalker(doc.body, win.NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const parent = node.parentElement;
    if (!node.textContent.trim() || parent.closest("svg, script, style") || !parent.getClientRects().length) continue;
    texts += 1;
    ofPage(node, win, faults);
  }
  doc.querySelectorAll("td").forEach((cell) => ofName(cell, win, faults));
  frame.remove();
  return { name, width, theme, texts, faults: [...new Set(faults)] };
};

(async () => {
  const found = [];
  for (const [name, page] of Object.entries(request.pages))
    for (const width of request.widths) for (const theme of request.themes) found.push(await probe(name, page, width, theme));
  const out = document.createElement("pre");
  out.id = "found";
  out.textContent = JSON.stringify(found);
  document.body.append(out);
})();
